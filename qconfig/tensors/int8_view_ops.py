"""Registration of the views and cuts of `Int8Tensor` as aten operators."""
# ruff: noqa: SLF001 (what torch offers to subclasses has underscored names)

from collections.abc import Callable, Sequence
from typing import Any

import torch

from qconfig.tensors import int8_cuts as cuts
from qconfig.tensors import int8_views as views
from qconfig.tensors.dispatch import aliased, unsupported
from qconfig.tensors.int8 import Int8Tensor

aten = torch.ops.aten
_table = Int8Tensor.operators


def _view_of(function: Callable[..., Int8Tensor], operator: Any) -> None:
    """Register a function of the operator's arguments; its result shares the outer storage."""

    def run(func: Any, args: Any, kwargs: Any) -> Any:
        return aliased(func, args, kwargs, function(*args, **kwargs))

    _table.implements(operator)(run)


def _result_of(function: Callable[..., Any], operator: Any) -> None:
    """Register a function of the operator's arguments."""

    def run(func: Any, args: Any, kwargs: Any) -> Any:
        return function(*args, **kwargs)

    _table.implements(operator)(run)


def _slice(
    weight: Int8Tensor,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Int8Tensor:
    size = weight.qdata.shape[views.dimension(weight, dim)]
    low, high, _ = slice(start, end, step).indices(size)
    return cuts.sliced(weight, dim, low, high, step)


def _squeeze(weight: Int8Tensor, dim: int) -> Int8Tensor:
    if weight.qdata.shape[views.dimension(weight, dim)] != 1:
        return views.reshaped(weight, weight.qdata.shape)
    return views.selected(weight, dim, 0)


def _expand(weight: Int8Tensor, sizes: Sequence[int]) -> Int8Tensor:
    # matmul expands operands to the batch it sees; a weight that has it already passes.
    if [s for s in sizes if s != -1] and tuple(sizes) != tuple(weight.qdata.shape):
        raise unsupported(type(weight), aten.expand.default, "it would repeat the payload")
    return views.reshaped(weight, weight.qdata.shape)


def _split(weight: Int8Tensor, size: int, dim: int = 0) -> list[Int8Tensor]:
    total = weight.qdata.shape[views.dimension(weight, dim)]
    return [
        cuts.sliced(weight, dim, i, min(i + size, total)) for i in range(0, max(total, 1), size)
    ]


def _split_with_sizes(weight: Int8Tensor, sizes: list[int], dim: int = 0) -> list[Int8Tensor]:
    parts, start = [], 0
    for size in sizes:
        parts.append(cuts.sliced(weight, dim, start, start + size))
        start += size
    return parts


def _unbind(weight: Int8Tensor, dim: int = 0) -> list[Int8Tensor]:
    size = weight.qdata.shape[views.dimension(weight, dim)]
    return [views.selected(weight, dim, i) for i in range(size)]


def _index(weight: Int8Tensor, indices: Sequence[torch.Tensor | None]) -> Int8Tensor:
    used = [(dim, index) for dim, index in enumerate(indices) if index is not None]
    if len(used) != 1 or used[0][1].dim() != 1:
        reason = "only one dimension by one vector"
        raise unsupported(type(weight), aten.index.Tensor, reason)
    return cuts.indexed(weight, *used[0])


def _cat(weights: Sequence[Int8Tensor], dim: int = 0) -> Int8Tensor:
    _check_all_packed(weights, aten.cat.default)
    return cuts.joined(weights, dim)


def _stack(weights: Sequence[Int8Tensor], dim: int = 0) -> Int8Tensor:
    _check_all_packed(weights, aten.stack.default)
    return cuts.joined([views.unsqueezed(w, dim) for w in weights], dim)


def _check_all_packed(tensors: Sequence[torch.Tensor], operator: Any) -> None:
    if not all(isinstance(t, Int8Tensor) for t in tensors):
        raise unsupported(Int8Tensor, operator, "not all operands are packed")


_view_of(_slice, aten.slice.Tensor)
_view_of(views.selected, aten.select.int)
_view_of(lambda weight: views.transposed(weight, 0, 1), aten.t.default)
_view_of(views.transposed, aten.transpose.int)
_view_of(views.permuted, aten.permute.default)
_view_of(views.unsqueezed, aten.unsqueeze.default)
_view_of(_squeeze, aten.squeeze.dim)
_view_of(views.reshaped, aten.view.default)
_view_of(_expand, aten.expand.default)
_result_of(views.reshaped, aten._unsafe_view.default)
_result_of(_split, aten.split.Tensor)
_result_of(_split_with_sizes, aten.split_with_sizes.default)
_result_of(_unbind, aten.unbind.int)
_result_of(cuts.indexed, aten.index_select.default)
_result_of(_index, aten.index.Tensor)
_result_of(_cat, aten.cat.default)
_result_of(_stack, aten.stack.default)
