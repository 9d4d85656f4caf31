"""Floating-point types of 4 and 6 bits, which torch does not compute with: E2M1, E2M3, E3M2.

OCP Microscaling Formats (MX) 1.0, section 5.3: sign, exponent, mantissa, no infinity, no NaN.
Their magnitudes, in the order of their codes, are a few evenly spaced runs, each with twice the
step of the one before. The code nearest to a magnitude is therefore the least of one rounding a
run, and ties go to the even code because torch rounds ties to even:

    E2M1: min(round(2 a), round(a) + 2, round(a / 2) + 4), at most 7
"""

import torch
from attrs import frozen


@frozen
class SmallFloat:
    """A type of `1 + exponent_bits + mantissa_bits` bits without special values.

    Args:
        exponent_bits: bits of the exponent.
        mantissa_bits: bits of the mantissa.
    """

    exponent_bits: int
    mantissa_bits: int

    @property
    def sign(self) -> int:
        """The bit that says that a value is negative; codes of magnitudes are below it."""
        return 1 << (self.exponent_bits + self.mantissa_bits)

    @property
    def runs(self) -> int:
        """How many steps there are; subnormal magnitudes and the first normal ones share one."""
        return (1 << self.exponent_bits) - 1

    @property
    def step(self) -> float:
        """The smallest magnitude above 0."""
        bias: int = (1 << (self.exponent_bits - 1)) - 1
        return float(2.0 ** (1 - bias - self.mantissa_bits))

    @property
    def values(self) -> tuple[float, ...]:
        """What each code means, by code; the second half is negative and begins with -0."""
        per_run = 1 << self.mantissa_bits
        magnitudes = []
        for code in range(self.sign):
            run = max(code // per_run - 1, 0)
            magnitudes.append((code - run * per_run) * self.step * 2.0**run)
        return (*magnitudes, *(-m for m in magnitudes))

    @property
    def largest(self) -> float:
        """The largest magnitude, to which larger ones saturate."""
        return self.values[self.sign - 1]


E2M1 = SmallFloat(2, 1)
E2M3 = SmallFloat(2, 3)
E3M2 = SmallFloat(3, 2)


def codes_of(
    values: torch.Tensor, kind: SmallFloat, work: torch.Tensor | None = None
) -> torch.Tensor:
    """Return the codes nearest to values, one a byte; ties go to even codes, the rest saturates.

    Args:
        values: (..., n) float32, contiguous, not NaN; they are overwritten.
        kind: the type.
        work: int32, contiguous, at least as many elements, for the work; None takes memory for it.

    Returns:
        uint8 of the same shape. -0 and what rounds to it keep their sign.
    """
    # int8 all along: torch converts float32 to it ten times as fast as to uint8.
    place = 31 - (kind.exponent_bits + kind.mantissa_bits)
    if work is None:
        work = torch.empty_like(values, dtype=torch.int32)
    bits = work.view(-1)[: values.numel()].view(values.shape)
    rounded = bits.view(torch.float32)
    torch.bitwise_right_shift(values.view(torch.int32), place, out=bits)
    sign = bits.to(torch.int8).bitwise_and_(kind.sign)
    values.abs_().mul_(1 / kind.step)
    codes = values.round()
    for run in range(1, kind.runs):
        values.mul_(0.5)
        torch.round(values, out=rounded).add_(run << kind.mantissa_bits)
        torch.minimum(codes, rounded, out=codes)
    result = codes.clamp_(max=kind.sign - 1).to(torch.int8)
    return result.bitwise_or_(sign).view(torch.uint8)


def packed(codes: torch.Tensor) -> torch.Tensor:
    """Return codes of 4 bits two in a byte, the first of a pair in the low four bits.

    Args:
        codes: (..., n) uint8 below 16, contiguous, n even.

    Returns:
        (..., n / 2) uint8.
    """
    pairs = codes.view(torch.int16)
    return (pairs | (pairs >> 4)).to(torch.uint8)


def unpacked(pairs: torch.Tensor) -> torch.Tensor:
    """Return codes of 4 bits one in a byte: (..., n) uint8 becomes (..., 2 n).

    Args:
        pairs: two codes a byte, the first in the low four bits.
    """
    return torch.stack((pairs & 15, pairs >> 4), dim=-1).flatten(-2)


def values_table(
    kind: SmallFloat | None, stored: torch.dtype, dtype: torch.dtype, device: torch.device
) -> torch.Tensor:
    """Return what each byte means: (256,), or as many as a type has codes.

    Args:
        kind: the type, or None for `stored`, a type of torch's of one byte.
        stored: type of the tensor that holds the codes.
        dtype: type of the values; all have them exactly.
        device: where.
    """
    if kind is not None:
        return torch.tensor(kind.values, dtype=dtype, device=device)
    every = torch.arange(256, dtype=torch.int32, device=device).to(torch.uint8)
    return every.view(stored).to(dtype)


def pairs_table(dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Return what each byte of two E2M1 codes means, both values as one integer: (256,).

    Args:
        dtype: floating-point type of 2 or 4 bytes.
        device: where.
    """
    one = torch.tensor(E2M1.values, dtype=dtype, device=device)
    both = torch.stack((one.repeat(16), one.repeat_interleave(16)), dim=1)
    return both.view(torch.int32 if dtype.itemsize == 2 else torch.int64).view(-1)


def decoded(codes: torch.Tensor, kind: SmallFloat | None, dtype: torch.dtype) -> torch.Tensor:
    """Return the values of codes, one a byte.

    Args:
        codes: uint8 or of a type of torch's of one byte, any shape.
        kind: the type, or None for that of `codes`.
        dtype: type of the result; all have these values exactly.
    """
    # torch converts float8 element by element; a table is six times as fast.
    table = values_table(kind, codes.dtype, dtype, codes.device)
    flat = codes.contiguous().view(torch.uint8).view(-1).to(torch.int32)
    return table.index_select(0, flat).view(codes.shape)


def decoded_pairs(pairs: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return the values of E2M1 codes that lie two in a byte: (..., n) becomes (..., 2 n).

    Args:
        pairs: uint8, any shape; the first code of a pair in the low four bits.
        dtype: floating-point type of 2 or 4 bytes.
    """
    # Both values of a byte as one element of twice the size: one look-up for two codes.
    table = pairs_table(dtype, pairs.device)
    flat = pairs.reshape(-1).to(torch.int32)
    shape = (*pairs.shape[:-1], pairs.shape[-1] * 2)
    return table.index_select(0, flat).view(dtype).view(shape)
