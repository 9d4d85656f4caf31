"""Views of `Int8Tensor` as plain functions: other dimensions, the same codes and scales."""

from collections.abc import Callable, Sequence

import torch

from qconfig.tensors.dispatch import unsupported
from qconfig.tensors.int8 import Int8Tensor

_WITH_PRE_SCALE = "it has act_pre_scale, which belongs to the last dimension; use linear"


def dimension(weight: Int8Tensor, dim: int) -> int:
    """Return a dimension counted from the front.

    Raises:
        IndexError: there is no such dimension.
    """
    rank = weight.qdata.dim()
    if not -rank <= dim < rank:
        raise IndexError(f"dimension {dim} is out of range for a tensor of rank {rank}")
    return dim % rank


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
    block = weight.block_size[:dim] + weight.block_size[dim + 1 :]
    return _restructured(
        weight, lambda t: t.select(dim, index if t is weight.qdata else entry), block
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


def shared_pre_scale(weight: Int8Tensor) -> torch.Tensor | None:
    """Return act_pre_scale, if it is one factor for each of the K activations.

    Raises:
        UnsupportedOperationError: it has one for each of several matrices as well.
    """
    factor = weight.act_pre_scale
    if factor is not None and factor.numel() != factor.shape[-1]:
        raise unsupported(
            type(weight), "an activation scale for each matrix", f"{tuple(factor.shape)}"
        )
    return factor


def _restructured(
    weight: Int8Tensor, function: Callable[[torch.Tensor], torch.Tensor], block: tuple[int, ...]
) -> Int8Tensor:
    zero = weight.zero_point
    return weight.replaced(
        function(weight.qdata),
        function(weight.scale),
        block,
        None if zero is None else function(zero),
        shared_pre_scale(weight),
    )


def _significant(shape: tuple[int, ...]) -> tuple[int, ...]:
    # A packed tensor keeps at least a matrix, so only ones before that are free.
    lead = 0
    while lead < len(shape) - 2 and shape[lead] == 1:
        lead += 1
    return shape[lead:]
