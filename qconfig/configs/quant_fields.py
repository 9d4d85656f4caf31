"""Fields that the fake-quantized configs share: what each means and allows, said once."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from qconfig.configs.granularity import PerTensor
from qconfig.configs.quant_choices import (
    RoundingMode,
    ScaleKind,
    ScaleRestriction,
    ScaleStatistic,
    ZeroPointKind,
    ZeroPointStatistic,
)
from qconfig.configs.supported import choice_of
from qconfig.versioning import attribute

LEAST_THRESHOLD = 2.0**-149
"""The smallest positive float32."""
_MOST = 2**31 - 1
_MOST_FLOAT32 = (2 - 2.0**-23) * 2.0**127
_Field = Mapping[str, Any]


def shared(name: str, **changes: Any) -> Any:
    """Declare a field that several configs have.

    Args:
        name: the field.
        changes: what differs for this config, such as its default.
    """
    return attribute(**{**_FIELDS[name], **changes})


def _plain(doc: str, *, default: Any, **bounds: Any) -> _Field:
    return {"doc": doc, "default": default, **bounds}


def _choice(doc: str, default: Any) -> _Field:
    return {"doc": doc, "default": default, "converter": choice_of(type(default))}


def _nested(what: str) -> _Field:
    doc = f"How the module's {what} is quantized: a config of this family that has none itself; "
    return {"doc": doc + "null for not.", "default": None}


_FIELDS: Mapping[str, _Field] = MappingProxyType(
    {
        "bit_width": _plain(
            "Bits of a code; where they are learned, those at the beginning.",
            default=8,
            minimum=1,
            maximum=32,
        ),
        "signed": _plain("Whether values may be negative.", default=True),
        "narrow_range": _plain(
            "Whether the least signed or the greatest unsigned code is left out.", default=False
        ),
        "learned_bit_width": _plain("Whether training changes the bit width.", default=False),
        "min_bit_width": _plain(
            "Fewest bits where they are learned.", default=2, minimum=1, maximum=32
        ),
        "exponent_bit_width": _plain("Bits of the exponent.", default=4, minimum=1, maximum=8),
        "mantissa_bit_width": _plain("Bits of the mantissa.", default=3, minimum=0, maximum=10),
        "exponent_bias": _plain(
            "What is subtracted from a stored exponent; null for 2^(exponent_bit_width - 1) - 1.",
            default=None,
            minimum=-128,
            maximum=255,
        ),
        "inf_values": _plain(
            "Mantissas, in binary, that mean infinity beside the greatest exponent; null for none.",
            default=None,
            min_length=1,
        ),
        "nan_values": _plain(
            "Mantissas, in binary, that mean NaN beside the greatest exponent; null for none.",
            default=("111",),
            min_length=1,
        ),
        "saturating": _plain(
            "Whether values out of range become the largest; else infinity, or NaN without it.",
            default=True,
        ),
        "rounding": _choice("How values become codes.", RoundingMode.ROUND),
        "granularity": {
            "doc": "Which elements share a scale: all, or those at one index of an axis. The axis "
            "of output channels is 0, in transposed convolutions 1; that of activations mostly 1.",
            "factory": PerTensor,
        },
        "group_size": _plain(
            "Elements that share a scale; the last group is filled up with zeros.",
            default=32,
            minimum=1,
            maximum=_MOST,
        ),
        "group_dim": _plain(
            "Dimension along which groups lie; negative ones count from the end. That of input "
            "channels is 1, in transposed convolutions 0, in activations of linear layers -1.",
            default=1,
            minimum=-16,
            maximum=15,
        ),
        "scale_kind": _choice(
            "Where the threshold comes from: the absolute value that the extreme code stands for.",
            ScaleKind.STATS,
        ),
        "scale_statistic": _choice("Which statistic is the threshold.", ScaleStatistic.MAX),
        "scale_restriction": _choice(
            "Whether thresholds are any number, stored as such or as log2, or powers of two.",
            ScaleRestriction.FP,
        ),
        "power_of_two_rounding": _choice(
            "How log2 of a threshold that is a power of two is rounded: ROUND, FLOOR or CEIL.",
            RoundingMode.CEIL,
        ),
        "threshold": _plain(
            "The threshold where scale_kind is CONST, and where it begins if that is PARAMETER.",
            default=None,
            minimum=LEAST_THRESHOLD,
            maximum=_MOST_FLOAT32,
        ),
        "min_threshold": _plain(
            "Least threshold; null for none.",
            default=1e-10,
            minimum=LEAST_THRESHOLD,
            maximum=_MOST_FLOAT32,
        ),
        "high_percentile": _plain(
            "Percentage of values below the threshold, where that is a percentile.",
            default=99.999,
            minimum=50.0,
            maximum=100.0,
        ),
        "low_percentile": _plain(
            "Percentage of values below the least one, where that is a percentile.",
            default=0.001,
            minimum=LEAST_THRESHOLD,
            maximum=50.0,
        ),
        "collect_steps": _plain(
            "Training steps that take statistics of activations, before scales are learned.",
            default=300,
            minimum=1,
            maximum=_MOST,
        ),
        "momentum": _plain(
            "Weight of the newest step in running statistics; null for the mean of all steps.",
            default=0.1,
            minimum=0.0,
            maximum=1.0,
        ),
        "zero_point_kind": _choice("Where the zero point comes from.", ZeroPointKind.NONE),
        "zero_point_statistic": _choice(
            "Which value the least code stands for.", ZeroPointStatistic.MIN
        ),
        "zero_point": _plain(
            "Where zero_point_kind is PARAMETER, how far below 0 values reach at the beginning; "
            "else null.",
            default=None,
            minimum=0.0,
            maximum=_MOST_FLOAT32,
        ),
        "quantize_zero_point": _plain("Whether zero points are rounded to codes.", default=True),
        "input": _nested("input"),
        "output": _nested("output"),
        "bias": _nested("bias"),
    }
)
