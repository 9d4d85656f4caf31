"""Round values to integers times a scale, and keep them as floating point."""

import torch

from qconfig.configs.quant_choices import RoundingMode
from qconfig.tensors.quantizers.clamping import clamp
from qconfig.tensors.quantizers.rounding import rounded


def code_bounds(
    bit_width: torch.Tensor, *, signed: bool, narrow_range: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the least and the greatest code, 0-d, of the type of `bit_width`.

    Args:
        bit_width: 0-d floating point; it may be learned, and the bounds follow it.
        signed: whether codes are signed.
        narrow_range: whether the least signed or the greatest unsigned code is left out.
    """
    if signed:
        half = 2.0 ** (bit_width - 1)
        return (-half + 1 if narrow_range else -half), half - 1
    return 0 * bit_width, 2.0**bit_width - (2 if narrow_range else 1)


def quantize_int(
    values: torch.Tensor,
    scale: torch.Tensor,
    zero_point: torch.Tensor,
    bit_width: torch.Tensor,
    *,
    signed: bool,
    narrow_range: bool = False,
    rounding: RoundingMode = RoundingMode.ROUND,
    straight_through: bool = False,
) -> torch.Tensor:
    """Return `(clamp(round(values / scale + zero_point)) - zero_point) * scale`.

    Args:
        values: floating point, any shape.
        scale: floating point, of a shape that broadcasts.
        zero_point: of codes, floating point, of a shape that broadcasts.
        bit_width: 0-d floating point.
        signed: whether codes are signed.
        narrow_range: whether the least signed or the greatest unsigned code is left out.
        rounding: how to round.
        straight_through: whether gradients of values out of range pass too, see `clamp`.

    Returns:
        Of the shape of `values`, with gradients to values, scale, zero point and bit width.
    """
    codes = int_codes(
        values,
        scale,
        zero_point,
        bit_width,
        signed=signed,
        narrow_range=narrow_range,
        rounding=rounding,
        straight_through=straight_through,
    )
    return (codes - zero_point) * scale


def int_codes(
    values: torch.Tensor,
    scale: torch.Tensor,
    zero_point: torch.Tensor,
    bit_width: torch.Tensor,
    *,
    signed: bool,
    narrow_range: bool,
    rounding: RoundingMode,
    straight_through: bool,
) -> torch.Tensor:
    """Return `clamp(round(values / scale + zero_point))` as floating point, see `quantize_int`."""
    low, high = code_bounds(bit_width, signed=signed, narrow_range=narrow_range)
    codes = rounded(values / scale + zero_point, rounding)
    return clamp(codes, low, high, straight_through=straight_through)
