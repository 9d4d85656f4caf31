"""Views and cuts of `Int8Tensor` as plain functions: no block of a scale is ever cut.

Along a dimension of size n with blocks of b elements, a cut may fall anywhere if all elements share
one scale (b = n) or each has its own (b = 1), and on multiples of b otherwise.
"""

from collections.abc import Callable, Sequence

import torch

from qconfig.errors import LayoutError
from qconfig.tensors.dispatch import unsupported
from qconfig.tensors.int8 import Int8Tensor

Cut = Callable[[torch.Tensor, int], torch.Tensor]


def dimension(weight: Int8Tensor, dim: int) -> int:
    """Return a dimension counted from the front.

    Raises:
        IndexError: there is no such dimension.
    """
    rank = weight.qdata.dim()
    if not -rank <= dim < rank:
        raise IndexError(f"dimension {dim} is out of range for a tensor of rank {rank}")
    return dim % rank


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
            raise unsupported(type(weight), f"slice with step {step}", _several(dim, block))
        for bound in (start, stop):
            if bound % block and bound != size:
                raise _misaligned(dim, block, f"{start}:{stop}")
        return _cut(
            weight,
            dim,
            lambda t, d: t[(slice(None),) * d + (slice(start, stop),)],
            lambda t, d: t[(slice(None),) * d + (slice(start // block, -(-stop // block)),)],
        )

    def cut(t: torch.Tensor, d: int) -> torch.Tensor:
        return t[(slice(None),) * d + (slice(start, stop, step),)]

    return _cut(weight, dim, cut, cut)


def indexed(weight: Int8Tensor, dim: int, index: torch.Tensor) -> Int8Tensor:
    """Return the entries of a dimension that an integer or boolean vector picks.

    Raises:
        LayoutError: blocks of several elements share a scale along the dimension.
    """
    dim = dimension(weight, dim)
    block = weight.block_size[dim]
    if weight.scale.shape[dim] > 1 and block > 1:
        raise _misaligned(dim, block, "an index tensor")

    def cut(t: torch.Tensor, d: int) -> torch.Tensor:
        return t[(slice(None),) * d + (index,)]

    return _cut(weight, dim, cut, cut)


def _cut(weight: Int8Tensor, dim: int, codes: Cut, scales: Cut) -> Int8Tensor:
    qdata = codes(weight.qdata, dim)
    size = qdata.shape[dim]
    shared = weight.scale.shape[dim] == 1 and weight.qdata.shape[dim] != 1

    def follow(t: torch.Tensor) -> torch.Tensor:
        if shared:
            return t if size else t.narrow(dim, 0, 0)
        return scales(t, dim)

    zero = weight.zero_point
    block = list(weight.block_size)
    if shared:
        block[dim] = size
    pre_scale = weight.act_pre_scale
    if pre_scale is not None and dim == weight.qdata.dim() - 1:
        pre_scale = codes(pre_scale, pre_scale.dim() - 1)
    return weight.replaced(
        qdata,
        follow(weight.scale),
        tuple(block),
        None if zero is None else follow(zero),
        pre_scale,
    )


def selected(weight: Int8Tensor, dim: int, index: int) -> Int8Tensor:
    """Return one entry of a dimension of a tensor of rank 3 or more, such as an expert.

    Raises:
        UnsupportedOperationError: a vector would be left, which the layout does not hold.
        IndexError: there is no such entry.
    """
    dim = dimension(weight, dim)
    if weight.qdata.dim() < 3:
        raise unsupported(
            type(weight),
            "aten.select.int",
            "a packed tensor has at least 2 dimensions; take a slice of length 1",
        )
    if dim == weight.qdata.dim() - 1 and weight.act_pre_scale is not None:
        raise unsupported(type(weight), "aten.select.int", _WITH_PRE_SCALE)
    size = weight.qdata.shape[dim]
    if not -size <= index < size:
        raise IndexError(f"index {index} is out of range for dimension {dim} of size {size}")
    entry = index % size // weight.block_size[dim]
    return _restructured(
        weight,
        lambda t: t.select(dim, index if t is weight.qdata else entry),
        without(weight.block_size, dim),
    )


def transposed(weight: Int8Tensor, first: int, second: int) -> Int8Tensor:
    """Return the tensor with two dimensions exchanged: codes, scales and block size alike.

    Raises:
        UnsupportedOperationError: it has act_pre_scale, which belongs to the last dimension.
    """
    order = list(range(weight.qdata.dim()))
    first, second = dimension(weight, first), dimension(weight, second)
    order[first], order[second] = order[second], order[first]
    return permuted(weight, order)


def permuted(weight: Int8Tensor, order: Sequence[int]) -> Int8Tensor:
    """Return the tensor with its dimensions in another order.

    Raises:
        UnsupportedOperationError: see `transposed`.
    """
    order = [dimension(weight, d) for d in order]
    if weight.act_pre_scale is not None and order[-1] != len(order) - 1:
        raise unsupported(type(weight), "transposition", _WITH_PRE_SCALE)
    block = tuple(weight.block_size[d] for d in order)
    return _restructured(weight, lambda t: t.permute(order), block)


def unsqueezed(weight: Int8Tensor, dim: int) -> Int8Tensor:
    """Return the tensor with a dimension of size 1 inserted before `dim`.

    Raises:
        UnsupportedOperationError: behind the last dimension of a tensor with act_pre_scale.
    """
    rank = weight.qdata.dim()
    dim = dim % (rank + 1)
    if dim == rank and weight.act_pre_scale is not None:
        raise unsupported(type(weight), "aten.unsqueeze.default", _WITH_PRE_SCALE)
    block = (*weight.block_size[:dim], 1, *weight.block_size[dim:])
    return _restructured(weight, lambda t: t.unsqueeze(dim), block)


def reshaped(weight: Int8Tensor, shape: Sequence[int]) -> Int8Tensor:
    """Return the tensor under another shape, if that differs in leading ones only.

    Raises:
        UnsupportedOperationError: dimensions would merge, split or go.
    """
    old = tuple(weight.qdata.shape)
    target = list(shape)
    if target.count(-1) == 1:
        known = -torch.Size(target).numel()
        target[target.index(-1)] = weight.qdata.numel() // known if known else 0
    new = tuple(target)
    if old == new:
        return weight.map_tensors(torch.ops.aten.alias.default)
    if len(new) < 2 or _significant(new) != _significant(old):
        raise unsupported(
            type(weight), "view", f"shape {old} and {new} differ in more than leading ones"
        )
    result = weight
    while result.qdata.dim() > len(new):
        result = selected(result, 0, 0)
    while result.qdata.dim() < len(new):
        result = unsqueezed(result, 0)
    return result


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


def _restructured(
    weight: Int8Tensor, function: Callable[[torch.Tensor], torch.Tensor], block: tuple[int, ...]
) -> Int8Tensor:
    zero = weight.zero_point
    return weight.replaced(
        function(weight.qdata),
        function(weight.scale),
        block,
        None if zero is None else function(zero),
        weight.act_pre_scale,
    )


def without(sizes: tuple[int, ...], dim: int) -> tuple[int, ...]:
    """Return a tuple without one entry."""
    return sizes[:dim] + sizes[dim + 1 :]


def _significant(shape: tuple[int, ...]) -> tuple[int, ...]:
    # A packed tensor keeps at least a matrix, so only ones before that are free.
    lead = 0
    while lead < len(shape) - 2 and shape[lead] == 1:
        lead += 1
    return shape[lead:]


def _misaligned(dim: int, block: int, found: str) -> LayoutError:
    return LayoutError(
        f"a cut along dimension {dim} would split a group of {block} elements that share a scale",
        pointer="/block_size",
        found=found,
        expected=f"bounds aligned to multiples of {block}",
        hint="call dequantize() to cut anywhere",
    )


def _several(dim: int, block: int) -> str:
    return f"{block} elements share a scale along dimension {dim}"


def _unjoinable(name: str, values: Sequence[object]) -> LayoutError:
    shown = ", ".join(map(str, values))
    return LayoutError(
        f"cat of packed tensors that differ in {name}: {shown}",
        pointer=f"/{name}",
        expected="equal fields",
        hint="quantize them alike, or call dequantize()",
    )


_WITH_PRE_SCALE = "it has act_pre_scale, which belongs to the last dimension; use linear"
