"""From the least value to a zero point."""

import torch

from qconfig.configs.quant_choices import RoundingMode
from qconfig.tensors.quantizers.integers import code_bounds, int_codes


def magnitude(values: torch.Tensor) -> torch.Tensor:
    """Return absolute values whose gradient at 0 is that from above: of learned zero points."""
    return torch.where(values >= 0, values, -values)


def shifted_zero_point(
    depth: torch.Tensor,
    scale: torch.Tensor,
    bit_width: torch.Tensor,
    *,
    signed: bool,
    narrow_range: bool = False,
    rounding: RoundingMode = RoundingMode.ROUND,
    quantized: bool = True,
    straight_through: bool = False,
) -> torch.Tensor:
    """Return the zero point with which the least code stands for `-depth`.

    Args:
        depth: how far below 0 values reach, from 0, of the shape of scales.
        scale: floating point.
        bit_width: 0-d floating point.
        signed: whether codes are signed.
        narrow_range: whether the least signed or the greatest unsigned code is left out.
        rounding: how to round.
        quantized: whether the zero point is a code; if not, it is `depth / scale + least code`.
        straight_through: see `clamp`.
    """
    low, _ = code_bounds(bit_width, signed=signed, narrow_range=narrow_range)
    if not quantized:
        return depth / scale + low
    return int_codes(
        depth,
        scale,
        low,
        bit_width,
        signed=signed,
        narrow_range=narrow_range,
        rounding=rounding,
        straight_through=straight_through,
    )
