"""When two tensors are one under two names."""

from typing import Any

import torch

from qconfig.tensors.base import PackedTensor


def identity(tensor: torch.Tensor) -> tuple[Any, ...]:
    """Return what two living tensors share when they show the same elements in the same order.

    A packed tensor is known by its inner tensors and plain fields. What has no elements in memory
    (empty, meta, somebody else's wrapper) is the same only as itself.
    """
    if isinstance(tensor, PackedTensor):
        names, context = tensor.__tensor_flatten__()
        inner = (identity(tensor.__dict__[name]) for name in names)
        return (type(tensor), context, *zip(names, inner, strict=True))
    if tensor.is_meta or not tensor.numel():
        return (id(tensor),)
    try:
        pointer = tensor.data_ptr()
    except RuntimeError:  # a wrapper subclass has no storage of its own
        pointer = 0
    if not pointer:
        return (id(tensor),)
    return (pointer, tensor.dtype, tuple(tensor.shape), tensor.stride())
