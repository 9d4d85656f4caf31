"""Views of tensors in groups: what leaves the groups whole keeps the class, the rest is plain."""

from typing import Any

import torch

from qconfig.tensors.quant_tensor.calls import on_tensor
from qconfig.tensors.quant_tensor.groupwise_slices import sliced
from qconfig.tensors.quant_tensor.indices import along, items_of, pieces, squeezed, unsqueezed
from qconfig.tensors.quant_tensor.rules import Rule
from qconfig.tensors.quant_tensor.slicing import IN_PIECES, SLICING
from qconfig.tensors.quant_tensor.views import VIEWS

T = torch.Tensor


@on_tensor
def _indexed(func: Any, tensor: Any, index: Any) -> Any:
    value = func(tensor.value, index)
    items = items_of(index, len(tensor.logical_shape))
    if items is None or any(isinstance(item, torch.Tensor) for item in items):
        return value
    return sliced(tensor, value, items)


@on_tensor
def _selected(func: Any, tensor: Any, dim: Any, index: Any) -> Any:
    value = func(tensor.value, dim, index)
    return sliced(tensor, value, along(len(tensor.logical_shape), dim, index))


@on_tensor
def _narrowed(func: Any, tensor: Any, dim: Any, start: Any, length: Any) -> Any:
    value = func(tensor.value, dim, start, length)
    shape = tensor.logical_shape
    first = int(start) + (shape[dim] if start < 0 else 0)
    return sliced(tensor, value, along(len(shape), dim, slice(first, first + length)))


@on_tensor
def _squeezed(func: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
    value = func(tensor.value, *args, **kwargs)
    return sliced(tensor, value, squeezed(tensor.logical_shape, *args, **kwargs))


@on_tensor
def _unsqueezed(func: Any, tensor: Any, dim: Any) -> Any:
    value = func(tensor.value, dim)
    return sliced(tensor, value, unsqueezed(len(tensor.logical_shape), dim))


@on_tensor
def _in_pieces(func: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
    values = func(tensor.value, *args, **kwargs)
    dim = args[1] if len(args) > 1 else kwargs.get("dim", 0)
    found = pieces(values, len(tensor.logical_shape), dim)
    return _all_or_none(tensor, values, found)


@on_tensor
def _unbound(func: Any, tensor: Any, dim: Any = 0) -> Any:
    values = func(tensor.value, dim)
    rank = len(tensor.logical_shape)
    return _all_or_none(tensor, values, [along(rank, dim, at) for at in range(len(values))])


def _all_or_none(tensor: Any, values: Any, items: list[Any]) -> Any:
    found = [sliced(tensor, value, item) for value, item in zip(values, items, strict=True)]
    whole = all(type(piece) is type(tensor) for piece in found)
    return type(values)(found) if whole else values


@on_tensor
def _plain(func: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
    value = tensor.value
    # It is a part of what is stored where the last group is filled up, and some need it whole.
    whole = value.contiguous() if func in _WHOLE else value
    return func(whole, *args, **kwargs)


_SLICED = {
    "value": "sliced",
    "scale": "sliced along",
    "zero_point": "sliced along",
    "bit_width": "bits",
    "signed": "signed",
}
_CUT = "plain where a group is cut, or its dimension selected"
_WHOLE = (T.view, T.view_as, T.take_along_dim, torch.take_along_dim)
_KEEPING = (
    Rule("a[...]", (T.__getitem__,), _indexed, _SLICED, f"{_CUT}, and for tensors as an index"),
    Rule("select", (T.select, torch.select), _selected, _SLICED, _CUT),
    Rule("narrow", (T.narrow, torch.narrow), _narrowed, _SLICED, _CUT),
    Rule("squeeze", (T.squeeze, torch.squeeze), _squeezed, _SLICED, _CUT),
    Rule("unsqueeze", (T.unsqueeze, torch.unsqueeze), _unsqueezed, _SLICED),
    Rule(
        "chunk, split, tensor_split",
        IN_PIECES,
        _in_pieces,
        _SLICED,
        "all plain where a group is cut in two",
    ),
    Rule("unbind, iteration", (T.unbind, torch.unbind), _unbound, _SLICED, _CUT),
)
_KEPT = {function for rule in _KEEPING for function in rule.functions}

GROUPWISE_VIEWS = (
    *_KEEPING,
    *(
        Rule(view.operation, view.functions, _plain, {}, "plain")
        for view in VIEWS + SLICING
        if not _KEPT.intersection(view.functions)
    ),
)
