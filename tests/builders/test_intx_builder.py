import pytest
import torch

from qconfig.builders.base import QparamsBuilder, Target, builder_of
from qconfig.builders.intx import Int8DynamicActivationIntxWeightBuilder, IntxWeightOnlyBuilder
from qconfig.codec.dtypes import DType
from qconfig.configs.choices import (
    IntxChooseQParamsAlgorithm,
    IntxPackingFormat,
    MappingType,
)
from qconfig.configs.granularity import PerAxis, PerGroup
from qconfig.configs.intx import Int8DynamicActivationIntxWeightConfig, IntxWeightOnlyConfig
from qconfig.errors import BuildError, FieldError, LayoutError
from qconfig.layouts.intx import ActivationQuantization
from tests.tensors.samples import float_weight

INT4 = DType.INT4
GROUPS = IntxWeightOnlyConfig(INT4, PerGroup(32))
DYNAMIC = Int8DynamicActivationIntxWeightConfig(INT4)
ASYMMETRIC = MappingType.ASYMMETRIC


def target(shape, *classes, dtype="bfloat16"):
    """Return a parameter of a module class."""
    return Target("m.weight", shape, DType(dtype), classes)


def layout_of(config, shape=(32, 64)):
    """Return the announced layout of a Linear's weight."""
    return builder_of(config).layout(config, target(shape, "Linear"))


def build(config, weight=None):
    """Return what the config's builder makes of a weight."""
    return builder_of(config).build(config, float_weight() if weight is None else weight)


def with_qparams(config, weight, scale, zero_point=None):
    """Return what the config's builder makes of a weight with given scales."""
    return builder_of(config).build_with_qparams(config, weight, scale, zero_point)


def test_builders_are_registered():
    """Each config leads to its builder, which takes given scales as well."""
    assert isinstance(builder_of(GROUPS), IntxWeightOnlyBuilder)
    assert isinstance(builder_of(DYNAMIC), Int8DynamicActivationIntxWeightBuilder)
    assert isinstance(builder_of(GROUPS), QparamsBuilder)
    assert isinstance(builder_of(DYNAMIC), QparamsBuilder)


@pytest.mark.parametrize("config", [GROUPS, DYNAMIC])
def test_linear_weights_are_served(config):
    """Weights of Linear, and matrices whose owner nobody knows, are served."""
    for served in (target((32, 64), "Linear"), target((32, 64))):
        assert builder_of(config).refusal(config, served) is None


@pytest.mark.parametrize(
    ("config", "refused", "reason"),
    [
        (GROUPS, target((3, 32, 64), "Experts"), "rank 3 is not 2"),
        (GROUPS, target((32,), "Linear"), "rank 1 is not 2"),
        (DYNAMIC, target((32, 64), "Embedding"), "module class Embedding has no intx product"),
        (GROUPS, target((32, 64), "Conv2d", "_ConvNd"), "module class Conv2d has no intx product"),
    ],
)
def test_refusals_say_why(config, refused, reason):
    """A parameter that cannot be served gets its reason in one line."""
    assert builder_of(config).refusal(config, refused) == reason


def test_embeddings_are_served_weight_only():
    """An embedding has no activation, so only the weight-only config serves it."""
    assert builder_of(GROUPS).refusal(GROUPS, target((32, 64), "Embedding")) is None


@pytest.mark.parametrize("scale_dtype", [None, DType.FLOAT32, DType.FLOAT16])
@pytest.mark.parametrize("mapping_type", list(MappingType))
@pytest.mark.parametrize("granularity", [PerGroup(32), PerAxis(0)])
@pytest.mark.parametrize("make", [IntxWeightOnlyConfig, Int8DynamicActivationIntxWeightConfig])
def test_announced_layout_is_built(make, granularity, mapping_type, scale_dtype):
    """The layout from the shape alone has the shapes, types and attributes of what is built."""
    config = make(INT4, granularity, mapping_type, scale_dtype)
    announced = layout_of(config)
    built = build(config, float_weight(dtype=torch.bfloat16)).to_layout()
    for name in ("qdata", "scale", "zero_point"):
        ours, theirs = getattr(announced, name), getattr(built, name)
        assert (ours is None) == (theirs is None)
        if ours is not None:
            assert (ours.dtype, ours.shape) == (DType.parse(theirs.dtype), tuple(theirs.shape))
    for name in ("target_dtype", "block_size", "dtype", "activation_quantization"):
        assert getattr(announced, name) == getattr(built, name)


