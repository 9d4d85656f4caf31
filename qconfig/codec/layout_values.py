"""The tensors in a layout's fields: which are there, wrapped for steps, loaded for use."""

from collections.abc import Callable, Sized
from functools import cache
from types import MemberDescriptorType
from typing import Any, TypeVar

import attrs

from qconfig.codec.tensor_values import LazyTensor, nbytes
from qconfig.versioning import Layout, tensor_fields

L = TypeVar("L", bound=Layout)


def counted(values: Sized) -> str:
    """Return how many there are: the repr of a field that would fill the screen."""
    return f"<{len(values)}>"


def present_fields(layout: Layout) -> list[str]:
    """Return the tensor fields of a layout that are not None, in order."""
    cls: Any = type(layout)
    return [name for name in _tensor_names(cls) if getattr(layout, name) is not None]


def layout_nbytes(layout: Layout) -> int:
    """Return the bytes that the tensors of a layout take together."""
    return sum(nbytes(getattr(layout, field)) for field in present_fields(layout))


def with_values(layout: L, values: dict[str, Any]) -> L:
    """Return the layout with other values in some tensor fields."""
    changed: L = attrs.evolve(layout, **values)  # type: ignore[misc]
    return changed


def with_equal_values(layout: L, values: dict[str, Any]) -> L:
    """Return the layout with other tensors of the same dtypes and shapes in some tensor fields.

    What was checked of the layout holds for the new one, so that nothing is checked again.
    """
    cls: Any = type(layout)
    changed: L = object.__new__(cls)
    for name, put in _setters(cls):
        # The class is frozen; nobody has seen the new instance yet.
        put(changed, values[name] if name in values else getattr(layout, name))
    return changed


@cache
def _tensor_names(cls: Any) -> tuple[str, ...]:
    return tuple(field.name for field in tensor_fields(cls))


@cache
def _setters(cls: Any) -> list[tuple[str, Callable[[Any, Any], None]]]:
    """Return what sets each field of an instance, without a look at its name."""
    return [(f.name, _setter(cls, f.name)) for f in attrs.fields(cls)]


def _setter(cls: Any, name: str) -> Callable[[Any, Any], None]:
    slot = getattr(cls, name, None)
    if isinstance(slot, MemberDescriptorType):
        return slot.__set__
    return lambda instance, value: object.__setattr__(instance, name, value)


def wrapped(layout: L) -> L:
    """Return a layout of tensors in memory as one of lazy tensors, which steps can work on."""
    values = {f: getattr(layout, f) for f in present_fields(layout)}
    lazy = {f: v if isinstance(v, LazyTensor) else LazyTensor.of(v) for f, v in values.items()}
    return with_equal_values(layout, lazy)


def loaded(layout: L) -> L:
    """Return a layout of lazy tensors as one of tensors in memory."""
    loads = {f: getattr(layout, f).load() for f in present_fields(layout)}
    return with_equal_values(layout, loads)
