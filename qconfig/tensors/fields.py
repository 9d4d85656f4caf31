"""What a layout class says about the tensor class that holds it."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from attrs import frozen

from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import LazyTensor
from qconfig.errors import LayoutError
from qconfig.versioning import plain_fields, tensor_fields

_REAL = (torch.Tensor, torch.nn.Parameter)


@frozen
class PackedFields:
    """Names of a layout's fields, as its tensor class stores them.

    Args:
        tensors: tensor fields; the first is the payload.
        attributes: plain fields without `dtype`, which is the outer tensor's own.
    """

    tensors: tuple[str, ...]
    attributes: tuple[str, ...]

    @classmethod
    def of(cls, layout_class: type) -> "PackedFields":
        """Read the fields of a layout class."""
        return cls(
            tuple(f.name for f in tensor_fields(layout_class)),
            tuple(f.name for f in plain_fields(layout_class) if f.name != "dtype"),
        )


def materialized(layout: Any, names: tuple[str, ...]) -> dict[str, torch.Tensor | None]:
    """Return the tensors of a layout, loading those that still lie in a file.

    Raises:
        LayoutError: a field holds only a specification, a tensor is sparse, or tensors lie on
            several devices.
    """
    tensors: dict[str, torch.Tensor | None] = {}
    device: Any = None
    for name in names:
        value = getattr(layout, name)
        if isinstance(value, LazyTensor):
            value = value.load()
        if value is not None:
            if not isinstance(value, torch.Tensor):
                raise LayoutError(
                    f"{name} is not a tensor",
                    pointer=f"/{name}",
                    found=type(value).__name__,
                    expected="a torch.Tensor",
                )
            if value.layout != torch.strided:
                raise LayoutError(
                    f"{name} is not strided",
                    pointer=f"/{name}",
                    found=str(value.layout),
                    expected="torch.strided",
                )
            # A payload has no gradient; what training learned comes with one.
            value = value.detach() if value.requires_grad else value
            device = device or (name, value.device)
            if value.device != device[1]:
                raise LayoutError(
                    f"{name} lies on another device",
                    pointer=f"/{name}",
                    found=str(value.device),
                    expected=f"{device[1]}, as {device[0]}",
                )
        tensors[name] = value
    return tensors


def has_elements(tensor: torch.Tensor | None) -> bool:
    """Return whether the elements of a tensor can be looked at: none, or neither meta nor fake."""
    return tensor is None or (type(tensor) in _REAL and tensor.device.type != "meta")


def logical_strides(payload: torch.Tensor, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides that a tensor of `shape` shows.

    They are the payload's, where both have one shape. Where a payload holds several codes a byte,
    dimensions outside of the packed one step over that many times more elements; those inside of
    it, which a transposed tensor that was made contiguous has, over as many.
    """
    found = tuple(payload.shape)
    if found == tuple(shape):
        return tuple(payload.stride())
    if len(found) != len(shape):
        strides, step = [], 1
        for size in reversed(shape):
            strides.append(step)
            step *= max(size, 1)
        return tuple(reversed(strides))
    codes, inner = 1, 0
    for size, stored, stride in zip(shape, found, payload.stride(), strict=True):
        if size != stored:
            codes, inner = size // stored if stored else 1, stride
    return tuple(
        stride * codes if size == stored and stride >= inner else stride
        for size, stored, stride in zip(shape, found, payload.stride(), strict=True)
    )


def short_tensor(tensor: torch.Tensor) -> str:
    """Return dtype and shape as `int8[4096, 4096]`."""
    return f"{DType.parse(tensor.dtype).value}{list(tensor.shape)}"


def summary(
    tensors: Mapping[str, torch.Tensor | None], attributes: Mapping[str, Any], dtype: torch.dtype
) -> list[str]:
    """Return `name=value` for what is set, tensors by type and shape, without elements."""
    present = {name: t for name, t in tensors.items() if t is not None}
    inner = {name: short_tensor(t) for name, t in present.items()}
    plain = {k: str(v) for k, v in attributes.items() if v not in (None, False)}
    device = next(t.device for t in present.values())
    shown = {"dtype": DType.parse(dtype).value, **inner, **plain, "device": device}
    return [f"{name}={value}" for name, value in shown.items()]


def mapped(
    tensors: Mapping[str, torch.Tensor | None], function: Callable[[torch.Tensor], torch.Tensor]
) -> dict[str, torch.Tensor | None]:
    """Return the tensors with `function` applied to each that is there."""
    return {name: None if t is None else function(t) for name, t in tensors.items()}
