"""Registration of the views and cuts of `Int8Tensor` as aten operators."""
# ruff: noqa: SLF001 (what torch offers to subclasses has underscored names)

from collections.abc import Callable
from typing import Any

import torch

from qconfig.tensors import int8_cuts as cuts
from qconfig.tensors import int8_views as views
from qconfig.tensors.dispatch import aliased, unsupported
from qconfig.tensors.int8 import Int8Tensor

aten = torch.ops.aten
_table = Int8Tensor.operators


def _view_of(function: Callable[..., Int8Tensor], *operators: Any) -> None:
    def run(func: Any, args: Any, kwargs: Any) -> Any:
        return aliased(func, args, kwargs, function(*args, **kwargs))

    _table.implements(*operators)(run)


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


_view_of(_slice, aten.slice.Tensor)
_view_of(views.selected, aten.select.int)
_view_of(lambda weight: views.transposed(weight, 0, 1), aten.t.default)
_view_of(views.transposed, aten.transpose.int)
_view_of(views.permuted, aten.permute.default)
_view_of(views.unsqueezed, aten.unsqueeze.default)
_view_of(_squeeze, aten.squeeze.dim)
_view_of(views.reshaped, aten.view.default)


@_table.implements(aten._unsafe_view.default)
def _unsafe_view(func: Any, args: Any, kwargs: Any) -> Int8Tensor:
    return views.reshaped(*args)


@_table.implements(aten.expand.default)
def _expand(func: Any, args: Any, kwargs: Any) -> Any:
    # matmul expands operands to the batch it sees; a weight that has it already passes.
    weight, sizes = args[0], args[1]
    if [s for s in sizes if s != -1] and tuple(sizes) != tuple(weight.qdata.shape):
        raise unsupported(type(weight), func, "it would repeat the payload")
    result = views.reshaped(weight, weight.qdata.shape)
    return aliased(func, args, kwargs, result)


@_table.implements(aten.split.Tensor)
def _split(func: Any, args: Any, kwargs: Any) -> Any:
    return _pieces(*args, **kwargs)


def _pieces(weight: Int8Tensor, size: int, dim: int = 0) -> list[Int8Tensor]:
    total = weight.qdata.shape[views.dimension(weight, dim)]
    return [
        cuts.sliced(weight, dim, i, min(i + size, total)) for i in range(0, max(total, 1), size)
    ]


@_table.implements(aten.split_with_sizes.default)
def _split_with_sizes(func: Any, args: Any, kwargs: Any) -> Any:
    return _parts(*args, **kwargs)


def _parts(weight: Int8Tensor, sizes: list[int], dim: int = 0) -> list[Int8Tensor]:
    parts, start = [], 0
    for size in sizes:
        parts.append(cuts.sliced(weight, dim, start, start + size))
        start += size
    return parts


@_table.implements(aten.unbind.int)
def _unbind(func: Any, args: Any, kwargs: Any) -> Any:
    weight, dim = args[0], args[1] if len(args) > 1 else kwargs.get("dim", 0)
    size = weight.qdata.shape[views.dimension(weight, dim)]
    return [views.selected(weight, dim, i) for i in range(size)]


@_table.implements(aten.index_select.default)
def _index_select(func: Any, args: Any, kwargs: Any) -> Int8Tensor:
    return cuts.indexed(*args)


@_table.implements(aten.index.Tensor)
def _index(func: Any, args: Any, kwargs: Any) -> Int8Tensor:
    weight, indices = args
    used = [d for d, index in enumerate(indices) if index is not None]
    if len(used) != 1 or indices[used[0]].dim() != 1:
        raise unsupported(type(weight), func, "only one dimension by one vector")
    return cuts.indexed(weight, used[0], indices[used[0]])


@_table.implements(aten.cat.default)
def _cat(func: Any, args: Any, kwargs: Any) -> Int8Tensor:
    weights, dim = args[0], args[1] if len(args) > 1 else kwargs.get("dim", 0)
    if not all(isinstance(w, Int8Tensor) for w in weights):
        raise unsupported(Int8Tensor, func, "not all operands are packed")
    return cuts.joined(weights, dim)


@_table.implements(aten.stack.default)
def _stack(func: Any, args: Any, kwargs: Any) -> Int8Tensor:
    weights, dim = args[0], args[1] if len(args) > 1 else kwargs.get("dim", 0)
    if not all(isinstance(w, Int8Tensor) for w in weights):
        raise unsupported(Int8Tensor, func, "not all operands are packed")
    return cuts.joined([views.unsqueezed(w, dim) for w in weights], dim)
