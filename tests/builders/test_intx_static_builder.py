import pytest
import torch
from torch import nn

from qconfig import (
    CalibrationConfig,
    calibrate,
    config_from_dict,
    config_to_dict,
    load_checkpoint,
    quantize_,
    save_checkpoint,
)
from qconfig.builders.base import Target, builder_of
from qconfig.builders.intx_static import IntxStaticBuilder
from qconfig.builders.layer_calibration import LayerCalibration
from qconfig.codec.dtypes import DType
from qconfig.configs import (
    Int8StaticActivationIntxWeightConfig,
    PerAxis,
    PerGroup,
    PerTensor,
)
from qconfig.configs.choices import MappingType
from qconfig.errors import BuildError, FieldError, LayoutError
from qconfig.tensors.intx_quantize import quantize_intx
from qconfig.tensors.intx_static import IntxStaticActivationTensor
from qconfig.testing import build_checks
from qconfig.testing.conformance import conformance
from qconfig.testing.subject import Subject, equal_packed
from tests.tensors.intx_static_samples import (
    ASYMMETRIC,
    GROUPS,
    ROWS,
    channel_scales,
    config,
    zero_points,
)
from tests.tensors.samples import activation, float_weight

BUILDER = IntxStaticBuilder()
SYMMETRIC = MappingType.SYMMETRIC
INT8, BFLOAT16 = torch.int8, torch.bfloat16


def bare(**fields):
    """Return a config that carries no scales."""
    return Int8StaticActivationIntxWeightConfig(
        weight_dtype=DType.INT4, weight_granularity=GROUPS, **fields
    )


def observed(**fields):
    """Return a calibration of activations, by default symmetric and per tensor."""
    return LayerCalibration(**{"act_scale": torch.tensor(0.04)} | fields)


CONFIGS = {
    "groups": config(),
    "rows": config(granularity=ROWS),
    "zero point": config(granularity=ROWS, act_zero_point=3),
    "int8": config(bits=8, granularity=ROWS, act_zero_point=-4, weight_mapping_type=ASYMMETRIC),
    "channels": config(act_scale=channel_scales(64), act_zero_point=zero_points(64)),
    "output": config(output_scale=0.3, output_zero_point=1),
    "output channels": config(output_scale=channel_scales(32, BFLOAT16)),
    "bfloat16 scale": config(weight_scale_dtype=DType.BFLOAT16),
    "observed": bare(),
    "observed symmetric": bare(act_mapping_type=SYMMETRIC, quantize_and_dequantize_output=True),
}


CONFORMING = ("int8", "output")


@pytest.mark.parametrize("check", build_checks.CHECKS, ids=lambda c: c.__name__)
@pytest.mark.parametrize("name", CONFIGS)
def test_what_is_announced_is_built(name, check):
    """A plan made from shapes alone has the tensors that `build` gives, of every form."""
    check(Subject(CONFIGS[name]))


@pytest.mark.parametrize(
    "check", [c for k in CONFORMING for c in conformance(CONFIGS[k], dtypes=("bfloat16",))], ids=str
)
def test_every_form_conforms(check):
    """Rows with all zero points, and groups with a quantized output, keep the kit's promises."""
    check()


def test_builder_is_registered():
    """The config leads to the builder."""
    assert isinstance(builder_of(bare()), IntxStaticBuilder)


@pytest.mark.parametrize("granularity", [GROUPS, ROWS])
@pytest.mark.parametrize("mapping", list(MappingType))
def test_codes_and_scales_are_those_of_intx(granularity, mapping):
    """The weight is quantized as the intx family does it, bit for bit."""
    weight = float_weight()
    tensor = BUILDER.build(config(granularity=granularity, weight_mapping_type=mapping), weight)
    expected = quantize_intx(weight, tensor.block_size, DType.INT4, mapping)
    assert torch.equal(tensor.qdata, expected[0])
    assert torch.equal(tensor.scale, expected[1])
    if mapping is ASYMMETRIC:
        assert torch.equal(tensor.zero_point, expected[2])
    else:
        assert tensor.zero_point is None


