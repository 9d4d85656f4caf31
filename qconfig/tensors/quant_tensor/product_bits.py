"""How many bits the integers of sums of products need: linear, matmul, convolutions, mean pools."""

from functools import cache
from typing import Any, NamedTuple

import torch

from qconfig.tensors.quant_tensor.bit_widths import bits_of_range, range_of, range_of_bits
from qconfig.tensors.quant_tensor.rounding import ceil_ste


class Accumulator(NamedTuple):
    """Integers of a sum of products.

    Args:
        bits: bit width, an int or a tensor of a learned one.
        low: the least integer, 0 or less; an int or a tensor.
        high: the largest integer.
    """

    bits: Any
    low: Any
    high: Any


def product_bits(first: Any, second: Any, terms: int, counted: int | None = None) -> Accumulator:
    """Return the bits of a sum of products of two IntQuantTensors without zero points.

    They are Brevitas' `ceil(log2((2**bits1 - 1) * (2**bits2 - 1) * n))`, or more where that does
    not hold the range.

    Args:
        first: one operand.
        second: the other.
        terms: how many products there are at most.
        counted: how many Brevitas counts, its `n`; by default `terms`.
    """
    terms, counted = int(terms), int(terms if counted is None else counted)
    bits, other = first.number("bit_width"), second.number("bit_width")
    if isinstance(bits, int) and isinstance(other, int):
        return _known(bits, first.signed, other, second.signed, terms, counted)
    bits, other = first.bit_width, second.bit_width
    (low, high), (other_low, other_high) = range_of(first), range_of(second)
    least = torch.minimum(_both(low, other_high, bits), _both(high, other_low, bits)) * terms
    most = torch.maximum(_both(low, other_low, bits), _both(high, other_high, bits)) * terms
    needed = bits_of_range(least, most, signed=first.signed or second.signed)
    product = (2**bits - 1) * (2**other - 1) * counted
    return Accumulator(torch.maximum(ceil_ste(torch.log2(product)), needed), least, most)


def sum_of_bits(tensor: Any, terms: int) -> Any:
    """Return the bits of a sum of integers, Brevitas' `ceil(log2((2**bits - 1) * n))` or more.

    Args:
        tensor: an IntQuantTensor.
        terms: how many of its integers are summed up.
    """
    bits, terms = tensor.number("bit_width"), int(terms)
    low, high = range_of(tensor)
    needed = bits_of_range(low * terms, high * terms, signed=tensor.signed)
    if isinstance(bits, int):
        return max((terms * (2**bits - 1) - 1).bit_length(), needed)
    return torch.maximum(ceil_ste(torch.log2((2**bits - 1) * terms)), needed)


def with_bias_bits(sums: Accumulator, bias: Any, *, signed: bool) -> Any:
    """Return the bits after an IntQuantTensor is added: Brevitas' `max(bits1, bits2) + 1` or more.

    Args:
        sums: what it is added to.
        bias: the tensor.
        signed: whether the result is.
    """
    bits = bias.number("bit_width")
    low, high = range_of(bias)
    if isinstance(bits, int) and isinstance(sums.bits, int):
        needed = bits_of_range(sums.low + low, sums.high + high, signed=signed)
        return max(sums.bits + 1, bits + 1, needed)
    own = bias.bit_width
    low, high = _both(low, 1, own) + sums.low, _both(high, 1, own) + sums.high
    longest = torch.maximum(own, _both(sums.bits, 1, own)) + 1
    return torch.maximum(longest, bits_of_range(low, high, signed=signed))


@cache
def _known(  # noqa: PLR0917
    bits: int, signed: Any, other: int, other_signed: Any, terms: int, counted: int
) -> Accumulator:
    low, high = range_of_bits(bits, signed=signed)
    other_low, other_high = range_of_bits(other, signed=other_signed)
    least = min(low * other_high, high * other_low) * terms
    most = max(low * other_low, high * other_high) * terms
    needed = bits_of_range(least, most, signed=signed or other_signed)
    product = (2**bits - 1) * (2**other - 1) * counted
    # One signed bit would mean -1 and 1.
    fewest = 2 if signed or other_signed else 1
    return Accumulator(max((product - 1).bit_length(), needed, fewest), least, most)


def _both(first: Any, second: Any, like: torch.Tensor) -> torch.Tensor:
    product = first * second
    return product if isinstance(product, torch.Tensor) else like.new_full((), float(product))
