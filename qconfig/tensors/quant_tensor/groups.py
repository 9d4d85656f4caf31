"""Values in groups: their stored form and their logical form."""

from math import prod

import torch

from qconfig.layouts.quant_shapes import group_dimension, grouped_shape


def expanded(stored: torch.Tensor, shape: tuple[int, ...], group_dim: int) -> torch.Tensor:
    """Return values in their logical shape, a view of the stored ones.

    Args:
        stored: (…, groups, group_size, …).
        shape: logical; what a group was filled up with is left out.
        group_dim: logical dimension of the groups.
    """
    dim = group_dimension(len(shape), group_dim)
    flat = stored.flatten(dim, dim + 1)
    return flat if flat.shape[dim] == shape[dim] else flat.narrow(dim, 0, shape[dim])


def expanded_metadata(
    stored: torch.Tensor, shape: tuple[int, ...], group_size: int, group_dim: int
) -> torch.Tensor:
    """Return scales or zero points with an entry for each value; one for all stays one."""
    if prod(stored.shape) == 1 and len(stored.shape) <= 1:
        return stored
    full = stored.expand(grouped_shape(shape, group_size, group_dim))
    return expanded(full, shape, group_dim)
