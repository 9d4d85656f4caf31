import pytest
import torch
from torch.nn.functional import linear

from qconfig.builders.base import Target, builder_of
from qconfig.builders.int8_activation import Int8DynamicBuilder, Int8StaticBuilder
from qconfig.builders.layer_calibration import LayerCalibration
from qconfig.codec.dtypes import DType
from qconfig.configs import PerAxis, PerGroup, PerRow, PerTensor, PerToken
from qconfig.configs.choices import MappingType
from qconfig.configs.int8 import (
    Int8DynamicActivationInt8WeightConfig,
    Int8StaticActivationInt8WeightConfig,
    Int8WeightOnlyConfig,
)
from qconfig.errors import BuildError, FieldError, LayoutError
from qconfig.tensors import Int8Tensor
from tests.tensors.samples import FLOATS, float_weight
from tests.tensors.torchao_dynamic import weight_with_activation

DYNAMIC, STATIC = Int8DynamicBuilder(), Int8StaticBuilder()
Dynamic, Static = Int8DynamicActivationInt8WeightConfig, Int8StaticActivationInt8WeightConfig
SCALE = torch.tensor(0.02)


def target(*shape, classes=("Linear",)):
    """Return a parameter of a module class."""
    return Target("m.weight", shape, DType.FLOAT32, classes)


def form(layout):
    """Return fields of a layout, tensors as dtype and shape."""
    fields = {}
    for name in type(layout).__slots__:
        if not name.startswith("_"):
            value = getattr(layout, name)
            shown = hasattr(value, "shape") and (DType.parse(value.dtype), tuple(value.shape))
            fields[name] = shown or value
    return fields


def test_builders_are_registered():
    """The configs lead to the builders."""
    assert isinstance(builder_of(Dynamic()), Int8DynamicBuilder)
    assert isinstance(builder_of(Static()), Int8StaticBuilder)


@pytest.mark.parametrize(("builder", "config"), [(DYNAMIC, Dynamic()), (STATIC, Static())])
def test_only_products_are_served(builder, config):
    """Linear and experts are served; embeddings multiply nothing, and are not."""
    assert builder.refusal(config, target(32, 64)) is None
    assert builder.refusal(config, target(3, 32, 64, classes=("Experts",))) is None
    assert "Embedding has no" in builder.refusal(config, target(32, 64, classes=("Embedding",)))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("reduce_range", [False, True])
@pytest.mark.parametrize("weight_per_tensor", [False, True])
def test_weights_are_torchaos(dtype, reduce_range, weight_per_tensor):
    """Codes and scales equal torchao's; reduce_range reduces both sides, as there."""
    weight = float_weight(33, 50, dtype=dtype)
    granularity = (PerRow(), PerTensor() if weight_per_tensor else PerRow())
    config = Dynamic(granularity=granularity, reduce_range=reduce_range)
    found = DYNAMIC.build(config, weight)
    theirs = weight_with_activation(weight, weight_per_tensor, True, False, reduce_range)
    assert torch.equal(found.qdata, theirs.qdata)
    assert torch.equal(found.scale, theirs.scale)
    assert found.reduce_range == theirs.reduce_range == reduce_range
    assert found.act_quant_kwargs.reduce_range == reduce_range


@pytest.mark.parametrize(
    ("builder", "config"),
    [
        (DYNAMIC, Dynamic()),
        (DYNAMIC, Dynamic(MappingType.ASYMMETRIC, granularity=(PerToken(), PerGroup(16)))),
        (DYNAMIC, Dynamic(granularity=(PerTensor(), PerTensor()), reduce_range=True)),
        (STATIC, Static(SCALE)),
        (STATIC, Static(SCALE, torch.tensor(3), act_mapping_type=MappingType.ASYMMETRIC)),
        (STATIC, Static(torch.full((1, 64), 0.02, dtype=torch.bfloat16))),
    ],
)
@pytest.mark.parametrize("shape", [(32, 64), (3, 32, 64)])
def test_layouts_are_announced(builder, config, shape):
    """What `layout` announces is what `build` gives, field by field."""
    built = builder.build(config, float_weight(*shape)).to_layout()
    assert form(builder.layout(config, target(*shape))) == form(built)


