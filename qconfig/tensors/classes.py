"""The closed table from layout class to tensor class."""

from collections.abc import Collection
from typing import Any, Protocol, runtime_checkable

from qconfig.errors import LayoutError, RegistrationError, nearest
from qconfig.versioning.modules import load_plugins


class LayoutTensor(Protocol):
    """A tensor that is made of a layout, and gives one: packed, or fake-quantized."""

    @classmethod
    def from_layout(cls, layout: Any, *, check: bool = False) -> Any:
        """Return the tensor of a layout; see `PackedTensor.from_layout`."""

    @classmethod
    def check_layout_values(cls, layout: Any) -> None:
        """Check the elements of a layout."""

    @classmethod
    def simplify(cls, layout: Any) -> Any:
        """Return a layout of equal values that computes faster."""

    @classmethod
    def fields_read(cls, layout: Any) -> Collection[str]:
        """Return the tensor fields whose elements `simplify` and `from_layout` look at.

        Args:
            layout: of lazy tensors.
        """

    def to_layout(self) -> Any:
        """Return the layout record of the tensor."""

    @property
    def packed_nbytes(self) -> int:
        """Bytes of all inner tensors."""


@runtime_checkable
class ComparedTensor(Protocol):
    """A tensor whose scheme is its own: only one of the same scheme may take its place."""

    def difference(self, other: Any) -> tuple[str, str] | None:
        """Return what another tensor is and what this one is, in words, or None."""


_classes: dict[type, type[LayoutTensor]] = {}


def has_layout(value: Any) -> bool:
    """Return whether a value is a tensor that a layout describes."""
    return hasattr(type(value), "layout_class")


def add_tensor_class(layout_class: type, tensor_class: type[LayoutTensor]) -> None:
    """Register the tensor class of a layout class; base classes call it for each subclass.

    Raises:
        RegistrationError: the layout has a tensor class already.
    """
    if layout_class in _classes:
        raise RegistrationError(
            f"{layout_class.__name__} has a tensor class", found=tensor_class.__name__
        )
    _classes[layout_class] = tensor_class


def tensor_class_of(layout_class: type) -> type[LayoutTensor]:
    """Return the tensor class that holds a current layout class.

    Raises:
        LayoutError: there is none, as for a retired version.
        RegistrationError: a plug-in that may have it cannot be loaded.
    """
    found = _classes.get(layout_class)
    if found is None:
        load_plugins("qconfig.tensors")
        found = _classes.get(layout_class)
    if found is None:
        known = sorted(c.__name__ for c in _classes)
        raise LayoutError(
            f"no tensor class for layout {layout_class.__name__}",
            expected="one of " + ", ".join(known),
            hint=nearest(layout_class.__name__, known),
        )
    return found


def check_values(layout: Any) -> None:
    """Check what the elements of a layout's tensors must satisfy: reads every element once.

    Construction checks dtypes and shapes only, for that is free; this is for files of unknown
    origin.

    Raises:
        LayoutError: naming field, count and first index of what is wrong: a scale that is not a
            positive finite number, a code outside its range.
    """
    tensor_class_of(type(layout)).check_layout_values(layout)
