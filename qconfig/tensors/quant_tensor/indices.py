"""Indices of tensors, dimension by dimension."""

from collections.abc import Iterable, Iterator, Sequence
from numbers import Integral
from typing import Any

import torch

from qconfig.tensors.quant_tensor.metadata_moves import Item

_MASKS = (torch.bool, torch.uint8)
_ALL = slice(None)


def is_int_number(value: Any) -> bool:
    """Return whether a value is an integer, a tracer's too, and no bool."""
    return isinstance(value, int | torch.SymInt) and not isinstance(value, bool)


def items_of(index: Any, rank: int) -> list[Item] | None:
    """Return what an index says of each dimension; None if it is of a kind unknown here.

    Args:
        index: what stands in brackets.
        rank: dimensions that are indexed.

    Returns:
        Integers, slices, None for new dimensions, and tensors: of integers for one dimension, of
        booleans for as many as they have. Dimensions that are not named are whole slices.
    """
    given = index if isinstance(index, tuple) else (index,)
    entries = [entry if entry is Ellipsis else _entry(entry) for entry in given]
    if any(e is NotImplemented for e in entries):
        return None
    rest = [_ALL] * (rank - sum(covered(e) for e in entries if e is not Ellipsis))
    for place, entry in enumerate(entries):
        if entry is Ellipsis:
            return entries[:place] + rest + entries[place + 1 :]
    return entries + rest


def _entry(entry: Any) -> Any:
    if entry is None or isinstance(entry, slice) or is_int_number(entry):
        return entry
    if isinstance(entry, bool):
        return NotImplemented
    if isinstance(entry, Integral):  # numpy's
        return int(entry)
    if isinstance(entry, list | tuple) and not all(map(_is_literal, entry)):
        return NotImplemented
    if not isinstance(entry, torch.Tensor):
        if not isinstance(entry, list | tuple) and not hasattr(entry, "__array__"):
            return NotImplemented
        entry = torch.as_tensor(entry, dtype=torch.long if _is_empty(entry) else None)
    return NotImplemented if entry.dtype in _MASKS and not entry.dim() else entry


def _is_empty(entry: Any) -> bool:
    return isinstance(entry, list | tuple) and not entry


def _is_literal(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_literal, value))
    return isinstance(value, int | torch.SymInt)


def covered(entry: Item) -> int:
    """Return how many dimensions an entry of an index stands for."""
    if entry is None:
        return 0
    if isinstance(entry, torch.Tensor) and entry.dtype in _MASKS:
        return entry.dim()
    return 1


def taken_by_tensors(
    metadata: torch.Tensor, shape: Sequence[int], items: Iterable[Item]
) -> torch.Tensor:
    """Return metadata with an index applied to it in which there are tensors.

    Metadata that has one entry along all dimensions that tensors index keeps one there; else it is
    expanded along them, and indexed as the values are.

    Args:
        metadata: of the rank of the values.
        shape: that of the values.
        items: an item for each dimension or several, and None for new ones.
    """
    placed = list(_placed(items))
    by_tensor = {d for item, dims in placed if isinstance(item, torch.Tensor) for d in dims}
    one = all(metadata.shape[d] == 1 for d in by_tensor)
    if not one:
        sizes = [shape[d] if d in by_tensor else -1 for d in range(len(shape))]
        metadata = metadata.expand(sizes)
    index: list[Item] = []
    for item, dims in placed:
        if isinstance(item, torch.Tensor):
            index += _first_entry(item, metadata.device) if one else [item]
        elif item is None or metadata.shape[dims[0]] != 1:
            index.append(item)
        else:
            index.append(_ALL if isinstance(item, slice) else 0)
    return metadata[tuple(index)]


def _placed(items: Iterable[Item]) -> Iterator[tuple[Item, range]]:
    dim = 0
    for item in items:
        after = dim + covered(item)
        yield item, range(dim, after)
        dim = after


def _first_entry(entry: torch.Tensor, device: torch.device) -> list[torch.Tensor]:
    """Return what takes the first entries where `entry` takes others, in as many dimensions."""
    if entry.dtype in _MASKS:
        return [torch.zeros(1, dtype=torch.long, device=device)] * entry.dim()
    return [torch.zeros((1,) * entry.dim(), dtype=torch.long, device=device)]


def along(rank: int, dim: int, item: Item) -> list[Item]:
    """Return the items of an index of one dimension, which may count from the end."""
    items: list[Item] = [_ALL] * rank
    if rank:
        items[dim % rank] = item
    return items


def unsqueezed(rank: int, dim: int) -> list[Item]:
    """Return the items that add a dimension."""
    place = dim % (rank + 1)
    return [_ALL] * place + [None] + [_ALL] * (rank - place)


def squeezed(shape: Sequence[int], dim: Any = None) -> list[Item]:
    """Return the items that drop dimensions of size 1: all, or those of some dimensions."""
    rank = len(shape)
    chosen = range(rank) if dim is None else [dim] if is_int_number(dim) else dim
    places = {d % rank for d in chosen} if rank else set()
    return [0 if d in places and shape[d] == 1 else _ALL for d in range(rank)]


def pieces(values: Sequence[torch.Tensor], rank: int, dim: int) -> list[list[Item]]:
    """Return the items of each of several pieces that lie one after the other along a dimension."""
    found, start = [], 0
    for value in values:
        end = start + value.shape[dim]
        found.append(along(rank, dim, slice(start, end)))
        start = end
    return found
