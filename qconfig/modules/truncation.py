"""Fewer bits for integers that have many: the lowest ones are dropped."""

import torch

from qconfig.configs.quant_choices import RoundingMode
from qconfig.tensors.quantizers import clamp, code_bounds, rounded


def averaged_bits(bits: torch.Tensor, count: int) -> torch.Tensor:
    """Return the bits of the sum of `count` integers: `ceil(log2((2**bits - 1) * count))`.

    Args:
        bits: those of one integer, shape ().
        count: how many are summed.
    """
    return rounded(torch.log2((2**bits - 1) * count), RoundingMode.CEIL)


def truncated(
    value: torch.Tensor,
    scale: torch.Tensor,
    zero_point: torch.Tensor,
    bits: torch.Tensor,
    kept: int,
    *,
    signed: bool,
    narrow_range: bool = False,
    rounding: RoundingMode = RoundingMode.ROUND,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return values of fewer bits, their scale and their zero point.

    `scale' = scale * 2**(bits - kept)`, `zero_point' = zero_point / 2**(bits - kept)`; integers
    are divided by the same power, rounded, and clamped to the range of `kept` bits.

    Args:
        value: on the grid of `scale` and `zero_point`, up to the error of floats.
        scale: step of the grid, broadcasts to `value`.
        zero_point: integer of the value zero, broadcasts to `value`.
        bits: how many the integers have, shape ().
        kept: how many are left.
        signed: whether integers may be negative.
        narrow_range: whether the least signed or greatest unsigned integer is left out.
        rounding: how the quotient becomes an integer.
    """
    dropped = 2.0 ** (bits - kept)
    integers = rounded(value / scale + zero_point)
    low, high = code_bounds(
        torch.tensor(float(kept), device=value.device), signed=signed, narrow_range=narrow_range
    )
    codes = clamp(rounded(integers / dropped, rounding), low, high)
    result_scale, result_zero_point = scale * dropped, zero_point / dropped
    return (codes - result_zero_point) * result_scale, result_scale, result_zero_point
