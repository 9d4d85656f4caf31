import attrs
import pytest

import qconfig
from qconfig.configs.float_formats import FORMATS, minifloat_of
from qconfig.configs.float_quant import FloatQuantConfig
from qconfig.configs.granularity import PerAxis
from qconfig.configs.groupwise_quant import GroupwiseFloatQuantConfig, GroupwiseIntQuantConfig
from qconfig.configs.int8 import Int8WeightOnlyConfig
from qconfig.configs.int_quant import IntQuantConfig
from qconfig.configs.quant_choices import FloatFormat, RoundingMode, ScaleKind
from qconfig.configs.scale_shapes import (
    given_scale_shape,
    scale_shape,
    value_shape,
    zero_point_shape,
)
from qconfig.errors import FieldError

EVERY = [IntQuantConfig, FloatQuantConfig, GroupwiseIntQuantConfig, GroupwiseFloatQuantConfig]

REFUSED = [
    (IntQuantConfig, {"bit_width": 1, "narrow_range": True}, "/narrow_range"),
    (IntQuantConfig, {"bit_width": 0}, "/bit_width"),
    (IntQuantConfig, {"bit_width": 33}, "/bit_width"),
    (
        IntQuantConfig,
        {"bit_width": 4, "learned_bit_width": True, "min_bit_width": 5},
        "/bit_width",
    ),
    (IntQuantConfig, {"scale_kind": "CONST"}, "/threshold"),
    (IntQuantConfig, {"threshold": 1.0}, "/threshold"),
    (IntQuantConfig, {"scale_kind": "CONST", "threshold": 0.0}, "/threshold"),
    (IntQuantConfig, {"scale_kind": "UNSCALED"}, "/scale_kind"),
    (IntQuantConfig, {"power_of_two_rounding": "DPU"}, "/power_of_two_rounding"),
    (IntQuantConfig, {"zero_point": 1.0}, "/zero_point"),
    (IntQuantConfig, {"zero_point_kind": "PARAMETER"}, "/zero_point"),
    (
        IntQuantConfig,
        {"scale_kind": "EXTERNAL", "zero_point_kind": "STATS"},
        "/zero_point_kind",
    ),
    (IntQuantConfig, {"low_percentile": 0.0}, "/low_percentile"),
    (IntQuantConfig, {"input": Int8WeightOnlyConfig()}, "/input"),
    (IntQuantConfig, {"input": IntQuantConfig(output=IntQuantConfig())}, "/input/output"),
    (IntQuantConfig, {"input": IntQuantConfig(scale_kind="EXTERNAL")}, "/input/scale_kind"),
    (FloatQuantConfig, {"scale_kind": "EXTERNAL"}, "/scale_kind"),
    (FloatQuantConfig, {"nan_values": ("11",)}, "/nan_values/0"),
    (FloatQuantConfig, {"nan_values": ("112",)}, "/nan_values/0"),
    (FloatQuantConfig, {"nan_values": ("111", "111")}, "/nan_values/1"),
    (FloatQuantConfig, {"nan_values": ()}, "/nan_values"),
    (FloatQuantConfig, {"nan_values": None, "inf_values": ("000",)}, "/inf_values"),
    (FloatQuantConfig, {"nan_values": None, "saturating": False}, "/saturating"),
    (FloatQuantConfig, {"exponent_bias": -128}, "/exponent_bias"),
    (FloatQuantConfig, {"exponent_bias": 200}, "/exponent_bias"),
    (GroupwiseIntQuantConfig, {"scale_statistic": "PERCENTILE"}, "/scale_statistic"),
    (GroupwiseIntQuantConfig, {"zero_point_statistic": "PERCENTILE"}, "/zero_point_statistic"),
    (GroupwiseIntQuantConfig, {"group_size": 0}, "/group_size"),
    (GroupwiseFloatQuantConfig, {"scale_kind": "UNSCALED"}, "/scale_kind"),
]


@pytest.mark.parametrize(("kind", "fields", "pointer"), REFUSED, ids=str)
def test_what_does_not_stand_together_is_refused(kind, fields, pointer):
    """The error names the field at fault, in a nested config too."""
    with pytest.raises(FieldError) as caught:
        kind(**fields)
    assert caught.value.pointer == pointer


@pytest.mark.parametrize("kind", EVERY)
def test_documents_of_nested_configs_come_back(kind):
    """A config with those of its activations goes through a document unchanged."""
    config = kind(
        input=FloatQuantConfig(), output=kind(), bias=IntQuantConfig(scale_kind="EXTERNAL")
    )
    assert qconfig.config_from_dict(qconfig.config_to_dict(config)) == config


