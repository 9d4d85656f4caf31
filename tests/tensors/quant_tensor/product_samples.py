"""Operands of products at the ends of their ranges, and what must hold of every result."""

import itertools
import warnings

import torch

from qconfig.tensors.quant_tensor import IntQuantTensor

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Brevitas uses what torch deprecates
    from brevitas.quant_tensor import IntQuantTensor as Theirs

FORMATS = [(1, False), (1, True), (2, True), (4, False), (8, True), (8, False)]
"""Bit widths, and whether there is a sign."""
PAIRS = list(itertools.product(FORMATS, repeat=2))
ENDS = ["low", "high", "both"]


def at_end(shape, form, end, *, scale=0.5, zero_point=0.0, **more):
    """Return integers that are all the smallest, all the largest, or some of each, in float64."""
    bits, signed = form
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    if form == (1, True):
        low, high = -1, 1  # as Brevitas has them
    generator = torch.Generator().manual_seed(0)
    some = torch.randint(0, 2, shape, generator=generator).double()
    chosen = {"low": torch.zeros_like(some), "high": torch.ones_like(some), "both": some}[end]
    codes = chosen * (high - low) + low
    step = torch.as_tensor(scale, dtype=torch.float64)
    zero = torch.as_tensor(zero_point, dtype=torch.float64)
    return IntQuantTensor((codes - zero) * step, step, zero, bits, signed=signed, **more)


def holds(result, expected):
    """Return whether a result is a valid quant tensor of the expected values, to their integers."""
    assert isinstance(result, IntQuantTensor)
    assert result.is_valid
    rebuilt = (result.int().double() - result.zero_point) * result.scale
    close = torch.allclose(rebuilt, expected, rtol=1e-6, atol=1e-9)
    return close and torch.allclose(result.value, expected, rtol=1e-12, atol=1e-12)


def plain(result, expected):
    """Return whether a result is a plain tensor of the expected values."""
    return type(result) is torch.Tensor and torch.allclose(result, expected)


def _theirs(given):
    if not isinstance(given, IntQuantTensor):
        return given
    bits = given.bit_width.clone()
    return Theirs(given.value, given.scale, given.zero_point, bits, given.signed, given.training)


def agrees(operation, *operands):
    """Return whether an operation gives the same bits, in the same shapes, as with Brevitas."""
    ours = operation(*operands)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        other = operation(*map(_theirs, operands))
    names = ("value", "scale", "zero_point", "bit_width")
    pairs = [(getattr(ours, name), getattr(other, name)) for name in names]
    flags = (bool(other.signed), bool(other.training)) == (ours.signed, ours.training)
    return flags and all(a.shape == b.shape and torch.equal(a, b) for a, b in pairs)
