"""Keep values within bounds that are tensors."""

from typing import Any

import torch


def _within(values: torch.Tensor, low: torch.Tensor, high: torch.Tensor) -> torch.Tensor:
    below = torch.where(values > high, high.type_as(values), values)
    return torch.where(below < low, low.type_as(below), below)


class _StraightThrough(torch.autograd.Function):
    """The same, with the gradient of the identity."""

    @staticmethod
    def forward(
        ctx: Any, values: torch.Tensor, low: torch.Tensor, high: torch.Tensor
    ) -> torch.Tensor:
        return _within(values, low, high)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0], None, None


def clamp(
    values: torch.Tensor, low: torch.Tensor, high: torch.Tensor, *, straight_through: bool = False
) -> torch.Tensor:
    """Return values within bounds; NaN stays NaN.

    Args:
        values: floating point, any shape.
        low: the least value, 0-d or of a shape that broadcasts.
        high: the greatest value, likewise.
        straight_through: whether gradients pass everywhere. If not, those of values out of bounds
            go to the bound.
    """
    if not straight_through:
        return _within(values, low, high)
    found: torch.Tensor = _StraightThrough.apply(values, low, high)  # type: ignore[no-untyped-call]
    return found
