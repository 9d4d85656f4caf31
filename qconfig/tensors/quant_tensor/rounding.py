"""Rounding whose gradient is that of the identity (Bengio et al., arXiv 1308.3432)."""

from typing import Any, cast

import torch


class _Straight(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: torch.Tensor, rounding: Any) -> torch.Tensor:
        return cast("torch.Tensor", rounding(value))

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        return gradients[0], None


def round_ste(value: torch.Tensor) -> torch.Tensor:
    """Return the nearest integers, halves to even."""
    if not value.requires_grad:
        return value.round()
    return cast("torch.Tensor", _Straight.apply(value, torch.round))  # type: ignore[no-untyped-call]


def ceil_ste(value: torch.Tensor) -> torch.Tensor:
    """Return the next integers."""
    if not value.requires_grad:
        return value.ceil()
    return cast("torch.Tensor", _Straight.apply(value, torch.ceil))  # type: ignore[no-untyped-call]
