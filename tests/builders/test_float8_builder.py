import pytest
import torch
from torch.nn.functional import linear

from qconfig.builders.base import CalibratedBuilder, Target, builder_of
from qconfig.builders.layer_calibration import LayerCalibration
from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import TensorSpec
from qconfig.configs import PerBlock, PerGroup, PerRow, PerTensor
from qconfig.configs.choices import Float8PackingFormat, KernelPreference
from qconfig.configs.float8 import (
    Float8DynamicActivationFloat8WeightConfig,
    Float8MMConfig,
    Float8StaticActivationFloat8WeightConfig,
    Float8WeightOnlyConfig,
)
from qconfig.errors import BuildError, FieldError
from qconfig.layouts.float8 import QuantizeTensorToFloat8Kwargs
from qconfig.tensors.float8 import Float8Tensor
from tests.tensors.samples import activation, float_weight

TILES = (PerBlock((1, 128)), PerBlock((128, 128)))
CONFIGS = {
    "weight_only": Float8WeightOnlyConfig(),
    "weight_only_tensor": Float8WeightOnlyConfig(granularity=PerTensor()),
    "weight_only_group": Float8WeightOnlyConfig(granularity=PerGroup(32)),
    "weight_only_e5m2": Float8WeightOnlyConfig(weight_dtype=DType.FLOAT8_E5M2),
    "weight_only_tile": Float8WeightOnlyConfig(granularity=PerBlock((128, 128))),
    "dynamic": Float8DynamicActivationFloat8WeightConfig(),
    "dynamic_row": Float8DynamicActivationFloat8WeightConfig(granularity=PerRow()),
    "dynamic_tile": Float8DynamicActivationFloat8WeightConfig(granularity=TILES),
    "static": Float8StaticActivationFloat8WeightConfig(act_quant_scale=torch.tensor([[0.01]])),
    "static_output": Float8StaticActivationFloat8WeightConfig(
        act_quant_scale=torch.tensor(0.01),
        quantize_and_dequantize_output=True,
        output_act_quant_scale=torch.tensor(0.2),
    ),
}


def spec(tensor):
    """Return what a layout says of a tensor before it is there."""
    return None if tensor is None else TensorSpec(DType.parse(tensor.dtype), tuple(tensor.shape))


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("shape", [(256, 128), (2, 128, 128)])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_layout_announces_what_build_gives(name, shape, dtype):
    """Every field of the announced layout is that of the tensor, without its elements."""
    config = CONFIGS[name]
    builder = builder_of(config)
    weight = float_weight(*shape, dtype=dtype)
    announced = builder.layout(config, Target("x.weight", shape, DType.parse(dtype)))
    built = builder.build(config, weight)
    assert isinstance(built, Float8Tensor)
    for field in built.inner_tensors:
        assert getattr(announced, field) == spec(getattr(built, field)), field
    for field, value in built.inner_attributes.items():
        assert getattr(announced, field) == value, field
    assert announced.dtype == DType.parse(built.dtype)


@pytest.mark.parametrize("name", CONFIGS)
def test_values_are_near_the_weight(name):
    """A weight comes back within the width of its codes."""
    weight = float_weight(256, 128)
    built = builder_of(CONFIGS[name]).build(CONFIGS[name], weight)
    bits = 2 if built.qdata.dtype == torch.float8_e5m2 else 3
    largest = weight.abs().max()
    assert (
        (built.dequantize() - weight).abs() <= weight.abs() * 2.0 ** -(bits + 1) + largest * 2e-5
    ).all()


def test_dynamic_settings_reach_the_tensor():
    """Types, bounds and what torchao's kernels need are those of the config."""
    config = Float8DynamicActivationFloat8WeightConfig(
        activation_dtype=DType.FLOAT8_E5M2, granularity=PerRow(), activation_value_lb=0.5,
        activation_value_ub=2.0, kernel_preference=KernelPreference.TORCH,
    )  # fmt: skip
    built = builder_of(config).build(config, float_weight(dtype=torch.bfloat16))
    assert built.act_quant_kwargs == QuantizeTensorToFloat8Kwargs(
        DType.FLOAT8_E5M2, PerRow(), None, 0.5, 2.0, KernelPreference.TORCH
    )
    assert built.mm_config == Float8MMConfig(use_fast_accum=True)
    assert built.kernel_preference is KernelPreference.TORCH


def test_tiles_are_summed_exactly_as_torchao_wants():
    """Of tiles, torchao's default is not to lose bits of sums."""
    config = Float8DynamicActivationFloat8WeightConfig(granularity=TILES)
    assert builder_of(config).build(config, float_weight(128, 128)).mm_config == Float8MMConfig()