def test_calibration_lies_on_the_tensor_not_in_its_attributes():
    """Scales are inner tensors; what guards of compiled graphs compare holds none."""
    tensor = BUILDER.build(config(act_zero_point=3, output_scale=0.5), float_weight())
    names, context = tensor.__tensor_flatten__()
    assert {"act_quant_scale", "act_quant_zero_point", "output_act_quant_scale"} <= set(names)
    assert not any(isinstance(value, (torch.Tensor, float)) for value in context)
    hash(context)


@pytest.mark.parametrize(
    ("scale", "zero_point"),
    [
        (torch.tensor(0.03), torch.tensor(3, dtype=INT8)),
        (torch.tensor(0.03, dtype=BFLOAT16), torch.tensor(-128, dtype=torch.int64)),
        (torch.tensor([0.03]), torch.tensor([127], dtype=torch.int16)),
        (torch.tensor([[0.03]], dtype=torch.float16), None),
        (channel_scales(64, BFLOAT16), zero_points(64)),
        (channel_scales(64).reshape(1, 64), zero_points(64).reshape(1, 64)),
    ],
    ids=str,
)
def test_a_restored_config_quantizes_a_module(scale, zero_point):
    """Through JSON, tensors in a config keep type, shape and bits, and quantize alike."""
    original = config(act_scale=scale, act_zero_point=zero_point, output_scale=0.5)
    restored = config_from_dict(config_to_dict(original))
    for name, value in (("act_quant_scale", scale), ("act_quant_zero_point", zero_point)):
        found = getattr(restored, name)
        if value is None:
            assert found is None
        else:
            assert (found.dtype, found.shape) == (value.dtype, value.shape)
            assert torch.equal(found, value)
    layers = [nn.Linear(64, 32) for _ in range(2)]
    layers[1].load_state_dict(layers[0].state_dict())
    for layer, used in zip(layers, (original, restored), strict=True):
        quantize_(layer, used)
    assert equal_packed(layers[0].weight, layers[1].weight)
    assert torch.equal(layers[0](activation(3, 64)), layers[1](activation(3, 64)))


def test_scales_keep_their_types_on_the_tensor():
    """A bfloat16 scale stays bfloat16; a zero point of any integer type becomes int8."""
    used = config(act_scale=torch.tensor(0.03, dtype=BFLOAT16), act_zero_point=torch.tensor(-128))
    tensor = BUILDER.build(used, float_weight())
    assert tensor.act_quant_scale.dtype == BFLOAT16
    assert tensor.act_quant_scale.shape == (1,)
    assert tensor.act_quant_zero_point.dtype == INT8
    assert tensor.act_quant_zero_point.tolist() == [-128]


@pytest.mark.parametrize("value", [-129, 128, 256, 2**31])
@pytest.mark.parametrize("name", ["act_zero_point", "output_zero_point"])
def test_a_zero_point_outside_of_int8_is_refused(name, value):
    """It is never wrapped into the range of int8, whatever its integer type."""
    with pytest.raises(FieldError, match="a zero point is no int8 code"):
        config(output_scale=0.5, **{name: torch.tensor(value)})


def test_a_symmetric_activation_with_a_zero_point_is_refused():
    """SYMMETRIC and a zero point contradict each other."""
    with pytest.raises(FieldError, match="a symmetric activation has no zero point"):
        config(act_zero_point=0, act_mapping_type=SYMMETRIC)


def test_one_zero_point_serves_all_channels():
    """A single zero point beside a scale for each channel is told to each."""
    tensor = BUILDER.build(config(act_scale=channel_scales(64), act_zero_point=3), float_weight())
    assert tensor.act_quant_zero_point.tolist() == [3] * 64


