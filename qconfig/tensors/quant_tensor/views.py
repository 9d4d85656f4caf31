"""Operations that move values: other shapes, other orders, repetitions."""

from typing import Any

import torch

from qconfig.tensors.quant_tensor.calls import on_tensor
from qconfig.tensors.quant_tensor.indices import is_int_number, squeezed, unsqueezed
from qconfig.tensors.quant_tensor.metadata_moves import MOVED, moved, reshaped, taken
from qconfig.tensors.quant_tensor.rules import Rule
from qconfig.tensors.quant_tensor.torch_names import TRANSPOSITIONS

T = torch.Tensor


@on_tensor
def _reshaped(func: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
    value = func(tensor.value, *args, **kwargs)
    if value.dtype is not tensor.dtype:  # `view(dtype)` shows the bits
        return value
    shape = tensor.logical_shape
    return moved(tensor, value, lambda m: reshaped(m, shape, value.shape))


@on_tensor
def _reordered(func: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
    """Run an operation that does with metadata of the rank of the values what it does with them."""
    value = func(tensor.value, *args, **kwargs)
    return moved(tensor, value, lambda m: func(m, *args, **kwargs))


@on_tensor
def _rolled(func: Any, tensor: Any, shifts: Any, dims: Any = None) -> Any:
    value = func(tensor.value, shifts, dims)
    # Without dims, values move from one row to the next.
    return moved(tensor, value, lambda m: None if dims in (None, ()) else func(m, shifts, dims))


@on_tensor
def _squeezed(func: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
    value = func(tensor.value, *args, **kwargs)
    items = squeezed(tensor.logical_shape, *args, **kwargs)
    return moved(tensor, value, lambda m: taken(m, items))


@on_tensor
def _unsqueezed(func: Any, tensor: Any, dim: Any) -> Any:
    value = func(tensor.value, dim)
    return moved(tensor, value, lambda m: taken(m, unsqueezed(m.dim(), dim)))


@on_tensor
def _expanded(func: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
    value = func(tensor.value, *args, **kwargs)
    return moved(tensor, value, lambda m: m)  # it broadcasts to what broadcasts


@on_tensor
def _repeated(func: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
    value = func(tensor.value, *args, **kwargs)
    given = args or tuple(kwargs.values())
    counts = list(given if is_int_number(given[0]) else given[0])

    def move(metadata: torch.Tensor) -> torch.Tensor:
        own = [1] * (metadata.dim() - len(counts)) + counts[max(len(counts) - metadata.dim(), 0) :]
        sizes = zip(own, metadata.shape, strict=True)
        return metadata.repeat([1 if size == 1 else count for count, size in sizes])

    return moved(tensor, value, move)


@on_tensor
def _interleaved(func: Any, tensor: Any, repeats: Any, dim: Any = None, **options: Any) -> Any:
    value = func(tensor.value, repeats, dim, **options)

    def move(metadata: torch.Tensor) -> torch.Tensor | None:
        if dim is None:
            return None
        return metadata if metadata.shape[dim] == 1 else func(metadata, repeats, dim, **options)

    return moved(tensor, value, move)


_RESHAPING = {
    **MOVED,
    "scale": "moved along: (O, 1, 1, 1) of (O, C, k, k) becomes (O, 1) of (O, C·k·k)",
}

VIEWS = (
    Rule(
        "view, reshape, flatten, ravel, unflatten, view_as, reshape_as",
        (
            T.view,
            T.view_as,
            T.reshape,
            T.reshape_as,
            T.flatten,
            T.ravel,
            T.unflatten,
            torch.reshape,
            torch.flatten,
            torch.ravel,
            torch.unflatten,
        ),
        _reshaped,
        _RESHAPING,
        "plain where dimensions are joined or cut along which only one of them has metadata, "
        "and for view(dtype)",
    ),
    Rule(
        "transpose, permute, t, T, mT, H, mH, movedim, swapaxes",
        (
            T.transpose,
            T.permute,
            T.t,
            T.movedim,
            T.moveaxis,
            T.swapaxes,
            T.swapdims,
            T.adjoint,
            torch.transpose,
            torch.permute,
            torch.t,
            torch.movedim,
            torch.moveaxis,
            torch.swapaxes,
            torch.swapdims,
            torch.adjoint,
            *TRANSPOSITIONS,
        ),
        _reordered,
        MOVED,
    ),
    Rule(
        "flip, fliplr, flipud, rot90, reversed(a)",
        (
            T.flip,
            T.fliplr,
            T.flipud,
            T.rot90,
            T.__reversed__,
            torch.flip,
            torch.fliplr,
            torch.flipud,
            torch.rot90,
        ),
        _reordered,
        MOVED,
    ),
    Rule(
        "roll",
        (T.roll, torch.roll),
        _rolled,
        MOVED,
        "plain without dims where metadata has dimensions",
    ),
    Rule("squeeze", (T.squeeze, torch.squeeze), _squeezed, MOVED),
    Rule("unsqueeze", (T.unsqueeze, torch.unsqueeze), _unsqueezed, MOVED),
    Rule(
        "expand, expand_as, broadcast_to",
        (T.expand, T.expand_as, T.broadcast_to, torch.broadcast_to),
        _expanded,
        {**MOVED, "scale": "scale", "zero_point": "zp"},
    ),
    Rule("repeat, tile", (T.repeat, T.tile, torch.tile), _repeated, MOVED),
    Rule(
        "repeat_interleave",
        (T.repeat_interleave, torch.repeat_interleave),
        _interleaved,
        MOVED,
        "plain without dim where metadata has dimensions",
    ),
)
