"""What a layout class says about the quant tensor that holds it."""

from numbers import Real
from typing import Any, NamedTuple

import torch
from attrs import frozen
from torch.utils._python_dispatch import _disable_current_modes

from qconfig.errors import LayoutError
from qconfig.versioning import plain_fields, tensor_fields

VALUES = ("value", "scale", "zero_point")
"""Tensor fields that have the type of the values; the others are numbers, such as a bit width."""

_REAL = (torch.Tensor, torch.nn.Parameter)


@frozen
class QuantFields:
    """Names of a layout's fields, as its tensor class stores them.

    One rule: a field is the property of its name, and stored under that name with an underscore.
    Where values are in groups, the property shows them in the logical shape, and the property
    `grouped_<name>` as they are stored.

    Args:
        tensors: all tensor fields, `value` first.
        numbers: those that are one number.
        attributes: plain fields.
        flags: plain fields that are booleans.
        grouped: whether values are stored in groups.
    """

    tensors: tuple[str, ...]
    numbers: tuple[str, ...]
    attributes: tuple[str, ...]
    flags: tuple[str, ...]
    grouped: bool

    @classmethod
    def of(cls, layout_class: type) -> "QuantFields":
        """Read the fields of a layout class."""
        tensors = tuple(f.name for f in tensor_fields(layout_class))
        plain = plain_fields(layout_class)
        names = tuple(f.name for f in plain)
        return cls(
            tensors,
            tuple(n for n in tensors if n not in VALUES),
            names,
            tuple(f.name for f in plain if f.type is bool),
            "group_size" in names,
        )

    @property
    def all(self) -> tuple[str, ...]:
        """All fields."""
        return self.tensors + self.attributes

    @property
    def values(self) -> tuple[str, ...]:
        """The tensor fields that have the type of the values."""
        return VALUES


class InnerAttributes(list[str]):
    """Names of the attributes that hold inner tensors, for `__tensor_flatten__`.

    Dynamo asks with `in` whether an attribute of a traced subclass is a tensor, and takes it for a
    constant if not. The properties are tensors as well, so the answer is yes for them too.
    """

    properties: frozenset[str]

    @classmethod
    def of(cls, fields: QuantFields, names: tuple[str, ...]) -> "InnerAttributes":
        """Return the attributes of inner tensors."""
        found = cls("_" + name for name in names)
        grouped = {"grouped_" + name for name in VALUES} if fields.grouped else set()
        found.properties = frozenset(fields.tensors) | grouped
        return found

    def __contains__(self, name: object) -> bool:
        return name in self.properties or super().__contains__(name)


class Context(NamedTuple):
    """What a quant tensor is besides its inner tensors; hashable, without floats and tensors.

    Args:
        dtype: type of the values.
        symmetric: whether the zero point is 0; None if nobody has looked, or can.
        differentiable: fields through which gradients flow.
        numbers: the known ones among bit widths and the like, else None.
        attributes: the plain fields of the layout, in its order.
    """

    dtype: torch.dtype
    symmetric: bool | None
    differentiable: tuple[str, ...]
    numbers: tuple[int | None, ...]
    attributes: tuple[Any, ...]


def is_real(tensor: Any) -> bool:
    """Return whether elements can be looked at: neither meta nor a tracer's."""
    return type(tensor) in _REAL and tensor.device.type != "meta"


def version_of(tensor: torch.Tensor) -> int | None:
    """Return a number that changes with the elements of a tensor; None in inference mode."""
    try:
        return tensor._version  # noqa: SLF001
    except RuntimeError:
        return None


def as_tensor(value: Any, device: torch.device, like: torch.Tensor | None = None) -> torch.Tensor:
    """Return a field as a tensor: a number becomes float32 of shape ().

    Args:
        value: a number or a tensor.
        device: where a number is put.
        like: a tensor whose tracer, if there is one, has to know the result.
    """
    if isinstance(value, torch.Tensor):
        return value
    if like is None:
        return torch.tensor(float(value), device=device)
    if not is_real(like):
        return like.new_full((), float(value), dtype=torch.float32)
    with _disable_current_modes():  # a tracer must not put its own tensor into a real one
        return torch.tensor(float(value), device=device)


def as_number(value: Any, device: torch.device) -> Any:
    """Return a bit width or the like: an int where it is known to be one, else a tensor.

    A tensor becomes an int if that keeps its bits and needs no wait for a device.
    """
    if type(value) is int:
        return value
    if isinstance(value, Real):  # those of NumPy too
        exact = float(value)
        return int(exact) if exact.is_integer() else torch.tensor(exact, device=device)
    if (
        is_real(value)
        and not value.requires_grad
        and value.device.type == "cpu"
        and value.dtype is torch.float32
        and not value.shape
    ):
        number = value.item()
        if number.is_integer():
            return int(number)
    return value


def as_flag(value: Any) -> bool:
    """Return a flag as a boolean; Brevitas has tensors of one element.

    Raises:
        LayoutError: it is neither true nor false.
    """
    found = value.item() if isinstance(value, torch.Tensor) and value.numel() == 1 else value
    if found not in (True, False):
        raise LayoutError("a flag is neither true nor false", found=value, expected="true or false")
    return bool(found)