@pytest.mark.parametrize(
    ("given", "kept"), [(PerToken(), PerRow()), (PerRow(), PerRow()), (PerTensor(), PerTensor())]
)
def test_tokens_are_rows(given, kept):
    """PerToken and PerRow are the same for activations; the tensor says PerRow."""
    tensor = DYNAMIC.build(Dynamic(granularity=(given, PerRow())), float_weight())
    assert tensor.act_quant_kwargs.granularity == kept


def test_static_scales_are_copies():
    """The tensor has its own scale, in the config's type, and says what it is a scale of."""
    scale = torch.tensor(0.02, dtype=torch.bfloat16)
    tensor = STATIC.build(Static(scale), float_weight())
    assert (tensor.act_quant_scale.dtype, tensor.act_quant_scale.shape) == (scale.dtype, (1, 1))
    assert tensor.act_quant_scale.data_ptr() != scale.data_ptr()
    assert tensor.act_quant_kwargs.granularity == PerTensor()
    each = STATIC.build(Static(torch.full((64,), 0.02)), float_weight())
    assert each.act_quant_kwargs.granularity == PerAxis(-1)


def test_static_scale_from_calibration():
    """Without a scale in the config, the calibration's is taken; with one, the config's."""
    seen = LayerCalibration(
        act_scale=torch.tensor(0.05), act_zero_point=torch.tensor(3, dtype=torch.int8)
    )
    config = Static(act_mapping_type=MappingType.ASYMMETRIC)
    assert STATIC.needs_calibration(config)
    tensor = STATIC.build(config, float_weight(), seen)
    assert tensor.act_quant_scale.item() == seen.act_scale.item()
    assert tensor.act_quant_zero_point.item() == 3
    given = Static(SCALE)
    assert not STATIC.needs_calibration(given)
    kept = STATIC.build(given, float_weight(), seen)
    assert kept.act_quant_scale.item() == SCALE.item()
    assert kept.act_quant_zero_point is None


@pytest.mark.parametrize(
    ("config", "calibration", "message"),
    [
        (Static(), None, "act_quant_scale is neither in the config nor observed"),
        (Static(), LayerCalibration(), "act_quant_scale is neither in the config nor observed"),
        (
            Static(),
            LayerCalibration(act_scale=torch.ones(64)),
            "the calibration has a scale for each input channel",
        ),
        (
            Static(),
            LayerCalibration(act_scale=torch.ones(()), reduce_range=True),
            "the calibration is for another range of codes than the config",
        ),
        (
            Static(),
            LayerCalibration(act_scale=torch.ones(()), quant_dtype=DType.FLOAT8_E4M3FN),
            "the calibration is not for int8 activations",
        ),
        (
            Static(),
            LayerCalibration(
                act_scale=torch.ones(()), act_zero_point=torch.tensor(3, dtype=torch.int8)
            ),
            "the calibration has a zero point of activations, and the config is symmetric",
        ),
    ],
)
def test_calibrations_that_do_not_fit_are_refused(config, calibration, message):
    """A static config without a usable scale names the field or what does not fit."""
    with pytest.raises(BuildError, match=message):
        STATIC.build(config, float_weight(), calibration)


@pytest.mark.parametrize(
    ("config", "pointer"),
    [
        (Static(torch.ones(32)), "/act_quant_scale"),
        (Static(torch.ones(64), granularity=(PerTensor(), PerRow())), "/act_quant_scale"),
        (Dynamic(granularity=(PerRow(), PerGroup(48))), "/group_size"),
    ],
)
def test_configs_that_do_not_fit_the_shape(config, pointer):
    """Scales and groups that do not fit K are errors of the plan already."""
    builder = builder_of(config)
    for function in (builder.layout, builder.build):
        with pytest.raises(FieldError) as caught:
            function(config, target(32, 64) if function == builder.layout else float_weight())
        assert caught.value.pointer == pointer


