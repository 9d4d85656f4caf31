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


def wrapped(layout: L) -> L:
    """Return a layout of tensors in memory as one of lazy tensors, which steps can work on."""
    values = {f: getattr(layout, f) for f in present_fields(layout)}
    lazy = {f: v if isinstance(v, LazyTensor) else LazyTensor.of(v) for f, v in values.items()}
    return with_values(layout, lazy)


def loaded(layout: L) -> L:
    """Return a layout of lazy tensors as one of tensors in memory."""
    return with_values(layout, {f: getattr(layout, f).load() for f in present_fields(layout)})
