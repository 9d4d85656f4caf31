"""Where scales and zero points go when values are moved or selected.

Metadata of one entry survives everything. Metadata with dimensions is brought to the rank of the
values and moved as they are; where that cannot be done with dimensions of size 1 kept, the result
is a plain tensor.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch

Item = Any
"""What becomes of one dimension: an int takes one place, a slice several, None is a new one."""
Move = Callable[[torch.Tensor], torch.Tensor | None]
"""From metadata of the rank of the values to that of the result; None where it cannot move."""

MOVED = {
    "value": "moved",
    "scale": "moved along",
    "zero_point": "moved along",
    "bit_width": "bits",
    "signed": "signed",
    "training": "training",
}
"""What becomes of the fields, in words."""


def moved(tensor: Any, value: torch.Tensor, move: Move) -> Any:
    """Return a quant tensor of moved values with moved metadata; the values where it cannot move.

    Args:
        tensor: what the values are of, not in groups.
        value: the result's values.
        move: called with metadata of several entries, in the rank of `tensor`.
    """
    rank = len(tensor.logical_shape)
    scale = _moved(tensor.scale, rank, value, move)
    if scale is None:
        return value
    zero_point = _moved(tensor.zero_point, rank, value, move)
    if zero_point is None:
        return value
    return remade(tensor, value=value, scale=scale, zero_point=zero_point)


def remade(tensor: Any, size: Sequence[int] | None = None, **changes: Any) -> Any:
    """Return a quant tensor with other values and metadata: the same or some of what was there.

    Args:
        tensor: gives the fields that do not change.
        size: logical shape, by default that of the value.
        changes: `value`, `scale`, `zero_point`, and other fields that change.
    """
    cls, state = type(tensor), tensor.__dict__
    known = state["_context"].symmetric
    if not known and state["_zero_point"].numel() != 1:
        known = None  # some of the zero points may be 0
    fields = tensor.inner_attributes
    for name in cls.fields.numbers:
        fields[name] = tensor.number(name)
    return cls.made(size, **(fields | changes), symmetric=known)


def _moved(
    metadata: torch.Tensor, rank: int, value: torch.Tensor, move: Move
) -> torch.Tensor | None:
    if metadata.numel() == 1:
        return metadata if metadata.dim() <= value.dim() else metadata.reshape((1,) * value.dim())
    return move(aligned(metadata, rank))


def aligned(metadata: torch.Tensor, rank: int) -> torch.Tensor:
    """Return metadata with dimensions of size 1 in front, up to a rank."""
    missing = rank - metadata.dim()
    return metadata.reshape((1,) * missing + tuple(metadata.shape)) if missing else metadata


def taken(metadata: torch.Tensor, items: Sequence[Item]) -> torch.Tensor:
    """Return metadata with an index applied to it; dimensions of size 1 are kept.

    Args:
        metadata: of the rank of the values.
        items: an item for each dimension, and None for new ones.
    """
    index: list[Item] = []
    sizes = iter(metadata.shape)
    for item in items:
        if item is not None and next(sizes) == 1:
            index.append(slice(None) if isinstance(item, slice) else 0)
        else:
            index.append(item)
    return metadata[tuple(index)]


def reshaped(metadata: torch.Tensor, old: Sequence[int], new: Sequence[int]) -> torch.Tensor | None:
    """Return metadata for values in another shape; None if it would not broadcast to them.

    Dimensions are compared from the first on, in the smallest runs of one product: (O, C, k, k)
    becomes (O, C·k·k) in the runs O → O and C, k, k → C·k·k. In a run, metadata has one entry,
    which stays one, or one for each value, which are reshaped as the values are.

    Args:
        metadata: of the rank of `old`.
        old: shape of the values.
        new: shape of the result.
    """
    shape: list[int] = []
    i = j = 0
    while i < len(old) or j < len(new):
        first, start = i, j
        size = wanted = 1
        if i < len(old):
            size, i = old[i], i + 1
        if j < len(new):
            wanted, j = new[j], j + 1
        while size != wanted:
            if size < wanted:
                if i == len(old):
                    return None
                size, i = size * old[i], i + 1
            else:
                if j == len(new):
                    return None
                wanted, j = wanted * new[j], j + 1
        own = tuple(metadata.shape[first:i])
        if all(n == 1 for n in own):
            shape += [1] * (j - start)
        elif own == tuple(old[first:i]):
            shape += new[start:j]
        else:
            return None
    return metadata.reshape(shape)
