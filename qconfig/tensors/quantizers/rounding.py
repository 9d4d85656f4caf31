"""Round real numbers to whole ones; gradients pass as if nothing had been rounded."""

from collections.abc import Callable

import torch

from qconfig.configs.quant_choices import RoundingMode
from qconfig.tensors.quantizers.gradients import with_gradient_of

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


def rounded(values: torch.Tensor, mode: RoundingMode = RoundingMode.ROUND) -> torch.Tensor:
    """Return whole numbers, of the type and shape of `values`; the gradient is that of `values`.

    Args:
        values: floating point, any shape; infinity and NaN stay what they are.
        mode: how to round.
    """
    return with_gradient_of(values, _ROUND[mode](values.detach()))
