import pytest
import torch

from qconfig.builders.base import Target, builder_of
from qconfig.codec.dtypes import DType
from qconfig.configs.float_quant import FloatQuantConfig
from qconfig.configs.granularity import PerAxis
from qconfig.configs.groupwise_quant import GroupwiseFloatQuantConfig, GroupwiseIntQuantConfig
from qconfig.configs.int_quant import IntQuantConfig
from qconfig.errors import BuildError, FieldError
from qconfig.tensors.quant_tensor import (
    FloatQuantTensor,
    GroupwiseFloatQuantTensor,
    GroupwiseIntQuantTensor,
    IntQuantTensor,
)
from qconfig.tensors.quantizers import quantize_weight
from tests.tensors.quantizer_samples import WEIGHTS_OF, same_bits

CONFIGS = [
    (IntQuantConfig(4, granularity=PerAxis(0)), IntQuantTensor),
    (FloatQuantConfig.of_format("OCP_E5M2"), FloatQuantTensor),
    (GroupwiseIntQuantConfig(group_size=16, zero_point_kind="STATS"), GroupwiseIntQuantTensor),
    (GroupwiseFloatQuantConfig(group_size=16), GroupwiseFloatQuantTensor),
    (
        IntQuantConfig(scale_kind="PARAMETER", threshold=2.0, scale_restriction="LOG_FP"),
        IntQuantTensor,
    ),
]


def target_of(shape, *classes, dtype=DType.FLOAT32, parameter="weight", named=False):
    """Return a parameter of the module `layer`."""
    return Target(f"layer.{parameter}", shape, dtype, classes, named)


@pytest.mark.parametrize(("config", "kind"), CONFIGS, ids=str)
def test_weights_are_those_of_the_quantizer(config, kind):
    """Value, scale and zero point are those of `quantize_weight`, without a gradient."""
    weight = WEIGHTS_OF["mixed"].clone().requires_grad_()
    tensor = builder_of(config).build(config, weight)
    expected = quantize_weight(weight.detach(), config)
    assert type(tensor) is kind
    grouped = "grouped_" if hasattr(tensor, "group_size") else ""
    names = (f"{grouped}value", f"{grouped}scale", f"{grouped}zero_point")
    for name, part in zip(names, expected, strict=True):
        assert same_bits(getattr(tensor, name), part)
    assert not tensor.requires_grad


@pytest.mark.parametrize(
    ("shape", "module", "config"),
    [
        ((6, 4, 3), "Conv1d", IntQuantConfig(granularity=PerAxis(0))),
        ((6, 4, 3, 3), "Conv2d", GroupwiseFloatQuantConfig(group_size=3)),
        ((6, 4, 3, 3, 3), "Conv3d", FloatQuantConfig(granularity=PerAxis(0))),
        ((4, 6, 3), "ConvTranspose1d", IntQuantConfig(granularity=PerAxis(1))),
        ((4, 6, 3, 3), "ConvTranspose2d", GroupwiseIntQuantConfig(group_size=3, group_dim=0)),
        ((40, 6), "Embedding", IntQuantConfig(granularity=PerAxis(0))),
    ],
)
def test_kernels_and_embeddings(shape, module, config):
    """Weights of convolutions and embeddings have the layout that was announced."""
    builder = builder_of(config)
    target = target_of(shape, module)
    assert builder.refusal(config, target) is None
    announced = builder.layout(config, target)
    built = builder.build(config, torch.randn(shape)).to_layout()
    for name in ("value", "scale", "zero_point"):
        assert tuple(getattr(built, name).shape) == tuple(getattr(announced, name).shape)


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        (target_of((4, 4), "Linear", dtype=DType.INT8), "dtype int8 is not float16"),
        (target_of((), "Linear"), "rank 0 is no weight"),
        (target_of((0, 4), "Linear"), "has no elements"),
        (target_of((4, 4), "LSTM", "RNNBase", named=True), "LSTM is not served"),
        (target_of((4,), "LayerNorm"), "LayerNorm is not Linear, Embedding or a convolution"),
        (target_of((4,), "Linear", parameter="bias"), "it is no weight"),
        (
            target_of((4, 6, 3), "ConvTranspose1d"),
            "PerAxis(0) has the input channels of ConvTranspose1d: use PerAxis(1)",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_left_alone(target, reason):
    """Each refusal says why."""
    config = IntQuantConfig(granularity=PerAxis(0))
    assert reason in builder_of(config).refusal(config, target)


def test_scales_from_outside_are_for_biases():
    """A weight has no scale from outside."""
    config = IntQuantConfig(scale_kind="EXTERNAL")
    reason = builder_of(config).refusal(config, target_of((4, 4), "Linear"))
    assert reason == "scale_kind EXTERNAL is for biases"
    with pytest.raises(BuildError, match="EXTERNAL is for biases"):
        builder_of(config).build(config, torch.ones(4, 4))


def test_formats_beyond_float16_are_refused_there():
    """A format whose largest value is infinite in the weight's type has no scales."""
    config = FloatQuantConfig.of_format("FINITE_E5M2")
    target = target_of((4, 4), "Linear", dtype=DType.FLOAT16)
    assert "does not hold the largest value" in builder_of(config).refusal(config, target)


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize(("config", "kind"), CONFIGS, ids=str)
def test_weights_that_are_not_finite(config, kind, value):
    """They are refused, with count and place."""
    weight = torch.ones(4, 40)
    weight[1, 2] = value
    with pytest.raises(BuildError, match=r"1 values .* the first at \[1, 2\]"):
        builder_of(config).build(config, weight)


def test_ranges_that_overflow():
    """A range that the weight's type cannot hold is refused."""
    config = IntQuantConfig(signed=False, scale_statistic="MIN_MAX", zero_point_kind="STATS")
    weight = torch.tensor([[-60000.0, 60000.0]]).half()
    with pytest.raises(BuildError, match="too large for scales in float16"):
        builder_of(config).build(config, weight)


def test_an_axis_that_does_not_exist():
    """It is an error of the config, in plans and when the weight is built."""
    config = IntQuantConfig(granularity=PerAxis(2))
    with pytest.raises(FieldError, match="no dimension of the tensor"):
        builder_of(config).layout(config, target_of((4, 4), "Linear"))
    with pytest.raises(FieldError, match="no dimension of the tensor"):
        builder_of(config).build(config, torch.ones(4, 4))
