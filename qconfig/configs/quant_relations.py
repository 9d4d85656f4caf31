"""What holds between fields of the fake-quantized configs; each function raises FieldError."""

from typing import Any

from qconfig.configs.quant_choices import (
    RoundingMode,
    ScaleKind,
    ScaleStatistic,
    ZeroPointKind,
    ZeroPointStatistic,
)
from qconfig.configs.supported import check_finite, check_supported
from qconfig.errors import FieldError
from qconfig.versioning import Config

_GIVEN = (ScaleKind.CONST, ScaleKind.PARAMETER)
_POWERS = (RoundingMode.ROUND, RoundingMode.FLOOR, RoundingMode.CEIL)
_ROLES = ("input", "output", "bias")


class FakeQuantizedConfig(Config):
    """Base of the configs of the fake-quantized family: those that it may nest."""

    __slots__ = ()

    scale_kind: ScaleKind
    input: Config | None
    output: Config | None
    bias: Config | None


def check_scale(config: Any, kinds: tuple[ScaleKind, ...]) -> None:
    """Check kind, threshold and roundings of a scale.

    Raises:
        FieldError: the kind is none of `kinds`, a threshold stands where none is read or lacks, or
            a number is not finite.
    """
    check_supported(config.scale_kind, "scale_kind", kinds)
    check_supported(config.power_of_two_rounding, "power_of_two_rounding", _POWERS)
    check_finite(config.threshold, "threshold")
    check_finite(config.min_threshold, "min_threshold")
    is_given = config.scale_kind in _GIVEN
    if is_given != (config.threshold is not None):
        raise FieldError(
            f"threshold does not go with scale_kind {config.scale_kind}",
            pointer="/threshold",
            found=config.threshold,
            expected="a number above 0" if is_given else "null",
        )


def check_zero_point(config: Any) -> None:
    """Check kind and value of a zero point.

    Raises:
        FieldError: a value stands where none is read or lacks, or the scale is not the tensor's.
    """
    check_finite(config.zero_point, "zero_point")
    is_given = config.zero_point_kind is ZeroPointKind.PARAMETER
    if is_given != (config.zero_point is not None):
        raise FieldError(
            f"zero_point does not go with zero_point_kind {config.zero_point_kind}",
            pointer="/zero_point",
            found=config.zero_point,
            expected="a number from 0" if is_given else "null",
        )
    if config.scale_kind is ScaleKind.EXTERNAL and config.zero_point_kind is not ZeroPointKind.NONE:
        raise FieldError(
            "zero_point_kind does not go with scale_kind EXTERNAL",
            pointer="/zero_point_kind",
            found=config.zero_point_kind.value,
            expected=ZeroPointKind.NONE.value,
        )


def check_bits(config: Any) -> None:
    """Check that there are codes, and that a learned width begins where it may be.

    Raises:
        FieldError: one bit without one of its codes, or fewer bits than the fewest.
    """
    if config.bit_width == 1 and config.narrow_range:
        raise FieldError(
            "narrow_range does not go with bit_width 1",
            pointer="/narrow_range",
            found=True,
            expected="false",
        )
    if config.learned_bit_width and config.bit_width < config.min_bit_width:
        raise FieldError(
            "bit_width does not go with min_bit_width",
            pointer="/bit_width",
            found=config.bit_width,
            expected=f"at least {config.min_bit_width}",
        )


def check_group_statistic(statistic: ScaleStatistic) -> None:
    """Check that a statistic is one that groups have. Raises FieldError."""
    check_supported(statistic, "scale_statistic", (ScaleStatistic.MAX, ScaleStatistic.MIN_MAX))


def check_group_zero_point(statistic: ZeroPointStatistic) -> None:
    """Check that the statistic of a zero point is one that groups have. Raises FieldError."""
    check_supported(statistic, "zero_point_statistic", (ZeroPointStatistic.MIN,))


def check_nested(config: Any) -> None:
    """Check the configs of input, output and bias.

    Raises:
        FieldError: one is of another family, has nested ones itself, or takes a scale from outside
            and is not that of the bias.
    """
    for role in _ROLES:
        nested = getattr(config, role)
        if nested is None:
            continue
        if not isinstance(nested, FakeQuantizedConfig):
            raise FieldError(
                f"{role} is not supported",
                pointer=f"/{role}",
                found=type(nested).__name__,
                expected="a config of the fake-quantized family",
            )
        for inner in _ROLES:
            if getattr(nested, inner) is not None:
                raise FieldError(
                    f"{inner} does not go with a config that is nested itself",
                    pointer=f"/{role}/{inner}",
                    found=type(getattr(nested, inner)).__name__,
                    expected="null",
                )
        if role != "bias" and nested.scale_kind is ScaleKind.EXTERNAL:
            raise FieldError(
                f"scale_kind EXTERNAL does not go with {role}",
                pointer=f"/{role}/scale_kind",
                found=ScaleKind.EXTERNAL.value,
                expected="a scale of its own",
            )