def test_choices_are_read_in_either_case():
    """Names of Brevitas' enums may be written as it writes them."""
    config = IntQuantConfig(scale_kind="parameter_from_stats", rounding="floor")
    assert config.scale_kind is ScaleKind.PARAMETER_FROM_STATS
    assert config.rounding is RoundingMode.FLOOR


LARGEST = {
    FloatFormat.OCP_E4M3: 448.0,
    FloatFormat.OCP_E5M2: 57344.0,
    FloatFormat.OCP_E3M2: 28.0,
    FloatFormat.OCP_E2M3: 7.5,
    FloatFormat.OCP_E2M1: 6.0,
    FloatFormat.FNUZ_E4M3: 240.0,
    FloatFormat.FNUZ_E5M2: 57344.0,
    FloatFormat.FINITE_E4M3: 480.0,
    FloatFormat.FINITE_E5M2: 114688.0,
}


@pytest.mark.parametrize("name", FloatFormat)
def test_largest_values_of_named_formats(name):
    """Codes of infinity and NaN end the range of a format."""
    assert FORMATS[name].largest == LARGEST[name]


@pytest.mark.parametrize("kind", [FloatQuantConfig, GroupwiseFloatQuantConfig])
@pytest.mark.parametrize("name", FloatFormat)
def test_named_formats_are_fields(kind, name):
    """A config of a named format has its fields, and other fields may be given with it."""
    config = kind.of_format(name.value, signed=False)
    assert minifloat_of(config) == FORMATS[name]
    assert not config.signed


def test_a_format_of_another_name_is_refused_with_the_nearest():
    """The error lists the names, and says which is meant."""
    with pytest.raises(FieldError, match="did you mean 'OCP_E4M3'") as caught:
        FloatQuantConfig.of_format("ocp_e4m3")
    assert "FNUZ_E5M2" in str(caught.value)


def test_only_fnuz_formats_have_nan_in_the_place_of_minus_zero():
    """They are known by their bias, and the lack of other codes."""
    found = {name for name, kind in FORMATS.items() if kind.is_fnuz}
    assert found == {FloatFormat.FNUZ_E4M3, FloatFormat.FNUZ_E5M2}


def test_exponents_are_centred_without_a_bias():
    """A bias that is not given is that of IEEE 754."""
    assert minifloat_of(FloatQuantConfig(exponent_bit_width=3)).exponent_bias == 3


def test_a_special_code_may_be_the_first():
    """Where every mantissa is special, the largest value has the exponent below."""
    kind = minifloat_of(FloatQuantConfig(nan_values=("000",)))
    assert kind.largest == 240.0


@pytest.mark.parametrize(
    ("config", "scale"),
    [
        (IntQuantConfig(), ()),
        (IntQuantConfig(granularity=PerAxis(-1)), (1, 5)),
        (GroupwiseIntQuantConfig(group_size=2), (4, 3, 1)),
        (GroupwiseIntQuantConfig(group_size=3, group_dim=-2), (2, 1, 5)),
        (IntQuantConfig(scale_kind="CONST", threshold=1.0, granularity=PerAxis(0)), ()),
        (FloatQuantConfig(scale_kind="UNSCALED"), (1,)),
    ],
    ids=str,
)
def test_shapes_of_scales(config, scale):
    """A scale that elements share has 1 in its shape."""
    assert given_scale_shape((4, 5), config) == scale


def test_shapes_of_groups():
    """The last group is whole."""
    assert value_shape((4, 5), GroupwiseIntQuantConfig(group_size=2)) == (4, 3, 2)
    assert value_shape((4, 5), IntQuantConfig()) == (4, 5)


def test_shapes_of_zero_points():
    """They are those of scales, or of one number where there is none."""
    assert zero_point_shape((4, 5), IntQuantConfig(granularity=PerAxis(0))) == ()
    config = IntQuantConfig(granularity=PerAxis(0), zero_point_kind="STATS")
    assert zero_point_shape((4, 5), config) == (4, 1)


@pytest.mark.parametrize(
    ("config", "pointer"),
    [
        (IntQuantConfig(granularity=PerAxis(2)), "/granularity/axis"),
        (GroupwiseFloatQuantConfig(group_dim=-3), "/group_dim"),
    ],
    ids=["axis", "group_dim"],
)
def test_a_dimension_that_does_not_exist(config, pointer):
    """The error names the field."""
    with pytest.raises(FieldError, match="no dimension of the tensor") as caught:
        scale_shape((4, 5), config)
    assert caught.value.pointer == pointer


def test_equal_configs_are_equal():
    """Configs are values: they compare and hash by their fields."""
    config = GroupwiseFloatQuantConfig(input=FloatQuantConfig())
    assert config == attrs.evolve(config)
    assert hash(config) == hash(attrs.evolve(config))