@pytest.mark.parametrize("size", [2, 32, 65])
def test_scales_of_other_channels_are_refused(size):
    """Neither one scale nor one for each of K input channels: an error of the field, both ways."""
    used = config(act_scale=channel_scales(size))
    target = Target("m.weight", (32, 64), DType.FLOAT32, ("Linear",))
    for call in (
        lambda: BUILDER.build(used, float_weight()),
        lambda: BUILDER.layout(used, target),
    ):
        with pytest.raises(LayoutError, match="neither per tensor nor per channel") as caught:
            call()
        assert caught.value.pointer == "/act_quant_scale"


def test_a_group_size_that_does_not_divide_is_refused():
    """Groups of 48 do not tile rows of 64."""
    with pytest.raises(FieldError, match="group_size does not divide"):
        BUILDER.build(config(granularity=PerGroup(48)), float_weight())


@pytest.mark.parametrize(
    "weight", [torch.ones(64), torch.ones(2, 2, 2, 64), torch.ones(2, 64).int()]
)
def test_other_weights_are_refused(weight):
    """Vectors, tensors of rank 4 and integers are no weights."""
    with pytest.raises(BuildError, match="the weight cannot be quantized to int4"):
        BUILDER.build(config(), weight)


# calibration


@pytest.mark.parametrize(
    ("used", "needed"),
    [
        (bare(), True),
        (config(), False),
        (config(output_scale=0.5), False),
        (bare(quantize_and_dequantize_output=True), True),
    ],
)
def test_calibration_is_needed_where_the_config_has_no_scale(used, needed):
    """The config says whether it can do without."""
    assert BUILDER.needs_calibration(used) is needed


def test_an_output_without_scale_needs_calibration():
    """A scale of activations alone is not enough for outputs, and the error says what is."""
    used = Int8StaticActivationIntxWeightConfig(
        act_quant_scale=torch.tensor(0.1), quantize_and_dequantize_output=True
    )
    assert BUILDER.needs_calibration(used)
    with pytest.raises(
        BuildError, match="output_act_quant_scale is neither in the config"
    ) as error:
        BUILDER.build(used, float_weight(), observed())
    assert "output_granularity" in error.value.hint


def test_calibration_supplies_scales():
    """What was observed of the layer lies on the tensor."""
    seen = observed(
        act_zero_point=torch.tensor(7, dtype=INT8),
        output_scale=torch.tensor(0.5),
        output_zero_point=torch.tensor(-9, dtype=INT8),
    )
    tensor = BUILDER.build(bare(quantize_and_dequantize_output=True), float_weight(), seen)
    assert tensor.act_quant_scale.tolist() == pytest.approx([0.04])
    assert tensor.act_quant_zero_point.tolist() == [7]
    assert tensor.output_act_quant_scale.tolist() == [0.5]
    assert tensor.output_act_quant_zero_point.tolist() == [-9]


def test_calibration_per_channel():
    """A scale for each input channel serves a config of that granularity."""
    seen = observed(act_scale=channel_scales(64), act_zero_point=zero_points(64))
    tensor = BUILDER.build(bare(act_granularity=PerAxis(-1)), float_weight(), seen)
    assert torch.equal(tensor.act_quant_scale, channel_scales(64))
    assert torch.equal(tensor.act_quant_zero_point, zero_points(64))


def test_the_config_comes_before_the_calibration():
    """A scale that the config carries is used, whatever was observed."""
    tensor = BUILDER.build(config(act_scale=0.03), float_weight(), observed())
    assert tensor.act_quant_scale.tolist() == pytest.approx([0.03])


