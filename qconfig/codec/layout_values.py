"""The tensors in a layout's fields: which are there, wrapped for steps, loaded for use."""

from collections.abc import Sized
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
    return [f.name for f in tensor_fields(type(layout)) if getattr(layout, f.name) is not None]


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
    for field in attrs.fields(cls):
        name = field.name
        # The class is frozen; nobody has seen the new instance yet.
        object.__setattr__(changed, name, values.get(name, getattr(layout, name)))
    return changed


def wrapped(layout: L) -> L:
    """Return a layout of tensors in memory as one of lazy tensors, which steps can work on."""
    values = {f: getattr(layout, f) for f in present_fields(layout)}
    lazy = {f: v if isinstance(v, LazyTensor) else LazyTensor.of(v) for f, v in values.items()}
    return with_equal_values(layout, lazy)


def loaded(layout: L) -> L:
    """Return a layout of lazy tensors as one of tensors in memory."""
    loads = {f: getattr(layout, f).load() for f in present_fields(layout)}
    return with_equal_values(layout, loads)
