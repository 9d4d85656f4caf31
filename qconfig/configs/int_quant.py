"""Config of integer fake quantization, current version."""

from attrs import frozen

from qconfig.configs.granularity import PerAxis, PerTensor
from qconfig.configs.quant_choices import (
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
    check_nested,
    check_scale,
    check_zero_point,
)
from qconfig.versioning import Config, register_config

_KINDS = tuple(kind for kind in ScaleKind if kind is not ScaleKind.UNSCALED)


@register_config("IntQuantConfig", 1)
@frozen
class IntQuantConfig(FakeQuantizedConfig):
    """Values rounded to integers times a scale, and kept as floating point for training.

    It says how a weight is quantized, and where it stands in a field of another one, how an
    activation or the bias of the same module is. `scale = threshold / levels`, where `levels` is
    the absolute value of the extreme code, or a power of two where scales are.
    """

    bit_width: int = shared("bit_width")
    signed: bool = shared("signed")
    narrow_range: bool = shared("narrow_range")
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
        check_zero_point(self)
        check_nested(self)