def test_reduced_zero_points_are_checked():
    """A zero point outside of the reduced range is refused, not clamped."""
    asymmetric = MappingType.ASYMMETRIC
    config = Static(SCALE, torch.tensor(64), act_mapping_type=asymmetric, reduce_range=True)
    with pytest.raises(FieldError, match="no code of the reduced range"):
        STATIC.build(config, float_weight())


def test_a_zero_point_beyond_int8_is_refused():
    """128, which torchao wraps to -128, never becomes a code."""
    with pytest.raises(FieldError, match="zero point is no int8 code"):
        Static(SCALE, torch.tensor(128), act_mapping_type=MappingType.ASYMMETRIC)


@pytest.mark.parametrize("config", [Int8WeightOnlyConfig(), Dynamic(), Static(SCALE)])
@pytest.mark.parametrize("shape", [(32, 64), (3, 32, 64)])
def test_codes_of_given_qparams(config, shape):
    """Given scales and zero points are kept, and codes are rounded with them."""
    weight = float_weight(*shape)
    scale = torch.rand((*shape[:-1], 1)) * 0.01 + 0.02
    zero = torch.randint(-5, 6, scale.shape)
    found = builder_of(config).build_with_qparams(config, weight, scale, zero)
    expected = (torch.round(weight * (1 / scale)) + zero).clamp(-128, 127)
    assert isinstance(found, Int8Tensor)
    assert torch.equal(found.qdata.float(), expected)
    assert torch.equal(found.scale, scale)
    assert torch.equal(found.zero_point.long(), zero)
    assert (found.act_quant_kwargs is None) == isinstance(config, Int8WeightOnlyConfig)


@pytest.mark.parametrize("weight_granularity", [PerTensor(), PerGroup(16)])
def test_given_qparams_of_each_granularity(weight_granularity):
    """One scale for all weights or for each group gives codes and product of its own."""
    config = Dynamic(granularity=(PerRow(), weight_granularity), reduce_range=True)
    weight = float_weight()
    scale = torch.full((1, 1) if isinstance(weight_granularity, PerTensor) else (32, 4), 0.03)
    found = DYNAMIC.build_with_qparams(config, weight, scale, torch.zeros(scale.shape))
    assert torch.equal(found.qdata.float(), torch.round(weight * (1 / 0.03)).clamp(-64, 63))
    assert found.zero_point is None
    assert linear(float_weight(2, 64), found).shape == (2, 32)


@pytest.mark.parametrize(
    ("scale", "zero_point", "error"),
    [
        (torch.ones(32), None, LayoutError),
        (torch.ones(32, 1), torch.zeros(1, 1), LayoutError),
        (torch.zeros(32, 1), None, BuildError),
        (torch.ones(32, 1), torch.full((32, 1), 128), BuildError),
        (torch.ones(32, 1), torch.full((32, 1), 0.5), BuildError),
    ],
)
def test_given_qparams_that_do_not_fit_are_refused(scale, zero_point, error):
    """Another shape, a scale of 0 and a zero point that is no code are refused."""
    with pytest.raises(error):
        DYNAMIC.build_with_qparams(Dynamic(), float_weight(), scale, zero_point)


@pytest.mark.parametrize("builder", [DYNAMIC, STATIC])
def test_weights_that_are_not_finite_are_refused(builder):
    """NaN in a weight is refused with its place."""
    weight = float_weight()
    weight[3, 4] = float("nan")
    config = Dynamic() if builder is DYNAMIC else Static(SCALE)
    with pytest.raises(BuildError, match=r"holds 1 values .* the first at \[3, 4\]"):
        builder.build(config, weight)


@pytest.mark.parametrize("value", [torch.tensor(1e-40), torch.tensor(1e300, dtype=torch.float64)])
def test_scales_that_float32_does_not_hold_are_refused(value):
    """Codes of such a static scale would be noise."""
    config = Int8StaticActivationInt8WeightConfig(value)
    with pytest.raises(BuildError, match="act_quant_scale does not fit float32"):
        builder_of(config).build(config, float_weight())
