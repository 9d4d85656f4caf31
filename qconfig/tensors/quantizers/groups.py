"""Between a tensor and its groups: one dimension becomes two, with zeros after the last element."""

import torch
from torch.nn.functional import pad


def to_groups(values: torch.Tensor, group_size: int, group_dim: int) -> torch.Tensor:
    """Return values in groups: dimension `group_dim` becomes (groups, group_size).

    Args:
        values: any shape.
        group_size: elements of a group; the last one is filled up with zeros.
        group_dim: dimension along which groups lie; negative ones count from the end.
    """
    dim = group_dim % values.dim()
    missing = -values.shape[dim] % group_size
    if missing:
        values = pad(values, (0, 0) * (values.dim() - dim - 1) + (0, missing))
    return torch.unflatten(values, dim, (-1, group_size))


def from_groups(values: torch.Tensor, shape: tuple[int, ...], group_dim: int) -> torch.Tensor:
    """Return values as they were before `to_groups`.

    Args:
        values: grouped values.
        shape: of the logical tensor.
        group_dim: dimension along which groups lie; negative ones count from the end.
    """
    dim = group_dim % len(shape)
    return values.flatten(dim, dim + 1).narrow(dim, 0, shape[dim])
