"""Round values to a small floating-point format times a scale, and keep them in a larger one.

The step between neighbours of a format is `2 ** (max(floor(log2|x|), 1 - bias) - mantissa_bits)`.
Brevitas takes log2 in the type of the values and adds the smallest normal number to |x| before. The
exponent is read from the bits here, so that float16 and bfloat16 give what torch's casts give.
"""

import math

import torch

from qconfig.configs.float_formats import Minifloat
from qconfig.configs.quant_choices import RoundingMode
from qconfig.tensors.quantizers.clamping import clamp
from qconfig.tensors.quantizers.gradients import is_differentiated, with_gradient_of
from qconfig.tensors.quantizers.rounding import rounded


def quantize_float(
    values: torch.Tensor,
    scale: torch.Tensor,
    kind: Minifloat,
    *,
    signed: bool = True,
    saturating: bool = True,
    rounding: RoundingMode = RoundingMode.ROUND,
) -> torch.Tensor:
    """Return values rounded to a format times a scale.

    Args:
        values: floating point, any shape.
        scale: floating point, of a shape that broadcasts.
        kind: the format.
        signed: whether there are negative values; else they are out of range.
        saturating: whether values out of range become the nearest bound; else infinity, or NaN
            where the format has none, negative ones of an unsigned format too.
        rounding: how to round between neighbours.

    Returns:
        Of the shape of `values`. With scale 1 it holds, bit for bit, what torch's casts to float8
        types of the same format give for values clamped before; not saturating, what they give for
        any, but for E4M3 where a release of torch saturates by itself.
        Gradients go to values and scale; values out of range have none.
    """
    scaled = values / scale
    exponent = _exponent(scaled)
    # What is above the greatest exponent is out of range with any step, and finite steps keep inf.
    exponent = torch.clamp(exponent, 1 - kind.exponent_bias, kind.largest_exponent)
    step = torch.exp2(exponent - kind.mantissa_bit_width)
    found = step * rounded(scaled / step, rounding)
    if kind.is_fnuz:
        found = found + 0.0  # The sum of -0 and 0 is 0; there is no -0.
    high = scaled.new_full((), kind.largest)
    low = -high if signed else torch.zeros_like(high)
    bounded = clamp(found, low, high)
    if not saturating:
        bounded = _overflowing(found, bounded, low, high, kind)
    return bounded * scale


def _exponent(values: torch.Tensor) -> torch.Tensor:
    """Return the exponents of values, with the gradient of log2|x|."""
    bare = values.detach()
    if bare.dtype is torch.float64:
        found = ((bare.view(torch.int64) >> 52) & 0x7FF) - 1023
    else:
        found = ((bare.float().view(torch.int32) >> 23) & 0xFF) - 127
    found = found.to(values.dtype)
    if not is_differentiated(values):
        return found
    return with_gradient_of(torch.log2(torch.abs(values) + torch.finfo(values.dtype).tiny), found)


def _overflowing(
    found: torch.Tensor,
    bounded: torch.Tensor,
    low: torch.Tensor,
    high: torch.Tensor,
    kind: Minifloat,
) -> torch.Tensor:
    if kind.inf_values is not None:
        bounded = torch.where(found > high, math.inf, bounded)
        return torch.where(found < low, -math.inf, bounded)
    return torch.where((found > high) | (found < low), math.nan, bounded)
