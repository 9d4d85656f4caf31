"""Config of floating-point fake quantization, current version."""

from typing import Any, Self

from attrs import frozen

from qconfig.configs.float_formats import check_format, format_fields
from qconfig.configs.granularity import PerAxis, PerTensor
from qconfig.configs.quant_choices import (
    FloatFormat,
    RoundingMode,
    ScaleKind,
    ScaleRestriction,
    ScaleStatistic,
)
from qconfig.configs.quant_fields import shared
from qconfig.configs.quant_relations import FakeQuantizedConfig, check_nested, check_scale
from qconfig.versioning import Config, register_config

_KINDS = tuple(kind for kind in ScaleKind if kind is not ScaleKind.EXTERNAL)


@register_config("FloatQuantConfig", 1)
@frozen
class FloatQuantConfig(FakeQuantizedConfig):
    """Values rounded to a small floating-point format times a scale, for training.

    The format is OCP's e4m3 if nothing is said; `of_format` has others by name. What a config in
    the fields `input`, `output` and `bias` says, see `IntQuantConfig`. `scale = threshold / m`,
    where `m` is the largest value of the format, or a power of two where scales are.
    """

    exponent_bit_width: int = shared("exponent_bit_width")
    mantissa_bit_width: int = shared("mantissa_bit_width")
    exponent_bias: int | None = shared("exponent_bias")
    inf_values: tuple[str, ...] | None = shared("inf_values")
    nan_values: tuple[str, ...] | None = shared("nan_values")
    saturating: bool = shared("saturating")
    signed: bool = shared("signed")
    rounding: RoundingMode = shared("rounding")
    granularity: PerTensor | PerAxis = shared("granularity")
    scale_kind: ScaleKind = shared("scale_kind")
    scale_statistic: ScaleStatistic = shared("scale_statistic")
    scale_restriction: ScaleRestriction = shared("scale_restriction")
    power_of_two_rounding: RoundingMode = shared("power_of_two_rounding")
    threshold: float | None = shared("threshold")
    min_threshold: float | None = shared("min_threshold")
    high_percentile: float = shared("high_percentile")
    low_percentile: float = shared("low_percentile")
    collect_steps: int = shared("collect_steps")
    momentum: float | None = shared("momentum")
    input: Config | None = shared("input")
    output: Config | None = shared("output")
    bias: Config | None = shared("bias")

    def __attrs_post_init__(self) -> None:
        """Check what stands together. Raises FieldError."""
        check_format(self)
        check_scale(self, _KINDS)
        check_nested(self)

    @classmethod
    def of_format(cls, name: FloatFormat | str, **fields: Any) -> Self:
        """Return a config of a format that has a name, such as `"FNUZ_E4M3"`.

        Raises:
            FieldError: there is no format of that name, or the fields do not stand together.
        """
        return cls(**{**format_fields(name), **fields})
