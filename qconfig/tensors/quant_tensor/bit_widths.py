"""How many bits the integers of a result need."""

from typing import Any

import torch

from qconfig.tensors.quant_tensor.int_mixin import int_range
from qconfig.tensors.quant_tensor.rounding import ceil_ste


def bits_of_range(low: Any, high: Any, *, signed: bool) -> Any:
    """Return the fewest bits whose range holds the integers `low` to `high`.

    Args:
        low: smallest integer, an int or a tensor of shape ().
        high: largest integer.
        signed: whether the bits are of signed integers.
    """
    if isinstance(low, int) and isinstance(high, int):
        if not signed:
            return high.bit_length()
        return max(high.bit_length(), (-low - 1).bit_length() if low < 0 else 0) + 1
    low, high = _number(low, high), _number(high, low)
    above = ceil_ste(torch.log2((high + 1).clamp(min=1)))
    if not signed:
        return above
    below = ceil_ste(torch.log2((-low).clamp(min=1)))
    return torch.maximum(above, below) + 1


def _number(value: Any, like: Any) -> torch.Tensor:
    if isinstance(value, torch.Tensor):
        return value
    return torch.as_tensor(float(value), dtype=like.dtype, device=like.device)


def range_of(tensor: Any) -> tuple[Any, Any]:
    """Return the smallest and the largest integer of an IntQuantTensor; see `range_of_bits`."""
    return range_of_bits(tensor.number("bit_width"), signed=tensor.signed)


def range_of_bits(bits: Any, *, signed: bool) -> tuple[Any, Any]:
    """Return the smallest and the largest integer that a valid tensor of so many bits may have.

    They are those of `int_range`; but integers of 1 signed bit are -1 and 1.

    Args:
        bits: an int, or a tensor of a learned width.
        signed: whether half of the integers are negative.
    """
    low, high = int_range(bits, signed=signed)
    if not signed:
        return low, high
    if isinstance(bits, int):
        return min(low, -1), max(high, 1)
    return low.clamp(max=-1), high.clamp(min=1)


def sum_bits(first: Any, second: Any) -> Any:
    """Return the bits of a sum: the fewest that hold the sums of both ranges."""
    (low, high), (other_low, other_high) = range_of(first), range_of(second)
    return bits_of_range(low + other_low, high + other_high, signed=first.signed or second.signed)


def absolute_bits(tensor: Any, zero_point: torch.Tensor) -> Any:
    """Return the bits of `|int - zero_point|`; None if it is no integer, or nobody knows.

    Args:
        tensor: integers, in groups or not.
        zero_point: as it is stored.
    """
    bits = tensor.number("bit_width")
    if tensor.is_symmetric:
        if not tensor.signed:
            return bits
        return bits - 1 if isinstance(bits, torch.Tensor) else max(bits - 1, 1)
    if tensor.is_symmetric is None:
        return None
    zero_point = zero_point.detach()
    if not torch.equal(zero_point, zero_point.round()):
        return None
    low, high = range_of(tensor)
    farthest = torch.maximum((low - zero_point).abs(), (high - zero_point).abs()).max()
    return bits_of_range(0, farthest, signed=False)
