"""Closed lists of choices of the fake-quantized configs; most names agree with Brevitas' enums."""

from enum import StrEnum


class RoundingMode(StrEnum):
    """How a real number becomes a whole one; names agree with Brevitas' `FloatToIntImplType`."""

    ROUND = "ROUND"
    """To the nearest, halves to the even one."""
    FLOOR = "FLOOR"
    CEIL = "CEIL"
    ROUND_TO_ZERO = "ROUND_TO_ZERO"
    DPU = "DPU"
    """To the nearest; halves to the even one if positive, upwards if negative."""


class ScaleKind(StrEnum):
    """Where a threshold, and so a scale, comes from; names agree with `ScalingImplType`."""

    CONST = "CONST"
    """The threshold that the config gives."""
    STATS = "STATS"
    """A statistic of the values: of a weight whenever it is used, of activations a running one."""
    PARAMETER = "PARAMETER"
    """Learned; it begins with the threshold that the config gives."""
    PARAMETER_FROM_STATS = "PARAMETER_FROM_STATS"
    """Learned; it begins with a statistic of the values."""
    EXTERNAL = "EXTERNAL"
    """Of biases: the product of the scales of input and weight; of pools: that of the input."""
    UNSCALED = "UNSCALED"
    """Of floats: the scale is 1."""


LEARNED_SCALES = (ScaleKind.PARAMETER, ScaleKind.PARAMETER_FROM_STATS)
"""Kinds whose threshold is a parameter."""
SEEN_SCALES = (ScaleKind.STATS, ScaleKind.PARAMETER_FROM_STATS)
"""Kinds whose threshold is, or begins with, a statistic of the values."""


SCALES_OF_GROUPS = (ScaleKind.CONST, ScaleKind.STATS, ScaleKind.UNSCALED)
"""Kinds that groups of activations have: there is nothing to learn for groups that come and go."""


class ScaleStatistic(StrEnum):
    """Which statistic of the values is the threshold; names agree with `StatsOp`."""

    MAX = "MAX"
    """The largest absolute value."""
    MIN_MAX = "MIN_MAX"
    """The largest value less the smallest, or less 0 if all are positive."""
    PERCENTILE = "PERCENTILE"
    """The absolute value at high_percentile."""
    PERCENTILE_INTERVAL = "PERCENTILE_INTERVAL"
    """The value at high_percentile less that at low_percentile, or less 0 if that is positive."""


class ScaleRestriction(StrEnum):
    """Which values a threshold takes, and how it is stored; names agree with `RestrictValueType`.

    `log2` of thresholds is stored where they are logarithms or powers of two.
    """

    FP = "FP"
    LOG_FP = "LOG_FP"
    POWER_OF_TWO = "POWER_OF_TWO"


class ZeroPointKind(StrEnum):
    """Where a zero point comes from."""

    NONE = "NONE"
    """There is none: the zero point is 0."""
    STATS = "STATS"
    """A statistic of the values, as for scales."""
    PARAMETER = "PARAMETER"
    """Learned; it begins with the value that the config gives."""
    PARAMETER_FROM_STATS = "PARAMETER_FROM_STATS"
    """Learned; it begins with a statistic of the values."""


LEARNED_ZERO_POINTS = (ZeroPointKind.PARAMETER, ZeroPointKind.PARAMETER_FROM_STATS)
"""Kinds whose zero point is a parameter."""
SEEN_ZERO_POINTS = (ZeroPointKind.STATS, ZeroPointKind.PARAMETER_FROM_STATS)
"""Kinds whose zero point is, or begins with, a statistic of the values."""


ZERO_POINTS_OF_GROUPS = (ZeroPointKind.NONE, ZeroPointKind.STATS)
"""Kinds that groups of activations have."""


class ZeroPointStatistic(StrEnum):
    """Which statistic of the values becomes the least code."""

    MIN = "MIN"
    """The smallest value, or 0 if all are positive."""
    PERCENTILE = "PERCENTILE"
    """The value at low_percentile, or 0 if that is positive."""


class FloatFormat(StrEnum):
    """Small floating-point formats that have a name.

    OCP are those of the Open Compute Project: OFP8, and the elements of MX blocks. FNUZ have one
    zero, no infinity, and NaN in the place of -0. The others give every code a finite value.
    """

    OCP_E4M3 = "OCP_E4M3"
    OCP_E5M2 = "OCP_E5M2"
    OCP_E3M2 = "OCP_E3M2"
    OCP_E2M3 = "OCP_E2M3"
    OCP_E2M1 = "OCP_E2M1"
    FNUZ_E4M3 = "FNUZ_E4M3"
    FNUZ_E5M2 = "FNUZ_E5M2"
    FINITE_E4M3 = "FINITE_E4M3"
    FINITE_E5M2 = "FINITE_E5M2"