def test_symmetric_weights_have_no_zero_points():
    """Zero points that are all 0 are not stored."""
    assert build(GROUPS).zero_point is None
    assert build(IntxWeightOnlyConfig(INT4, PerGroup(32), ASYMMETRIC)).zero_point is not None


def test_the_activations_mapping_is_on_the_tensor():
    """Symmetric and asymmetric activations are told apart; weight-only has neither."""
    symmetric = Int8DynamicActivationIntxWeightConfig(INT4, act_mapping_type=MappingType.SYMMETRIC)
    assert build(GROUPS).activation_quantization is None
    assert build(DYNAMIC).activation_quantization is ActivationQuantization.INT8_ASYM_PER_TOKEN
    assert build(symmetric).activation_quantization is ActivationQuantization.INT8_SYM_PER_TOKEN


@pytest.mark.parametrize("form", [f for f in IntxPackingFormat if f.startswith("OPAQUE")])
@pytest.mark.parametrize("make", [IntxWeightOnlyConfig, Int8DynamicActivationIntxWeightConfig])
def test_opaque_formats_are_refused_by_name(make, form):
    """Formats whose bytes belong to a kernel library are refused, in the plan already."""
    config = make(intx_packing_format=form)
    with pytest.raises(FieldError, match="opaque formats of torchao are not built") as caught:
        layout_of(config)
    assert caught.value.pointer == "/intx_packing_format"
    assert form.value in caught.value.found
    with pytest.raises(FieldError, match="opaque formats of torchao are not built"):
        build(config)


@pytest.mark.parametrize("make", [IntxWeightOnlyConfig, Int8DynamicActivationIntxWeightConfig])
def test_groups_that_do_not_divide_are_an_error(make):
    """A group size that does not divide K is a mistake, not a reason to skip the weight."""
    with pytest.raises(FieldError, match="group_size does not divide the last dimension"):
        layout_of(make(INT4, PerGroup(48)))


@pytest.mark.parametrize(
    ("config", "pointer"),
    [
        (
            IntxWeightOnlyConfig(DType.INT1, mapping_type=MappingType.SYMMETRIC_NO_CLIPPING_ERR),
            "/mapping_type",
        ),
        (
            Int8DynamicActivationIntxWeightConfig(
                INT4,
                weight_mapping_type=ASYMMETRIC,
                intx_choose_qparams_algorithm=IntxChooseQParamsAlgorithm.HQQ_SCALE_ONLY,
            ),
            "/weight_mapping_type",
        ),
    ],
)
def test_mappings_that_do_not_exist_are_named_in_the_plan(config, pointer):
    """The plan names the config's own field."""
    with pytest.raises(FieldError) as caught:
        layout_of(config)
    assert caught.value.pointer == pointer


def test_weights_of_other_types_are_refused():
    """An integer weight is refused by name."""
    with pytest.raises(BuildError, match="cannot be quantized to int4: dtype int64 is not"):
        build(GROUPS, torch.ones(32, 64, dtype=torch.int64))


@pytest.mark.parametrize(
    "config", [GROUPS, DYNAMIC, IntxWeightOnlyConfig(INT4, PerGroup(32), ASYMMETRIC)]
)
def test_given_scales_build_the_same_tensor(config):
    """With the scales and zero points that build chose, codes are the same."""
    weight = float_weight()
    built = build(config, weight)
    given = with_qparams(config, weight, built.scale, built.zero_point)
    assert torch.equal(given.qdata, built.qdata)
    assert torch.equal(given.dequantize(), built.dequantize())
    assert given.activation_quantization == built.activation_quantization


def test_given_scales_are_copied():
    """The tensor does not follow what training does to the parameters afterwards."""
    scale = torch.full((32, 2), 0.25, requires_grad=True)
    given = with_qparams(GROUPS, float_weight(), scale)
    assert not given.scale.requires_grad
    assert given.scale.data_ptr() != scale.data_ptr()


@pytest.mark.parametrize(
    ("scale", "zero_point", "error", "message"),
    [
        (torch.ones(32, 1), None, LayoutError, "scale has a wrong shape for its blocks"),
        (torch.ones(32, 2), torch.ones(32), LayoutError, "zero_point has a wrong shape"),
        (-torch.ones(32, 2), None, BuildError, "scale is wrong in 64 of 64 blocks"),
        (torch.ones(32, 2), torch.full((32, 2), 8), BuildError, "zero_point is wrong in 64"),
    ],
)
def test_given_scales_that_do_not_fit(scale, zero_point, error, message):
    """Scales and zero points of other shapes or values are refused by name."""
    with pytest.raises(error, match=message):
        with_qparams(GROUPS, float_weight(), scale, zero_point)
