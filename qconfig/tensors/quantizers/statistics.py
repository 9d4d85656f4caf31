"""Statistics of values from which thresholds and zero points come.

The order of operators is Brevitas', so that gradients agree too: among equal extremes of a channel
one gets the gradient, among those of a whole tensor all share it.
"""

from collections.abc import Callable
from math import ceil, floor

import torch

from qconfig.configs.quant_choices import ScaleStatistic, ZeroPointStatistic

_NARROW = (torch.float16, torch.bfloat16)


def statistics_view(values: torch.Tensor, axis: int | None) -> tuple[torch.Tensor, int | None]:
    """Return values as statistics see them, and the dimension that these are taken over.

    Args:
        values: any shape.
        axis: which indices have a statistic of their own; None for one statistic of all.
    """
    if axis is None:
        return values.reshape(-1), None
    moved = values.transpose(0, axis)
    return moved.reshape(moved.shape[0], -1), 1


def scale_statistic(
    values: torch.Tensor,
    statistic: ScaleStatistic,
    dim: int | None,
    percentiles: tuple[float, float] = (0.001, 99.999),
    *,
    keepdim: bool = False,
) -> torch.Tensor:
    """Return the threshold of values, at least 0.

    Args:
        values: floating point, of the form that `statistics_view` gives, or groups.
        statistic: which one.
        dim: over which dimension; None for all values.
        percentiles: the low and the high one, in per cent.
        keepdim: whether the dimension stays, of size 1.
    """
    low, high = percentiles
    if statistic is ScaleStatistic.MAX:
        return _largest(torch.abs(values), dim, keepdim=keepdim)
    if statistic is ScaleStatistic.PERCENTILE:
        return _ranked(values.abs(), dim, _rank_of_high, high, keepdim=keepdim)
    if statistic is ScaleStatistic.MIN_MAX:
        most = _largest(values, dim, keepdim=keepdim)
        least = _smallest(values, dim, keepdim=keepdim)
    else:
        least = _ranked(values, dim, _rank_of_low, low, keepdim=keepdim)
        most = _ranked(values, dim, _rank_of_high, high, keepdim=keepdim)
    return torch.abs(most - _at_most_zero(least))


def lowest(
    values: torch.Tensor,
    statistic: ZeroPointStatistic,
    dim: int | None,
    low_percentile: float = 0.001,
    *,
    keepdim: bool = False,
) -> torch.Tensor:
    """Return the value that the least code stands for, at most 0; arguments as above."""
    if statistic is ZeroPointStatistic.MIN:
        least = _smallest(values, dim, keepdim=keepdim)
    else:
        least = _ranked(values, dim, _rank_of_low, low_percentile, keepdim=keepdim)
    return _at_most_zero(least)


def _largest(values: torch.Tensor, dim: int | None, *, keepdim: bool) -> torch.Tensor:
    if dim is None:
        return torch.max(values)
    return torch.max(values, dim=dim, keepdim=keepdim).values


def _smallest(values: torch.Tensor, dim: int | None, *, keepdim: bool) -> torch.Tensor:
    if dim is None:
        return torch.min(values)
    return torch.min(values, dim=dim, keepdim=keepdim).values


def _at_most_zero(values: torch.Tensor) -> torch.Tensor:
    return torch.clamp(values, max=values.new_zeros(()))


def _rank_of_low(percentage: float, count: int) -> int:
    return ceil(0.01 * percentage * count)


def _rank_of_high(percentage: float, count: int) -> int:
    return floor(0.01 * percentage * count + 0.5)


def _ranked(
    values: torch.Tensor,
    dim: int | None,
    rank: Callable[[float, int], int],
    percentage: float,
    *,
    keepdim: bool,
) -> torch.Tensor:
    flat = values.reshape(-1) if dim is None else values
    along = 0 if dim is None else dim
    place = rank(percentage, flat.shape[along])
    # torch does not rank float16 on CPUs, nor bfloat16 on GPUs; float32 holds both.
    wide = flat.float() if flat.dtype in _NARROW else flat
    found = torch.kthvalue(wide, place, dim=along, keepdim=keepdim and dim is not None).values
    return found.to(values.dtype)
