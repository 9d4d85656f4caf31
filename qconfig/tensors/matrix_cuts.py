"""Cuts and joins of packed weights as plain functions: no byte and no block is ever split.

Along a dimension of size n with blocks of b elements, a cut may fall anywhere if all elements share
one scale (b = n) or each has its own (b = 1), and on multiples of b otherwise. Formats that fix the
size of their blocks are cut on multiples of it only.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch

from qconfig.errors import LayoutError
from qconfig.tensors.dispatch import unsupported
from qconfig.tensors.geometry import Field, elements_per_entry, present_fields, row_dimension
from qconfig.tensors.matrix_views import check_views, dimension

if TYPE_CHECKING:
    from qconfig.tensors.matrix import MatrixTensor

# What picks entries of one dimension.
Entries = slice | torch.Tensor


def sliced(
    weight: "MatrixTensor", dim: int, start: int, stop: int, step: int = 1
) -> "MatrixTensor":
    """Return `weight[..., start:stop:step]` along a dimension; bounds as in Python, not negative.

    Raises:
        LayoutError: the cut splits a byte or a block.
        UnsupportedOperationError: a step other than 1 through blocks of several elements.
    """
    dim = dimension(weight, dim)
    size, stop = weight.shape[dim], max(start, stop)

    def entries_of(field: Field, per_entry: int) -> Entries:
        if per_entry == 1:
            return slice(start, stop, step)
        if step != 1:
            reason = f"{per_entry} elements share a scale along dimension {dim}"
            raise unsupported(type(weight), f"slice with step {step}", reason)
        for bound in (start, stop):
            if bound % per_entry and bound != size:
                raise _misaligned(field, dim, per_entry, f"{start}:{stop}")
        return slice(start // per_entry, -(-stop // per_entry))

    return _cut(weight, dim, entries_of, len(range(start, stop, step)))


def indexed(weight: "MatrixTensor", dim: int, index: torch.Tensor) -> "MatrixTensor":
    """Return the entries of a dimension that an integer or boolean vector picks.

    Raises:
        LayoutError: several elements share a scale or a byte along the dimension.
    """
    dim = dimension(weight, dim)

    def entries_of(field: Field, per_entry: int) -> Entries:
        if per_entry != 1:
            raise _misaligned(field, dim, per_entry, "an index tensor")
        return index

    return _cut(weight, dim, entries_of, None)


def rows_taken(weight: "MatrixTensor", index: torch.Tensor) -> "MatrixTensor":
    """Return the rows of a matrix that an integer vector picks, each with its own scales.

    Raises:
        LayoutError: several rows share a byte.
    """
    check_views(weight, "index_select")
    size, rank = weight.shape[0], weight.dim()
    tensors = weight.inner_tensors
    for field in present_fields(weight):
        own = field.dimension(0, rank)
        per_entry = elements_per_entry(field, 0, size, rank)
        if own is None or not per_entry:
            continue
        if field.is_payload and per_entry != 1:
            raise _misaligned(field, 0, per_entry, "an index tensor")
        entries = index if per_entry == 1 else index // per_entry
        tensors[field.name] = field.tensor.index_select(own, entries)
    block = weight.blocks
    if block is not None:
        shared = block[0] == size and size != 1
        block = (index.shape[0] if shared else 1, *block[1:])
    return weight.restructured(tensors, (index.shape[0], *weight.shape[1:]), block)


def _cut(
    weight: "MatrixTensor",
    dim: int,
    entries_of: Callable[[Field, int], Entries],
    length: int | None,
) -> "MatrixTensor":
    check_views(weight, "a cut")
    size, rank = weight.shape[dim], weight.dim()
    tensors = weight.inner_tensors
    for field in present_fields(weight):
        own = field.dimension(dim, rank)
        if own is None:
            continue
        per_entry = elements_per_entry(field, dim, size, rank)
        if not per_entry and weight.fixed_blocks:
            per_entry = size
        if per_entry:
            tensors[field.name] = _taken(field.tensor, own, entries_of(field, per_entry))
            if field.is_payload and length is None:
                length = tensors[field.name].shape[own]  # type: ignore[union-attr]
        elif length == 0:
            tensors[field.name] = field.tensor.narrow(own, 0, 0)
    new = size if length is None else length
    block = weight.blocks
    if block is not None and block[dim] == size and size != 1:
        block = (*block[:dim], new, *block[dim + 1 :])
    return weight.restructured(tensors, (*weight.shape[:dim], new, *weight.shape[dim + 1 :]), block)


def _taken(tensor: torch.Tensor, dim: int, entries: Entries) -> torch.Tensor:
    return tensor[(slice(None),) * dim + (entries,)]


def joined(weights: Sequence["MatrixTensor"], dim: int) -> "MatrixTensor":
    """Return the tensors one after the other along a dimension, scales likewise.

    Raises:
        LayoutError: they differ in class, block size, type or another attribute, or in a field
            that all of the result would share.
    """
    first = weights[0]
    dim = dimension(first, dim)
    for weight in weights:
        check_views(weight, "cat")
    _check_alike(weights, "class", [type(w).__name__ for w in weights])
    for name in ("shown_dtype", *first.fields.attributes):
        if name != "shape":
            shown = name.removeprefix("shown_")
            _check_alike(weights, shown, [getattr(w, name) for w in weights])
    tensors = {name: _joined_field(weights, name, dim) for name in first.fields.tensors}
    shape = list(first.shape)
    shape[dim] = sum(w.shape[dim] for w in weights)
    return first.restructured(tensors, tuple(shape), first.blocks)


def _joined_field(weights: Sequence["MatrixTensor"], name: str, dim: int) -> torch.Tensor | None:
    found: list[torch.Tensor | None] = [w.inner_tensors[name] for w in weights]
    present = [t for t in found if t is not None]
    if not present:
        return None
    if len(present) < len(found):
        raise _unjoinable(name, ["absent" if t is None else "present" for t in found])
    follows, rank = weights[0].follows[name], weights[0].dim()
    fields = [Field(name, t, follows, is_payload=False) for t in present]
    own = [f.dimension(dim, rank) for f in fields]
    if any(o is None for o in own):
        if all(t is present[0] or torch.equal(t, present[0]) for t in present):
            return present[0]
        pieces = zip(fields, weights, strict=True)
        own = [None if dim else row_dimension(f, w.shape) for f, w in pieces]
    if any(o is None for o in own):
        raise _unjoinable(name, ["different elements"])
    return torch.cat(present, own[0])  # type: ignore[arg-type]


def _check_alike(weights: Sequence["MatrixTensor"], name: str, values: list[object]) -> None:
    if any(v != values[0] for v in values):
        raise _unjoinable(name, values)


def _misaligned(field: Field, dim: int, per_entry: int, found: str) -> LayoutError:
    what = (
        f"a byte of {per_entry} codes"
        if field.is_payload
        else f"a group of {per_entry} elements that share a scale"
    )
    return LayoutError(
        f"a cut along dimension {dim} would split {what}",
        pointer=f"/{field.name}" if field.is_payload else "/block_size",
        found=found,
        expected=f"bounds aligned to multiples of {per_entry}",
        hint="call dequantize() to cut anywhere",
    )


def _unjoinable(name: str, values: Sequence[object]) -> LayoutError:
    shown = ", ".join(map(str, values))
    return LayoutError(
        f"cat of packed tensors that differ in {name}: {shown}",
        pointer=f"/{name}",
        expected="equal fields",
        hint="quantize them alike, or call dequantize()",
    )
