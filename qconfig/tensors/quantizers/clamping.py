"""Keep values within bounds that are tensors."""

import torch

from qconfig.tensors.quantizers.gradients import with_gradient_of


def _within(values: torch.Tensor, low: torch.Tensor, high: torch.Tensor) -> torch.Tensor:
    below = torch.where(values > high, high.type_as(values), values)
    return torch.where(below < low, low.type_as(below), below)


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
    return with_gradient_of(values, _within(values.detach(), low.detach(), high.detach()))
