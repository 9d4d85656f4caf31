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
    """Return the smallest and the largest integer of an IntQuantTensor."""
    return int_range(tensor.number("bit_width"), signed=tensor.signed)


def sum_bits(first: Any, second: Any) -> Any:
    """Return the bits of a sum: the fewest that hold the sums of both ranges."""
    (low, high), (other_low, other_high) = range_of(first), range_of(second)
    return bits_of_range(low + other_low, high + other_high, signed=first.signed or second.signed)
