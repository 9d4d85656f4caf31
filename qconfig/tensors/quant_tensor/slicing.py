"""Operations that select values: indices, slices, pieces."""

from typing import Any

import torch

from qconfig.tensors.quant_tensor.calls import on_tensor
from qconfig.tensors.quant_tensor.indices import along, items_of, pieces, taken_by_tensors
from qconfig.tensors.quant_tensor.metadata_moves import MOVED, Item, Move, moved, taken
from qconfig.tensors.quant_tensor.rules import Rule

T = torch.Tensor


def _taking(items: list[Item]) -> Move:
    return lambda metadata: taken(metadata, items)


@on_tensor
def _indexed(func: Any, tensor: Any, index: Any) -> Any:
    value = func(tensor.value, index)
    shape = tensor.logical_shape

    def move(metadata: torch.Tensor) -> torch.Tensor | None:
        items = items_of(index, len(shape))
        if items is None:
            return None
        if any(isinstance(item, torch.Tensor) for item in items):
            return taken_by_tensors(metadata, shape, items)
        return taken(metadata, items)

    return moved(tensor, value, move)


@on_tensor
def _selected(func: Any, tensor: Any, dim: Any, index: Any) -> Any:
    value = func(tensor.value, dim, index)
    return moved(tensor, value, lambda m: taken(m, along(m.dim(), dim, index)))


@on_tensor
def _narrowed(func: Any, tensor: Any, dim: Any, start: Any, length: Any) -> Any:
    value = func(tensor.value, dim, start, length)
    return moved(tensor, value, lambda m: m if m.shape[dim] == 1 else func(m, dim, start, length))


def _split(func: Any, tensor: Any, dim: int, args: Any, kwargs: Any) -> Any:
    values = func(tensor.value, *args, **kwargs)
    found = pieces(values, len(tensor.logical_shape), dim)
    return type(values)(
        moved(tensor, value, _taking(items)) for value, items in zip(values, found, strict=True)
    )


@on_tensor
def _in_pieces(func: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
    dim = args[1] if len(args) > 1 else kwargs.get("dim", 0)
    return _split(func, tensor, dim, args, kwargs)


def _in_pieces_along(dim: int) -> Any:
    @on_tensor
    def apply(func: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
        return _split(func, tensor, min(dim, tensor.dim() - 1), args, kwargs)

    return apply


@on_tensor
def _unbound(func: Any, tensor: Any, dim: Any = 0) -> Any:
    values = func(tensor.value, dim)
    rank = len(tensor.logical_shape)
    return tuple(
        moved(tensor, value, _taking(along(rank, dim, at))) for at, value in enumerate(values)
    )


@on_tensor
def _index_selected(func: Any, tensor: Any, dim: Any, index: Any) -> Any:
    value = func(tensor.value, dim, index)
    return moved(tensor, value, lambda m: m if m.shape[dim] == 1 else func(m, dim, index))


@on_tensor
def _gathered(func: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
    value = func(tensor.value, *args, **kwargs)
    shape = tensor.logical_shape
    return moved(tensor, value, lambda m: func(m.expand(shape).contiguous(), *args, **kwargs))


IN_PIECES = (
    T.chunk,
    T.split,
    T.split_with_sizes,
    T.tensor_split,
    T.unsafe_chunk,
    T.unsafe_split,
    torch.chunk,
    torch.split,
    torch.split_with_sizes,
    torch.tensor_split,
    torch.unsafe_chunk,
    torch.unsafe_split,
)
"""Functions whose second argument says how many pieces, or where they end."""
_GATHERED = {**MOVED, "scale": "one for each value", "zero_point": "one for each value"}

SLICING = (
    Rule(
        "a[...]",
        (T.__getitem__,),
        _indexed,
        {**MOVED, "scale": "indexed likewise", "zero_point": "indexed likewise"},
        "plain for True and False as an index where metadata has dimensions",
    ),
    Rule("select", (T.select, torch.select), _selected, MOVED),
    Rule("narrow", (T.narrow, torch.narrow), _narrowed, MOVED),
    Rule(
        "chunk, split, tensor_split",
        IN_PIECES,
        _in_pieces,
        MOVED,
    ),
    Rule("vsplit", (T.vsplit, torch.vsplit), _in_pieces_along(0), MOVED),
    Rule("hsplit", (T.hsplit, torch.hsplit), _in_pieces_along(1), MOVED),
    Rule("dsplit", (T.dsplit, torch.dsplit), _in_pieces_along(2), MOVED),
    Rule("unbind, iteration", (T.unbind, torch.unbind), _unbound, MOVED),
    Rule("index_select", (T.index_select, torch.index_select), _index_selected, MOVED),
    Rule(
        "gather, take_along_dim, masked_select, take",
        (
            T.gather,
            T.take_along_dim,
            T.masked_select,
            T.take,
            torch.gather,
            torch.take_along_dim,
            torch.masked_select,
            torch.take,
        ),
        _gathered,
        _GATHERED,
    ),
)
