"""Weights on which quantizers are compared, and equality of bits."""

import torch


def _mixed() -> torch.Tensor:
    found = torch.randn(7, 37, generator=torch.Generator().manual_seed(0))
    found[0] = 0
    found[1, :5] = torch.tensor([0.0, -0.0, 1e-40, -1e-38, 2.0**-133])
    found[2] *= 1e-3
    found[3] *= 100
    found[4] = (found[4] * 2).round() / 2
    found[5] = found[5].abs()
    return found


def _ties() -> torch.Tensor:
    found = torch.randn(5, 24, generator=torch.Generator().manual_seed(1))
    found[1, 3] = found[1, 4] = 2.5
    found[2] = found[2].round()
    found[0, 0] = 0
    return found


def _halves() -> torch.Tensor:
    row = torch.arange(-17, 18) / 2
    return torch.stack([row, row / 2, row.abs(), row * 0.3])


_MIXED = _mixed()
WEIGHTS_OF = {
    "mixed": _MIXED,
    "ordinary": torch.randn(6, 35, generator=torch.Generator().manual_seed(2)),
    "zeros": torch.zeros(2, 37),
    "small": _MIXED[2:] * 1e-3,
    "tiny": torch.full((2, 37), 2.0**-24),
    "negative": -_MIXED.abs(),
    "nan": torch.where(_MIXED > 2, torch.nan, _MIXED),
    "ties": _ties(),
    "halves": _halves(),
}
"""By name, float32."""

_INTEGERS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


def same_bits(found: torch.Tensor, expected: torch.Tensor, *, zeros_alike: bool = False) -> bool:
    """Return whether shape, type and every bit agree; NaN is NaN.

    Args:
        found: a floating-point tensor.
        expected: another.
        zeros_alike: whether 0 and -0 are the same.
    """
    if (found.shape, found.dtype) != (expected.shape, expected.dtype):
        return False
    kind = _INTEGERS[found.element_size()]
    same = found.contiguous().view(kind) == expected.contiguous().view(kind)
    same |= found.isnan() & expected.isnan()
    if zeros_alike:
        same |= (found == 0) & (expected == 0)
    return bool(same.all())
