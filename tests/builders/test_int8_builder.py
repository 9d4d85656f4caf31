import pytest
import torch

from qconfig.builders.base import Target, builder_of
from qconfig.builders.int8 import Int8WeightOnlyBuilder
from qconfig.codec.dtypes import DType
from qconfig.configs import Int8WeightOnlyConfig, PerGroup, PerRow, PerTensor
from qconfig.errors import BuildError, FieldError
from qconfig.tensors import Int8Tensor
from tests.tensors.samples import GRANULARITIES, float_weight

BUILDER = Int8WeightOnlyBuilder()


def target(shape, dtype="bfloat16", *classes):
    """Return a parameter of a module class."""
    return Target("m.weight", shape, DType(dtype), classes)


def test_builder_is_registered():
    """The config leads to the builder."""
    assert isinstance(builder_of(Int8WeightOnlyConfig()), Int8WeightOnlyBuilder)


@pytest.mark.parametrize(
    "served",
    [
        target((32, 64), "bfloat16", "Linear"),
        target((32, 64), "float16", "NonDynamicallyQuantizableLinear", "Linear"),
        target((32, 64), "float32", "Embedding"),
        target((32, 64), "float64"),
        target((3, 32, 64), "bfloat16", "Experts"),
        target((0, 64), "bfloat16", "Linear"),
    ],
)
def test_served_parameters(served):
    """Linear, its subclasses, Embedding, unknown owners and experts of any module are served."""
    assert BUILDER.refusal(Int8WeightOnlyConfig(), served) is None


@pytest.mark.parametrize(
    ("config", "refused", "reason"),
    [
        (Int8WeightOnlyConfig(), target((32,)), "rank 1 is not 2 or 3"),
        (Int8WeightOnlyConfig(), target((2, 2, 3, 3)), "rank 4 is not 2 or 3"),
        (
            Int8WeightOnlyConfig(),
            target((32, 64), "int8"),
            "dtype int8 is not float16, bfloat16, float32 or float64",
        ),
        (
            Int8WeightOnlyConfig(),
            target((32, 64), "bfloat16", "LayerNorm", "Module"),
            "module class LayerNorm is not one of Linear, Embedding, and no rule names it",
        ),
    ],
)
def test_refusals_say_why(config, refused, reason):
    """A parameter that cannot be served gets its reason in one line."""
    assert BUILDER.refusal(config, refused) == reason


@pytest.mark.parametrize("name", GRANULARITIES)
@pytest.mark.parametrize("shape", [(32, 64), (3, 32, 64)])
def test_announced_layout_is_built(name, shape):
    """The layout from the shape alone has the shapes and types of what is built."""
    config = Int8WeightOnlyConfig(GRANULARITIES[name])
    announced = BUILDER.layout(config, target(shape))
    built = BUILDER.build(config, float_weight(*shape, dtype=torch.bfloat16)).to_layout()
    assert announced.scale.shape == tuple(built.scale.shape)
    assert announced.qdata.shape == tuple(built.qdata.shape)
    assert (announced.block_size, announced.dtype) == (built.block_size, built.dtype)
    assert built.zero_point is None


@pytest.mark.parametrize(
    ("granularity", "message"),
    [
        (PerGroup(48), "group_size does not divide the last dimension"),
        (PerRow(2), "dim is not a dimension of the tensor"),
    ],
)
def test_a_granularity_that_does_not_fit_is_an_error(granularity, message):
    """`layout` and `build` raise; `refusal` is silent, for skipping would hide a mistake."""
    config = Int8WeightOnlyConfig(granularity)
    assert BUILDER.refusal(config, target((32, 64))) is None
    with pytest.raises(FieldError, match=message):
        BUILDER.layout(config, target((32, 64)))
    with pytest.raises(FieldError, match=message):
        BUILDER.build(config, float_weight())


def test_build_gives_an_int8_tensor():
    """The result shows the weight's type and dequantizes close to it."""
    weight = float_weight(dtype=torch.bfloat16)
    tensor = BUILDER.build(Int8WeightOnlyConfig(PerTensor()), weight)
    assert isinstance(tensor, Int8Tensor)
    assert tensor.dtype == torch.bfloat16
    assert (tensor.dequantize() - weight).abs().max() < 0.03


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (torch.ones(4), "rank 1 is not 2 or 3"),
        (torch.ones(4, 4, dtype=torch.int8), "dtype int8 is not"),
    ],
)
def test_build_refuses_what_refusal_names(weight, message):
    """`build` raises the reason that `refusal` gives."""
    with pytest.raises(BuildError, match=message):
        BUILDER.build(Int8WeightOnlyConfig(), weight)
