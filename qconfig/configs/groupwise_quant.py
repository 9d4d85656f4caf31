"""Configs of fake quantization in groups, current versions.

By default they are the MX formats of the Open Compute Project: groups of 32 whose scales are
powers of two, `2 ** (floor(log2(max|x|)) - floor(log2(m)))`, where `m` is the largest value of a
float format, or 128 for signed 8 bits.
"""

from typing import Any, Self

from attrs import frozen

from qconfig.configs.float_formats import check_format, format_fields
from qconfig.configs.quant_choices import (
    FloatFormat,
    RoundingMode,
    ScaleKind,
    ScaleRestriction,
    ScaleStatistic,
    ZeroPointKind,
    ZeroPointStatistic,
)
from qconfig.configs.quant_fields import shared
from qconfig.configs.quant_relations import (
    FakeQuantizedConfig,
    check_bits,
    check_group_statistic,
    check_group_zero_point,
    check_nested,
    check_scale,
    check_zero_point,
)
from qconfig.versioning import Config, register_config

_KINDS = (
    ScaleKind.CONST,
    ScaleKind.STATS,
    ScaleKind.PARAMETER,
    ScaleKind.PARAMETER_FROM_STATS,
)
_POWERS, _FLOOR = ScaleRestriction.POWER_OF_TWO, RoundingMode.FLOOR


@register_config("GroupwiseIntQuantConfig", 1)
@frozen
class GroupwiseIntQuantConfig(FakeQuantizedConfig):
    """Values rounded to integers times a scale of their group, for training.

    Groups are consecutive elements of one dimension. What a config in the fields `input`, `output`
    and `bias` says, and what a threshold is, see `IntQuantConfig`.
    """

    bit_width: int = shared("bit_width")
    signed: bool = shared("signed")
    narrow_range: bool = shared("narrow_range")
    group_size: int = shared("group_size")
    group_dim: int = shared("group_dim")
    rounding: RoundingMode = shared("rounding")
    scale_kind: ScaleKind = shared("scale_kind")
    scale_statistic: ScaleStatistic = shared("scale_statistic")
    scale_restriction: ScaleRestriction = shared("scale_restriction", default=_POWERS)
    power_of_two_rounding: RoundingMode = shared("power_of_two_rounding", default=_FLOOR)
    threshold: float | None = shared("threshold")
    min_threshold: float | None = shared("min_threshold")
    zero_point_kind: ZeroPointKind = shared("zero_point_kind")
    zero_point_statistic: ZeroPointStatistic = shared("zero_point_statistic")
    zero_point: float | None = shared("zero_point")
    quantize_zero_point: bool = shared("quantize_zero_point")
    learned_bit_width: bool = shared("learned_bit_width")
    min_bit_width: int = shared("min_bit_width")
    input: Config | None = shared("input")
    output: Config | None = shared("output")
    bias: Config | None = shared("bias")

    def __attrs_post_init__(self) -> None:
        """Check what stands together. Raises FieldError."""
        check_bits(self)
        check_scale(self, _KINDS)
        check_group_statistic(self.scale_statistic)
        check_zero_point(self)
        check_group_zero_point(self.zero_point_statistic)
        check_nested(self)


@register_config("GroupwiseFloatQuantConfig", 1)
@frozen
class GroupwiseFloatQuantConfig(FakeQuantizedConfig):
    """Values rounded to a small floating-point format times a scale of their group, for training.

    The format is OCP's e4m3 if nothing is said; `of_format` has others by name. Groups are
    consecutive elements of one dimension. What a config in the fields `input`, `output` and `bias`
    says, see `IntQuantConfig`; what a threshold is, see `FloatQuantConfig`.
    """

    exponent_bit_width: int = shared("exponent_bit_width")
    mantissa_bit_width: int = shared("mantissa_bit_width")
    exponent_bias: int | None = shared("exponent_bias")
    inf_values: tuple[str, ...] | None = shared("inf_values")
    nan_values: tuple[str, ...] | None = shared("nan_values")
    saturating: bool = shared("saturating")
    signed: bool = shared("signed")
    group_size: int = shared("group_size")
    group_dim: int = shared("group_dim")
    rounding: RoundingMode = shared("rounding")
    scale_kind: ScaleKind = shared("scale_kind")
    scale_statistic: ScaleStatistic = shared("scale_statistic")
    scale_restriction: ScaleRestriction = shared("scale_restriction", default=_POWERS)
    power_of_two_rounding: RoundingMode = shared("power_of_two_rounding", default=_FLOOR)
    threshold: float | None = shared("threshold")
    min_threshold: float | None = shared("min_threshold")
    input: Config | None = shared("input")
    output: Config | None = shared("output")
    bias: Config | None = shared("bias")

    def __attrs_post_init__(self) -> None:
        """Check what stands together. Raises FieldError."""
        check_format(self)
        check_scale(self, _KINDS)
        check_group_statistic(self.scale_statistic)
        check_nested(self)

    @classmethod
    def of_format(cls, name: FloatFormat | str, **fields: Any) -> Self:
        """Return a config of a format that has a name, such as `"OCP_E2M1"`.

        Raises:
            FieldError: there is no format of that name, or the fields do not stand together.
        """
        return cls(**{**format_fields(name), **fields})
