"""Make fields of fake-quantized configs fit each other, for `tests.config_repairs`."""

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from qconfig.configs.float_formats import FORMATS, format_fields
from qconfig.configs.float_quant import FloatQuantConfig
from qconfig.configs.granularity import PerAxis
from qconfig.configs.groupwise_quant import GroupwiseFloatQuantConfig
from qconfig.configs.int_quant import IntQuantConfig
from qconfig.configs.quant_choices import (
    RoundingMode,
    ScaleKind,
    ScaleStatistic,
    ZeroPointKind,
    ZeroPointStatistic,
)
from qconfig.versioning import Entry

Draw = Callable[[Any], Any]
Values = dict[str, Any]

_KINDS = [
    ScaleKind.CONST,
    ScaleKind.STATS,
    ScaleKind.PARAMETER,
    ScaleKind.PARAMETER_FROM_STATS,
]
_POWERS = [RoundingMode.ROUND, RoundingMode.FLOOR, RoundingMode.CEIL]
_NESTED = [
    IntQuantConfig(signed=False, scale_statistic=ScaleStatistic.PERCENTILE),
    IntQuantConfig(4, granularity=PerAxis(1)),
    FloatQuantConfig(scale_kind=ScaleKind.UNSCALED),
    GroupwiseFloatQuantConfig(group_dim=-1),
]
_BIASES = [*_NESTED, IntQuantConfig(16, scale_kind=ScaleKind.EXTERNAL)]


def fit_integers(draw: Draw, entry: Entry, values: Values) -> None:
    """Make a config of integers fit: its scale, zero point, bits and nested configs."""
    fit_scale(draw, values, [*_KINDS, ScaleKind.EXTERNAL])
    _fit_integers(draw, values)


def fit_floats(draw: Draw, entry: Entry, values: Values) -> None:
    """Make a config of floats fit: its scale, format and nested configs."""
    fit_scale(draw, values, [*_KINDS, ScaleKind.UNSCALED])
    _fit_format(draw, values)


def fit_integer_groups(draw: Draw, entry: Entry, values: Values) -> None:
    """Make a config of groups of integers fit."""
    _fit_groups(draw, values)
    _fit_integers(draw, values)


def fit_float_groups(draw: Draw, entry: Entry, values: Values) -> None:
    """Make a config of groups of floats fit."""
    _fit_groups(draw, values)
    _fit_format(draw, values)


def fit_scale(draw: Draw, values: Values, kinds: list[ScaleKind]) -> None:
    """Draw a kind of scale with what it needs, a rounding of powers, and nested configs."""
    kind = values["scale_kind"] = draw(st.sampled_from(kinds))
    is_given = kind in {ScaleKind.CONST, ScaleKind.PARAMETER}
    values["threshold"] = draw(st.floats(2.0**-40, 2.0**40)) if is_given else None
    values["power_of_two_rounding"] = draw(st.sampled_from(_POWERS))
    for role, choices in (("input", _NESTED), ("output", _NESTED), ("bias", _BIASES)):
        if role in values:
            values[role] = draw(st.sampled_from([None, *choices]))


def _fit_groups(draw: Draw, values: Values) -> None:
    fit_scale(draw, values, _KINDS)
    choices = [ScaleStatistic.MAX, ScaleStatistic.MIN_MAX]
    values["scale_statistic"] = draw(st.sampled_from(choices))
    if "zero_point_statistic" in values:
        values["zero_point_statistic"] = ZeroPointStatistic.MIN


def _fit_integers(draw: Draw, values: Values) -> None:
    kinds = list(ZeroPointKind)
    if values["scale_kind"] is ScaleKind.EXTERNAL:
        kinds = [ZeroPointKind.NONE]
    kind = values["zero_point_kind"] = draw(st.sampled_from(kinds))
    is_given = kind is ZeroPointKind.PARAMETER
    values["zero_point"] = draw(st.floats(0, 100)) if is_given else None
    values["bit_width"] = draw(st.integers(2, 32))
    values["min_bit_width"] = draw(st.integers(1, values["bit_width"]))


def _fit_format(draw: Draw, values: Values) -> None:
    values.update(format_fields(draw(st.sampled_from(list(FORMATS)))))
    if values["nan_values"] is None:
        values["saturating"] = True
