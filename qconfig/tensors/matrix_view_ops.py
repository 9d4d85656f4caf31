"""Views and cuts of packed weights as aten operators, for all families alike."""
# ruff: noqa: SLF001 (what torch offers to subclasses has underscored names)

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from qconfig.tensors import matrix_cuts as cuts
from qconfig.tensors import matrix_views as views
from qconfig.tensors.common_ops import is_packed
from qconfig.tensors.dispatch import aliased, unsupported
from qconfig.tensors.flat_view import FlatView
from qconfig.tensors.matrix_table import MATRIX

if TYPE_CHECKING:
    from qconfig.tensors.matrix import MatrixTensor

aten = torch.ops.aten


def _view_of(function: Callable[..., torch.Tensor], operator: Any) -> None:
    """Register a function of the operator's arguments; its result shares the outer storage."""

    def run(func: Any, args: Any, kwargs: Any) -> Any:
        return aliased(func, args, kwargs, function(*args, **kwargs))

    MATRIX.implements(operator)(run)


def _result_of(function: Callable[..., Any], operator: Any) -> None:
    """Register a function of the operator's arguments."""

    def run(func: Any, args: Any, kwargs: Any) -> Any:
        return function(*args, **kwargs)

    MATRIX.implements(operator)(run)


def _slice(
    weight: "MatrixTensor",
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> "MatrixTensor":
    size = weight.shape[views.dimension(weight, dim)]
    low, high, _ = slice(start, end, step).indices(size)
    return cuts.sliced(weight, dim, low, high, step)


def _squeeze(weight: "MatrixTensor", dim: int) -> "MatrixTensor":
    if weight.shape[views.dimension(weight, dim)] != 1:
        return views.reshaped(weight, weight.shape)
    return views.selected(weight, dim, 0)


def _view(func: Any, args: Any, kwargs: Any) -> torch.Tensor:
    weight, shape = args
    if len(shape) == 1 and shape[0] in (-1, weight.numel()):
        return FlatView(weight)
    result: torch.Tensor = aliased(func, args, kwargs, views.reshaped(weight, shape))
    return result


def _expand(weight: "MatrixTensor", sizes: Sequence[int]) -> "MatrixTensor":
    # matmul expands operands to the batch it sees; a weight that has it already passes.
    if [s for s in sizes if s != -1] and tuple(sizes) != tuple(weight.shape):
        raise unsupported(type(weight), aten.expand.default, "it would repeat the payload")
    return views.reshaped(weight, weight.shape)


def _split(weight: "MatrixTensor", size: int, dim: int = 0) -> list["MatrixTensor"]:
    total = weight.shape[views.dimension(weight, dim)]
    return [
        cuts.sliced(weight, dim, i, min(i + size, total)) for i in range(0, max(total, 1), size)
    ]


def _split_with_sizes(
    weight: "MatrixTensor", sizes: list[int], dim: int = 0
) -> list["MatrixTensor"]:
    parts, start = [], 0
    for size in sizes:
        parts.append(cuts.sliced(weight, dim, start, start + size))
        start += size
    return parts


def _unbind(weight: "MatrixTensor", dim: int = 0) -> list["MatrixTensor"]:
    size = weight.shape[views.dimension(weight, dim)]
    return [views.selected(weight, dim, i) for i in range(size)]


def _index(weight: "MatrixTensor", indices: Sequence[torch.Tensor | None]) -> "MatrixTensor":
    used = [(dim, index) for dim, index in enumerate(indices) if index is not None]
    if len(used) != 1 or used[0][1].dim() != 1:
        reason = "only one dimension by one vector"
        raise unsupported(type(weight), aten.index.Tensor, reason)
    return cuts.indexed(weight, *used[0])


def _cat(weights: Sequence["MatrixTensor"], dim: int = 0) -> "MatrixTensor":
    _check_all_packed(weights, aten.cat.default)
    return cuts.joined(weights, dim)


def _stack(weights: Sequence["MatrixTensor"], dim: int = 0) -> "MatrixTensor":
    _check_all_packed(weights, aten.stack.default)
    return cuts.joined([views.unsqueezed(w, dim) for w in weights], dim)


def _check_all_packed(tensors: Sequence[torch.Tensor], operator: Any) -> None:
    if not all(is_packed(t) for t in tensors):
        packed = next(t for t in tensors if is_packed(t))
        raise unsupported(type(packed), operator, "not all operands are packed")


_view_of(_slice, aten.slice.Tensor)
_view_of(views.selected, aten.select.int)
_view_of(lambda weight: views.transposed(weight, 0, 1), aten.t.default)
_view_of(views.transposed, aten.transpose.int)
_view_of(views.permuted, aten.permute.default)
_view_of(views.unsqueezed, aten.unsqueeze.default)
_view_of(_squeeze, aten.squeeze.dim)
MATRIX.implements(aten.view.default)(_view)
_view_of(_expand, aten.expand.default)
_result_of(views.reshaped, aten._unsafe_view.default)
_result_of(_split, aten.split.Tensor)
_result_of(_split_with_sizes, aten.split_with_sizes.default)
_result_of(_unbind, aten.unbind.int)
_result_of(cuts.indexed, aten.index_select.default)
_result_of(_index, aten.index.Tensor)
_result_of(_cat, aten.cat.default)
_result_of(_stack, aten.stack.default)
