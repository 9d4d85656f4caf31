"""From a threshold to a scale, as Brevitas stores the one and computes the other.

A threshold is the absolute value that the extreme code stands for. What a model learns and stores
is the threshold itself, or its log2 (`stored_threshold`); `restricted` makes it a power of two
where the config says so, and `scale_of` divides it by the levels of the format.
"""

import torch

from qconfig.configs.float_formats import Minifloat
from qconfig.configs.quant_choices import RoundingMode, ScaleRestriction
from qconfig.tensors.quantizers.gradients import with_gradient_of
from qconfig.tensors.quantizers.integers import code_bounds
from qconfig.tensors.quantizers.rounding import rounded

_LEAST_FLOAT16 = 2.0**-24


def at_least(values: torch.Tensor, least: float | None) -> torch.Tensor:
    """Return values that are `least` or more, for values from 0; the gradient is theirs."""
    if least is None:
        return values
    return with_gradient_of(values, torch.clamp_min(values.detach(), least))


def stored_threshold(threshold: torch.Tensor, restriction: ScaleRestriction) -> torch.Tensor:
    """Return a threshold as models learn and store it: itself, or log2 of it.

    Args:
        threshold: positive floating point, any shape.
        restriction: LOG_FP and POWER_OF_TWO store log2.
    """
    return threshold if restriction is ScaleRestriction.FP else torch.log2(threshold)


def restricted(
    stored: torch.Tensor, restriction: ScaleRestriction, power_rounding: RoundingMode
) -> torch.Tensor:
    """Return the threshold that a stored one stands for; `stored_threshold` is the inverse.

    Args:
        stored: floating point, any shape.
        restriction: which values thresholds take.
        power_rounding: how log2 is rounded where they are powers of two.
    """
    if restriction is ScaleRestriction.FP:
        return torch.abs(stored)
    if restriction is ScaleRestriction.POWER_OF_TWO:
        stored = rounded(stored, power_rounding)
    return 2.0**stored


def int_levels(
    bit_width: torch.Tensor,
    *,
    signed: bool,
    narrow_range: bool,
    restriction: ScaleRestriction,
    dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """Return by what a threshold of integers is divided, 0-d.

    That is the absolute value of the extreme code: the least of signed ones, the greatest of
    unsigned ones. Where scales are powers of two it is one too: 128 for int8, 256 for uint8.

    Args:
        bit_width: 0-d floating point.
        signed: whether codes are signed.
        narrow_range: whether a code is left out.
        restriction: which values thresholds take.
        dtype: type of the result, where scales are not powers of two; by default that of
            `bit_width`.
    """
    if restriction is ScaleRestriction.POWER_OF_TWO:
        return code_bounds(bit_width, signed=signed, narrow_range=False)[1] + 1
    low, high = code_bounds(bit_width, signed=signed, narrow_range=narrow_range)
    return (-low if signed else high).to(dtype)


def float_levels(
    kind: Minifloat, dtype: torch.dtype | None = None, device: torch.device | None = None
) -> torch.Tensor:
    """Return by what a threshold of floats is divided, 0-d: the largest value of the format."""
    return torch.full((), kind.largest, dtype=dtype, device=device)


def scale_of(
    threshold: torch.Tensor,
    levels: torch.Tensor,
    restriction: ScaleRestriction,
    power_rounding: RoundingMode,
) -> torch.Tensor:
    """Return the scale of a threshold that `restricted` gave.

    Args:
        threshold: floating point, any shape.
        levels: what `int_levels` or `float_levels` gave; restricted in the same way.
        restriction: which values thresholds take.
        power_rounding: how log2 is rounded where they are powers of two.

    Returns:
        Of the shape of `threshold`. It is never 0, as it would be for zeros in float16, so that
        zeros become zeros and not NaN; see `least_scale`.
    """
    divisor = restricted(stored_threshold(levels, restriction), restriction, power_rounding)
    scale = threshold / divisor
    return torch.where(scale == 0, least_scale(scale.dtype), scale)


def least_scale(dtype: torch.dtype) -> float:
    """Return the least scale: the smallest normal number, or the smallest of all in float16."""
    return _LEAST_FLOAT16 if dtype is torch.float16 else torch.finfo(dtype).tiny