REFUSED = {
    "no calibration": (bare(), None, "act_quant_scale is neither in the config nor observed"),
    "nothing observed": (bare(), LayerCalibration(), "act_quant_scale is neither in the config"),
    "channels instead of one": (
        bare(),
        observed(act_scale=channel_scales(64)),
        "scale of activations is not of the config's granularity",
    ),
    "one instead of channels": (
        bare(act_granularity=PerAxis(-1)),
        observed(),
        "scale of activations is not of the config's granularity",
    ),
    "zero point for a symmetric config": (
        bare(act_mapping_type=SYMMETRIC),
        observed(act_zero_point=torch.tensor(1, dtype=INT8)),
        "has a zero point of activations, and the config is symmetric",
    ),
    "output channels": (
        bare(quantize_and_dequantize_output=True),
        observed(output_scale=channel_scales(32)),
        "the calibration has a scale for each output channel",
    ),
    "float8 scales": (
        bare(),
        observed(quant_dtype=DType.FLOAT8_E4M3FN),
        "the calibration is not for int8 activations",
    ),
}


@pytest.mark.parametrize(("used", "seen", "message"), REFUSED.values(), ids=REFUSED)
def test_a_calibration_that_does_not_fit_is_refused(used, seen, message):
    """Nothing is guessed: a missing or unfitting observation is an error that says which."""
    with pytest.raises(BuildError, match=message):
        BUILDER.build(used, float_weight(), seen)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("act_quant_scale", torch.tensor(1e-40)),
        ("act_quant_scale", torch.tensor(1e300, dtype=torch.float64)),
        ("output_act_quant_scale", torch.tensor(1e-300, dtype=torch.float64)),
    ],
)
def test_scales_that_float32_does_not_hold_are_refused(name, value):
    """Their reciprocal would be infinite or 0 in float32, and every output NaN or 0."""
    options = {"act_scale": value} if name == "act_quant_scale" else {"output_scale": value}
    with pytest.raises(BuildError, match=f"{name} does not fit float32"):
        BUILDER.build(config(**options), float_weight())


# files


@pytest.mark.parametrize("mmap", [True, False])
def test_safetensors_give_every_bit_back(tmp_path, mmap):
    """A model that is saved and loaded computes what it did, calibration and all."""
    used = config(
        granularity=ROWS,
        act_scale=torch.tensor(0.03, dtype=BFLOAT16),
        act_zero_point=5,
        output_scale=torch.tensor(0.4),
        weight_mapping_type=ASYMMETRIC,
    )
    net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64))
    quantize_(net, used)
    x = activation(5, 64)
    expected = net(x)
    save_checkpoint(net, tmp_path / "m", config=used)
    fresh = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64))
    load_checkpoint(tmp_path / "m", model=fresh, mmap=mmap)
    assert isinstance(fresh[0].weight, IntxStaticActivationTensor)
    assert equal_packed(fresh[2].weight, net[2].weight)
    assert torch.equal(fresh(x), expected)


@pytest.mark.parametrize("mapping", [SYMMETRIC, ASYMMETRIC])
@pytest.mark.parametrize("granularity", [PerTensor(), PerAxis(-1)])
def test_a_calibrated_model_computes_as_before_up_to_rounding(mapping, granularity):
    """Scales that calibrate() observes at each layer keep the model's results within 2 percent."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32))
    batches = [activation(50, 64) + 1 for _ in range(2)]
    expected = net(batches[0])
    seen = calibrate(
        net,
        batches,
        CalibrationConfig(
            granularity=granularity, mapping_type=mapping, output_granularity=PerTensor()
        ),
    )
    used = Int8StaticActivationIntxWeightConfig(
        weight_dtype=DType.INT8,
        act_mapping_type=mapping,
        act_granularity=granularity,
        quantize_and_dequantize_output=True,
    )
    quantize_(net, used, calibration=seen)
    scales = [layer.weight.act_quant_scale for layer in (net[0], net[2])]
    assert not torch.equal(*scales)
    assert (net(batches[0]) - expected).norm() < 0.02 * expected.norm()
    if mapping is ASYMMETRIC and granularity == PerTensor():
        # After a ReLU all activations are positive: their zero point is the lowest code.
        assert net[2].weight.act_quant_zero_point.tolist() == [-128]
