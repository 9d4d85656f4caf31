"""Views of packed weights as plain functions: other dimensions, the same codes and scales."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from qconfig.tensors.dispatch import unsupported
from qconfig.tensors.geometry import Field, elements_per_entry, present_fields

if TYPE_CHECKING:
    from qconfig.tensors.matrix import MatrixTensor


def dimension(weight: "MatrixTensor", dim: int) -> int:
    """Return a dimension counted from the front.

    Raises:
        IndexError: there is no such dimension.
    """
    rank = weight.dim()
    if not -rank <= dim < rank:
        raise IndexError(f"dimension {dim} is out of range for a tensor of rank {rank}")
    return dim % rank


def check_views(weight: "MatrixTensor", name: str) -> None:
    """Refuse a view or cut of a tensor whose fields do not follow its dimensions.

    Raises:
        UnsupportedOperationError: with the reason that the class gives, or one vector for each of
            several matrices.
    """
    reason = weight.view_refusal()
    for field in present_fields(weight):
        shape = tuple(field.tensor.shape)
        own = field.followed(2)
        length = 1 if own is None else shape[-2 if field.is_flipped else -1]
        if reason is None and not field.is_tiled and length != field.tensor.numel() > 1:
            reason = f"{field.name} {shape} has a vector for each of several matrices"
    if reason is not None:
        raise unsupported(type(weight), name, reason)


def selected(weight: "MatrixTensor", dim: int, index: int) -> "MatrixTensor":
    """Return one entry of a dimension of a tensor of rank 3 or more, such as an expert.

    Raises:
        UnsupportedOperationError: a vector would be left, which no layout holds, or the entry is
            a part of a byte or of a block that has to stay whole.
        IndexError: there is no such entry.
    """
    dim, rank = dimension(weight, dim), weight.dim()
    if rank < 3:
        raise unsupported(
            type(weight),
            "aten.select.int",
            "a packed tensor has at least 2 dimensions; take a slice of length 1",
        )
    size = weight.shape[dim]
    if not -size <= index < size:
        raise IndexError(f"index {index} is out of range for dimension {dim} of size {size}")
    check_views(weight, "aten.select.int")
    tensors = weight.inner_tensors
    for field in present_fields(weight):
        own = field.dimension(dim, rank)
        if own is None:
            continue
        per_entry = elements_per_entry(field, dim, size, rank)
        if per_entry != 1 and (field.is_payload or weight.fixed_blocks):
            reason = f"{per_entry or size} elements of dimension {dim} stay together"
            raise unsupported(type(weight), "aten.select.int", reason)
        entry = index % size // per_entry if per_entry else 0
        tensors[field.name] = field.tensor.narrow(own, entry, 1)
    shape = (*weight.shape[:dim], 1, *weight.shape[dim + 1 :])
    block = weight.blocks
    if block is not None:
        block = (*block[:dim], 1, *block[dim + 1 :])
    kept = weight.restructured(tensors, shape, block)
    return rearranged(kept, [d for d in range(rank) if d != dim], "aten.select.int")


def transposed(weight: "MatrixTensor", first: int, second: int) -> "MatrixTensor":
    """Return the tensor with two dimensions exchanged: codes, scales and block size alike.

    Raises:
        UnsupportedOperationError: it has a field, such as act_pre_scale, that belongs to one of
            the last two, and would belong to another.
    """
    order = list(range(weight.dim()))
    first, second = dimension(weight, first), dimension(weight, second)
    order[first], order[second] = order[second], order[first]
    return rearranged(weight, order, "transposition")


def permuted(weight: "MatrixTensor", order: Sequence[int]) -> "MatrixTensor":
    """Return the tensor with its dimensions in another order.

    Raises:
        UnsupportedOperationError: see `transposed`.
    """
    return rearranged(weight, [dimension(weight, d) for d in order], "transposition")


def unsqueezed(weight: "MatrixTensor", dim: int) -> "MatrixTensor":
    """Return the tensor with a dimension of size 1 inserted before `dim`.

    Raises:
        UnsupportedOperationError: the rows or columns that a field belongs to would move.
    """
    sources: list[int | None] = list(range(weight.dim()))
    sources.insert(dim % (weight.dim() + 1), None)
    return rearranged(weight, sources, "aten.unsqueeze.default")


def reshaped(weight: "MatrixTensor", shape: Sequence[int]) -> "MatrixTensor":
    """Return the tensor under another shape, if that differs in leading ones only.

    Raises:
        UnsupportedOperationError: dimensions would merge, split or go.
    """
    old = tuple(weight.shape)
    target = list(shape)
    if target.count(-1) == 1:
        known = -torch.Size(target).numel()
        target[target.index(-1)] = weight.numel() // known if known else 0
    new = tuple(target)
    if old == new:
        return weight.map_tensors(torch.ops.aten.alias.default)
    if len(new) < 2 or _significant(new) != _significant(old):
        raise unsupported(
            type(weight), "view", f"shape {old} and {new} differ in more than leading ones"
        )
    dropped, added = max(len(old) - len(new), 0), max(len(new) - len(old), 0)
    return rearranged(weight, [*[None] * added, *range(dropped, len(old))], "view")


def rearranged(weight: "MatrixTensor", sources: Sequence[int | None], name: str) -> "MatrixTensor":
    """Return the tensor with dimensions in another order, some new, some of size 1 left out.

    Args:
        weight: the tensor.
        sources: for each new dimension the old one, or None for one of size 1.
        name: the operator, for errors.

    Raises:
        UnsupportedOperationError: the rows or columns that a field belongs to would move.
    """
    check_views(weight, name)
    tensors = weight.inner_tensors
    for field in present_fields(weight):
        arranged = _arranged if field.is_tiled else _followed
        tensors[field.name] = arranged(weight, field, sources, name)
    block = weight.blocks
    return weight.restructured(
        tensors,
        tuple(1 if s is None else weight.shape[s] for s in sources),
        None if block is None else tuple(1 if s is None else block[s] for s in sources),
    )


def _arranged(
    weight: "MatrixTensor", field: Field, sources: Sequence[int | None], name: str
) -> torch.Tensor:
    rank = weight.dim()
    # The old dimension of the field for each new one; None where it gets one of size 1.
    origins: list[int | None] = [None] * len(sources)
    for new, old in enumerate(sources):
        own = field.dimension(new, len(sources))
        if own is not None:
            origins[own] = None if old is None else field.dimension(old, rank)
    kept = [origin for origin in origins if origin is not None]
    tensor = field.tensor
    for dim in reversed(range(rank)):
        if dim not in kept:
            tensor = tensor.select(dim, 0)
            kept = [k - (k > dim) for k in kept]
    tensor = tensor.permute(kept)
    for dim, origin in enumerate(origins):
        if origin is None:
            tensor = tensor.unsqueeze(dim)
    return tensor


def _followed(
    weight: "MatrixTensor", field: Field, sources: Sequence[int | None], name: str
) -> torch.Tensor:
    old, rank = field.followed(weight.dim()), weight.dim()
    if old is None:
        return field.tensor
    new = list(sources).index(old) if old in sources else None
    if new is None or new < len(sources) - 2:
        reason = f"it has {field.name}, which belongs to one of the last two dimensions"
        raise unsupported(type(weight), name, reason)
    if len(sources) - new == rank - old:
        return field.tensor
    return field.tensor.squeeze(-1) if field.is_flipped else field.tensor.unsqueeze(-1)


def _significant(shape: tuple[int, ...]) -> tuple[int, ...]:
    # A packed tensor keeps at least a matrix, so only ones before that are free.
    lead = 0
    while lead < len(shape) - 2 and shape[lead] == 1:
        lead += 1
    return shape[lead:]
