"""Round real numbers to whole ones; gradients pass as if nothing had been rounded."""

from collections.abc import Callable
from typing import Any

import torch

from qconfig.configs.quant_choices import RoundingMode

Round = Callable[[torch.Tensor], torch.Tensor]


def to_zero(values: torch.Tensor) -> torch.Tensor:
    """Return the whole parts; 0 is positive where the value is 0."""
    return torch.sign(values) * torch.floor(torch.abs(values))


def to_nearest_up_below_zero(values: torch.Tensor) -> torch.Tensor:
    """Return the nearest whole numbers; halves go to the even one above 0, and upwards below."""
    is_half = (values < 0.0) & (values - torch.floor(values) == 0.5)
    return torch.where(is_half, torch.ceil(values), torch.round(values))


# A plain dict: torch.compile does not look into a read-only one.
_ROUND: dict[RoundingMode, Round] = {
    RoundingMode.ROUND: torch.round,
    RoundingMode.FLOOR: torch.floor,
    RoundingMode.CEIL: torch.ceil,
    RoundingMode.ROUND_TO_ZERO: to_zero,
    RoundingMode.DPU: to_nearest_up_below_zero,
}


class _StraightThrough(torch.autograd.Function):
    """A function whose gradient is that of the identity."""

    @staticmethod
    def forward(ctx: Any, values: torch.Tensor, mode: RoundingMode) -> torch.Tensor:
        return _ROUND[mode](values)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0], None


def rounded(values: torch.Tensor, mode: RoundingMode = RoundingMode.ROUND) -> torch.Tensor:
    """Return whole numbers, of the type and shape of `values`; the gradient is that of `values`.

    Args:
        values: floating point, any shape; infinity and NaN stay what they are.
        mode: how to round.
    """
    found: torch.Tensor = _StraightThrough.apply(values, mode)  # type: ignore[no-untyped-call]
    return found
