"""Slices of tensors in groups: those that leave groups whole are applied to the stored form."""

from collections.abc import Sequence
from typing import Any

import torch

from qconfig.layouts.quant_shapes import group_dimension
from qconfig.tensors.quant_tensor.metadata_moves import Item, remade, taken


def sliced(tensor: Any, value: torch.Tensor, items: Sequence[Item]) -> Any:
    """Return a tensor in groups with an index applied to it, or the values where it cuts a group.

    Along the dimension of the groups, slices keep the class that start where a group starts, end
    where one ends or with the tensor, and leave out none in between.

    Args:
        tensor: in groups.
        value: the result's values, which give its logical shape.
        items: integers, slices and None for new dimensions; see `indices.items_of`.
    """
    shape = tensor.logical_shape
    dim = group_dimension(len(shape), tensor.group_dim)
    stored: list[Item] = []
    old = new = group_dim = 0
    for item in items:
        if item is None or old != dim:
            stored.append(item)
        else:
            groups = _groups(item, shape[dim], tensor.group_size)
            if groups is None:
                return value
            stored += [groups, slice(None)]
            group_dim = new
        old += item is not None
        new += item is None or isinstance(item, slice)
    return remade(
        tensor,
        value.shape,
        value=tensor.grouped_value[tuple(stored)],
        scale=_taken(tensor.grouped_scale, stored),
        zero_point=_taken(tensor.grouped_zero_point, stored),
        group_dim=group_dim if tensor.group_dim >= 0 else group_dim - new,
        dequant_shape=tuple(value.shape),
    )


def _taken(metadata: torch.Tensor, items: Sequence[Item]) -> torch.Tensor:
    return metadata if metadata.dim() < 2 else taken(metadata, items)


def _groups(item: Item, size: int, group_size: int) -> slice | None:
    """Return the groups that a slice takes; None if it is none, or does not take them whole."""
    if not isinstance(item, slice):
        return None
    if item == slice(None):
        return item
    start, stop, step = item.indices(size)
    stop = max(start, stop)
    if step != 1 or start % group_size or (stop % group_size and stop != size):
        return None
    return slice(start // group_size, -(-stop // group_size))
