import pytest
import torch

from qconfig.builders.base import Target, builder_of
from qconfig.builders.int4 import Int4WeightOnlyBuilder
from qconfig.codec.dtypes import DType
from qconfig.configs import Int4WeightOnlyConfig
from qconfig.configs.choices import Int4ChooseQParamsAlgorithm, Int4PackingFormat
from qconfig.errors import BuildError, FieldError, LayoutError
from qconfig.tensors.int4 import Int4Tensor
from qconfig.tensors.int4_hqq import quantize_hqq
from qconfig.tensors.int4_quantize import quantize_tinygemm
from tests.tensors.samples import float_weight

BUILDER = Int4WeightOnlyBuilder()
CONFIG = Int4WeightOnlyConfig(group_size=32)
HQQ = Int4WeightOnlyConfig(
    group_size=32, int4_choose_qparams_algorithm=Int4ChooseQParamsAlgorithm.HQQ
)


def target(shape, *classes):
    """Return a parameter of a module class."""
    return Target("m.weight", shape, DType.BFLOAT16, classes)


def test_builder_is_registered():
    """The config leads to the builder."""
    assert isinstance(builder_of(CONFIG), Int4WeightOnlyBuilder)


@pytest.mark.parametrize(
    "served",
    [target((32, 64), "Linear"), target((32, 64)), target((3, 32, 64), "Experts")],
)
def test_served_parameters(served):
    """Linear, unknown owners and stacked experts are served."""
    assert BUILDER.refusal(CONFIG, served) is None


@pytest.mark.parametrize(
    ("refused", "reason"),
    [
        (target((64,)), "rank 1 is not 2 or 3"),
        (target((32, 64), "Embedding"), "module class Embedding has no int4 product"),
        (target((32, 64), "Conv1d", "_ConvNd"), "module class Conv1d has no int4 product"),
    ],
)
def test_refusals_say_why(refused, reason):
    """A parameter that cannot be served gets its reason in one line."""
    assert BUILDER.refusal(CONFIG, refused) == reason


@pytest.mark.parametrize("config", [CONFIG, HQQ], ids=["tinygemm", "hqq"])
@pytest.mark.parametrize("shape", [(32, 64), (3, 32, 64), (0, 64)])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_what_is_announced_is_built(config, shape, dtype):
    """Layout announces shapes, types and block of the tensor; values lie within a code's step."""
    weight = float_weight(*shape, dtype=dtype)
    announced = BUILDER.layout(config, Target("m.weight", shape, DType.parse(dtype)))
    built = BUILDER.build(config, weight)
    assert isinstance(built, Int4Tensor)
    for name, value in built.inner_tensors.items():
        spec = getattr(announced, name)
        assert (value is None) == (spec is None)
        if value is not None:
            assert (tuple(value.shape), DType.parse(value.dtype)) == (spec.shape, spec.dtype)
            assert value.is_contiguous()
    assert built.inner_attributes == {n: getattr(announced, n) for n in built.inner_attributes}
    assert built.dtype == dtype
    if weight.numel():
        steps = (built.dequantize() - weight).abs() / built.scale.max()
        assert steps.max() < 1.5


@pytest.mark.parametrize(
    ("config", "quantize"), [(CONFIG, quantize_tinygemm), (HQQ, quantize_hqq)], ids=["tiny", "hqq"]
)
def test_the_algorithm_is_the_configs(config, quantize):
    """TINYGEMM and HQQ give codes, scales and zero points of their own."""
    weight = float_weight()
    built = BUILDER.build(config, weight)
    qdata, scale, zero_point = quantize(weight, 32)
    assert torch.equal(built.qdata, qdata)
    assert torch.equal(built.scale, scale.t())
    assert torch.equal(built.zero_point, zero_point.t())


@pytest.mark.parametrize(
    "packing", [f for f in Int4PackingFormat if f is not Int4PackingFormat.PLAIN]
)
def test_other_packing_formats_are_refused_by_name(packing):
    """The error names the format and says what to set."""
    config = Int4WeightOnlyConfig(int4_packing_format=packing)
    for call in (
        lambda: BUILDER.layout(config, target((32, 128))),
        lambda: BUILDER.build(config, float_weight(32, 128)),
    ):
        with pytest.raises(FieldError, match="only the packing format PLAIN is built") as caught:
            call()
        assert caught.value.found == repr(packing.value)
        assert "set int4_packing_format to PLAIN" in caught.value.hint


@pytest.mark.parametrize(
    ("shape", "group", "message"),
    [
        ((32, 63), 63, "int4 codes are two a byte, and K is odd"),
        ((32, 64), 128, "group_size does not divide the last dimension"),
        ((32, 64), 24, "group_size does not divide the last dimension"),
    ],
)
def test_shapes_that_do_not_fit(shape, group, message):
    """An odd K, or one that the group size does not divide, is an error of layout and build."""
    config = Int4WeightOnlyConfig(group_size=group)
    with pytest.raises(FieldError, match=message) as caught:
        BUILDER.layout(config, target(shape))
    assert caught.value.pointer == "/group_size"
    with pytest.raises(FieldError, match=message):
        BUILDER.build(config, float_weight(*shape))


def test_other_types_and_ranks_are_refused():
    """Build says what it cannot quantize."""
    with pytest.raises(BuildError, match="cannot be quantized to int4: rank 1 is not 2 or 3"):
        BUILDER.build(CONFIG, float_weight(64))
    with pytest.raises(BuildError, match="cannot be quantized to int4: dtype int8 is not"):
        BUILDER.build(CONFIG, torch.zeros(32, 64, dtype=torch.int8))


def test_learned_scales_are_kept():
    """Given scales and zero points are in the tensor as they are; None stands for zeros."""
    weight = float_weight(2, 8, 64)
    scale, zero = torch.rand(2, 8, 2) + 0.1, torch.randn(2, 8, 2)
    built = BUILDER.build_with_qparams(CONFIG, weight, scale, zero)
    assert torch.equal(built.scale, scale.transpose(1, 2))
    assert torch.equal(built.zero_point, zero.transpose(1, 2))
    symmetric = BUILDER.build_with_qparams(CONFIG, weight, scale, None)
    assert not symmetric.zero_point.any()


def test_scales_of_a_built_tensor_give_its_values_again():
    """Codes for the scales of values that codes can show are the same codes."""
    built = BUILDER.build(CONFIG, float_weight())
    again = BUILDER.build_with_qparams(
        CONFIG, built.dequantize(), built.scale.t(), built.zero_point.t()
    )
    assert torch.equal(again.qdata, built.qdata)


@pytest.mark.parametrize(
    ("scale", "zero", "error", "message"),
    [
        (torch.ones(2, 8), None, LayoutError, "scale has a wrong shape for its blocks"),
        (torch.ones(8, 2), torch.ones(8, 1), LayoutError, "zero_point has a wrong shape"),
        (torch.zeros(8, 2), None, BuildError, r"scale is wrong in 16 of 16 blocks"),
        (torch.full((8, 2), float("nan")), None, BuildError, r"the first at \[0, 0\]"),
        (torch.ones(8, 2), torch.full((8, 2), float("inf")), BuildError, "zero_point is wrong"),
        (torch.ones(8, 2, dtype=torch.int8), None, BuildError, "scale is not floating point"),
    ],
)
def test_bad_scales_are_refused(scale, zero, error, message):
    """Shapes, types and values of given scales are checked."""
    with pytest.raises(error, match=message):
        BUILDER.build_with_qparams(CONFIG, float_weight(8, 64), scale, zero)
