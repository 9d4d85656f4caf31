"""Cuts and joins of `Int8Tensor` as plain functions: no block of a scale is ever split.

Along a dimension of size n with blocks of b elements, a cut may fall anywhere if all elements share
one scale (b = n) or each has its own (b = 1), and on multiples of b otherwise.
"""

from collections.abc import Sequence

import torch

from qconfig.errors import LayoutError
from qconfig.tensors.dispatch import unsupported
from qconfig.tensors.int8 import Int8Tensor
from qconfig.tensors.int8_views import dimension, shared_pre_scale

# What picks entries of one dimension.
Entries = slice | torch.Tensor


def sliced(weight: Int8Tensor, dim: int, start: int, stop: int, step: int = 1) -> Int8Tensor:
    """Return `weight[..., start:stop:step]` along a dimension; bounds as in Python, not negative.

    Raises:
        LayoutError: the cut splits a block.
        UnsupportedOperationError: a step other than 1 through blocks of several elements.
    """
    dim = dimension(weight, dim)
    size, block = weight.qdata.shape[dim], weight.block_size[dim]
    stop = max(start, stop)
    if weight.scale.shape[dim] > 1 and block > 1:
        if step != 1:
            reason = f"{block} elements share a scale along dimension {dim}"
            raise unsupported(type(weight), f"slice with step {step}", reason)
        for bound in (start, stop):
            if bound % block and bound != size:
                raise _misaligned(dim, block, f"{start}:{stop}")
        return _cut(weight, dim, slice(start, stop), slice(start // block, -(-stop // block)))
    entries = slice(start, stop, step)
    return _cut(weight, dim, entries, entries)


def indexed(weight: Int8Tensor, dim: int, index: torch.Tensor) -> Int8Tensor:
    """Return the entries of a dimension that an integer or boolean vector picks.

    Raises:
        LayoutError: blocks of several elements share a scale along the dimension.
    """
    dim = dimension(weight, dim)
    block = weight.block_size[dim]
    if weight.scale.shape[dim] > 1 and block > 1:
        raise _misaligned(dim, block, "an index tensor")
    return _cut(weight, dim, index, index)


def _cut(weight: Int8Tensor, dim: int, codes: Entries, scales: Entries) -> Int8Tensor:
    qdata = _taken(weight.qdata, dim, codes)
    size = qdata.shape[dim]
    shared = weight.scale.shape[dim] == 1 and weight.qdata.shape[dim] != 1

    def follow(t: torch.Tensor) -> torch.Tensor:
        if shared:
            return t if size else t.narrow(dim, 0, 0)
        return _taken(t, dim, scales)

    zero = weight.zero_point
    block = list(weight.block_size)
    if shared:
        block[dim] = size
    pre_scale = shared_pre_scale(weight)
    if pre_scale is not None and dim == weight.qdata.dim() - 1:
        pre_scale = _taken(pre_scale, pre_scale.dim() - 1, codes)
    return weight.replaced(
        qdata,
        follow(weight.scale),
        tuple(block),
        None if zero is None else follow(zero),
        pre_scale,
    )


def _taken(tensor: torch.Tensor, dim: int, entries: Entries) -> torch.Tensor:
    return tensor[(slice(None),) * dim + (entries,)]


def joined(weights: Sequence[Int8Tensor], dim: int) -> Int8Tensor:
    """Return the tensors one after the other along a dimension, scales likewise.

    Raises:
        LayoutError: they differ in block size, type or another attribute.
    """
    first = weights[0]
    dim = dimension(first, dim)
    for name in ("shown_dtype", "block_size", "act_quant_kwargs", "reduce_range"):
        values = [getattr(w, name) for w in weights]
        if any(v != values[0] for v in values):
            raise _unjoinable(name.removeprefix("shown_"), values)
    for name in ("act_quant_scale", "act_quant_zero_point"):
        _joined_field(weights, name, None)
    along_k = dim == first.qdata.dim() - 1
    return first.replaced(
        torch.cat([w.qdata for w in weights], dim),
        torch.cat([w.scale for w in weights], dim),
        first.block_size,
        _joined_field(weights, "zero_point", dim),
        _joined_field(weights, "act_pre_scale", -1 if along_k else None),
    )


def _joined_field(weights: Sequence[Int8Tensor], name: str, dim: int | None) -> torch.Tensor | None:
    fields: list[torch.Tensor | None] = [getattr(w, name) for w in weights]
    present = [f for f in fields if f is not None]
    if not present:
        return None
    if len(present) < len(fields):
        raise _unjoinable(name, ["absent" if f is None else "present" for f in fields])
    if dim is not None:
        return torch.cat(present, dim)
    if any(f is not present[0] and not torch.equal(f, present[0]) for f in present):
        raise _unjoinable(name, ["different elements"])
    return present[0]


def _misaligned(dim: int, block: int, found: str) -> LayoutError:
    return LayoutError(
        f"a cut along dimension {dim} would split a group of {block} elements that share a scale",
        pointer="/block_size",
        found=found,
        expected=f"bounds aligned to multiples of {block}",
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