@pytest.mark.parametrize(
    "packing", [p for p in Float8PackingFormat if p is not Float8PackingFormat.PLAIN]
)
def test_other_packings_are_refused_by_name(packing):
    """Sparse codes are refused when planning and when building."""
    config = Float8DynamicActivationFloat8WeightConfig(packing_format=packing)
    builder = builder_of(config)
    with pytest.raises(FieldError, match="packing_format is not built here") as caught:
        builder.layout(config, Target("x.weight", (32, 64), DType.BFLOAT16))
    assert caught.value.pointer == "/packing_format"
    assert packing.value in caught.value.found
    with pytest.raises(FieldError, match="packing_format is not built here"):
        builder.build(config, float_weight())


def test_static_scales_of_the_config():
    """A scale in the config is taken as one float32 number, whatever its shape and type."""
    config = Float8StaticActivationFloat8WeightConfig(
        act_quant_scale=torch.tensor([[0.25]], dtype=torch.bfloat16)
    )
    builder = builder_of(config)
    assert isinstance(builder, CalibratedBuilder)
    assert not builder.needs_calibration(config)
    built = builder.build(config, float_weight())
    assert torch.equal(built.act_quant_scale, torch.tensor(0.25))
    assert built.output_act_quant_kwargs is None


def test_static_scales_of_a_calibration():
    """Scales that the config lacks come from the calibration, those it has do not."""
    config = Float8StaticActivationFloat8WeightConfig(
        act_quant_scale=torch.tensor(0.25), quantize_and_dequantize_output=True
    )
    builder = builder_of(config)
    assert builder.needs_calibration(config)
    seen = LayerCalibration(
        act_scale=torch.tensor(9.0), output_scale=torch.tensor(0.5), quant_dtype=DType.FLOAT8_E4M3FN
    )
    built = builder.build(config, float_weight(), seen)
    assert torch.equal(built.act_quant_scale, torch.tensor(0.25))
    assert torch.equal(built.output_act_quant_scale, torch.tensor(0.5))


@pytest.mark.parametrize(
    ("calibration", "message"),
    [
        (None, "act_quant_scale is neither in the config nor observed"),
        (LayerCalibration(), "act_quant_scale is neither in the config nor observed"),
        (
            LayerCalibration(act_scale=torch.ones(64), quant_dtype=DType.FLOAT8_E4M3FN),
            "the calibration has a scale for each channel where act_quant_scale is one for all",
        ),
        (
            LayerCalibration(act_scale=torch.tensor(1.0)),
            "the calibration is not for float8_e4m3fn activations",
        ),
    ],
)
def test_calibrations_that_do_not_fit_are_refused(calibration, message):
    """A scale that is missing, per channel, or for other codes is an error."""
    config = Float8StaticActivationFloat8WeightConfig()
    with pytest.raises(BuildError) as caught:
        builder_of(config).build(config, float_weight(), calibration)
    assert caught.value.message == message


@pytest.mark.parametrize("name", CONFIGS)
def test_what_is_no_weight_is_refused(name):
    """Vectors, integers and convolutions are refused with the reason."""
    builder = builder_of(CONFIGS[name])
    with pytest.raises(BuildError, match="rank 1 is not 2 or 3"):
        builder.build(CONFIGS[name], torch.ones(64))
    with pytest.raises(BuildError, match="dtype int8 is not"):
        builder.build(CONFIGS[name], torch.ones(64, 64, dtype=torch.int8))
    target = Target("c.weight", (64, 64), DType.BFLOAT16, ("Conv1d", "_ConvNd"))
    assert builder.refusal(CONFIGS[name], target) == "module class Conv1d has no float8 product"


def test_embeddings_have_no_activation():
    """Weight-only serves embeddings; where activations are quantized, they are refused."""
    target = Target("e.weight", (64, 64), DType.BFLOAT16, ("Embedding", "Module"))
    for name, config in CONFIGS.items():
        refused = builder_of(config).refusal(config, target) is not None
        assert refused != name.startswith("weight_only"), name


def test_granularity_that_does_not_fit_is_an_error():
    """A group that does not divide K, or tiles that do not tile, are no reason to skip."""
    for config in (CONFIGS["weight_only_group"], CONFIGS["dynamic_tile"]):
        with pytest.raises(FieldError):
            builder_of(config).layout(config, Target("x.weight", (48, 48), DType.BFLOAT16))


@pytest.mark.parametrize("name", CONFIGS)
def test_built_weights_compute(name):
    """A built weight gives what it says, near to the product of the float weight."""
    weight, x = float_weight(128, 128), activation(5, 128)
    built = builder_of(CONFIGS[name]).build(CONFIGS[name], weight)
    expected = linear(x, weight)
    assert (linear(x, built) - expected).abs().max() < 0.15 * expected.abs().max()
