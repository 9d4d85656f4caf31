"""Whether values lie on the grid that metadata describes."""

from typing import TYPE_CHECKING

from attrs import frozen

if TYPE_CHECKING:
    import torch

_COARSE = 1e-4
"""Codes of 16-bit types are off by up to a half where there are 8 bits of them, most of them less;
what is no integer at all is off by a quarter on average."""

MOST_LOOKED_AT = 2**20
"""Elements of a tensor that are compared with a grid."""


@frozen
class FloatGrid:
    """The values of a small float with a sign, and no code kept for infinity or NaN.

    Args:
        exponent: bits.
        mantissa: bits.
        bias: what is subtracted from an exponent.
    """

    exponent: float
    mantissa: float
    bias: float

    @property
    def usualness(self) -> int:
        """2 if the bias is IEEE's, `2**(e-1) - 1`; 1 if FNUZ formats', `2**(e-1)`; else 0."""
        ieee = 2.0 ** (self.exponent - 1) - 1
        return {ieee: 2, ieee + 1: 1}.get(self.bias, 0)

    @property
    def is_plausible(self) -> bool:
        """Whether widths are whole and small, and the bias is a number of that size."""
        widths = (self.exponent, self.mantissa)
        return all(w.is_integer() and 0 <= w <= 8 for w in widths) and abs(self.bias) <= 256

    @property
    def swapped(self) -> "FloatGrid":
        """The same with the widths exchanged."""
        return FloatGrid(self.mantissa, self.exponent, self.bias)

    def holds(self, codes: "torch.Tensor", precision: float) -> bool:
        """Return whether all of some numbers are on the grid, up to rounding.

        Args:
            codes: values over scales, finite, float64.
            precision: distance from 1 to the next number of the type that the values had.
        """
        import torch

        exact = codes[codes != 0].abs()
        if not exact.numel():
            return True
        _, exponents = torch.frexp(exact)
        least = 1 - self.bias - self.mantissa
        step = torch.clamp(exponents.double() - 1 - self.mantissa, min=least)
        significands = torch.ldexp(exact, -step)
        tolerance = max(1e-6, 2 ** (self.mantissa + 2) * precision)
        if tolerance >= 0.25:
            return True  # the type is too coarse to tell
        off = (significands - significands.round()).abs()
        largest = (2 - 2.0**-self.mantissa) * 2.0 ** (2.0**self.exponent - 1 - self.bias)
        return bool((off <= tolerance).all() and (exact <= largest * (1 + 4 * precision)).all())


def are_integers(codes: "torch.Tensor", precision: float) -> bool:
    """Return whether all of some numbers are whole, up to rounding.

    Args:
        codes: values over scales, plus zero points, float64.
        precision: distance from 1 to the next number of the type that the values had.
    """
    off = (codes - codes.round()).abs()
    if not off.numel():
        return True
    return bool(off.max() <= 0.1) if precision < _COARSE else bool(off.mean() <= 0.15)
