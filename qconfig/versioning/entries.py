"""What can be registered, under which identity, and the steps between versions."""

from collections.abc import Callable
from enum import StrEnum
from typing import Any

from attrs import frozen

from qconfig.versioning.fields import tensor_fields
from qconfig.versioning.names import schema_path
from qconfig.versioning.tensor_check import check_tensors


class Config:
    """Base of every config class. As a field type it means: any registered config."""

    __slots__ = ()


class Layout:
    """Base of every tensor-layout class: checks the tensors, then the relations between fields."""

    __slots__ = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """Logical shape: that of the first tensor field, unless a class says otherwise."""
        payload = tensor_fields(type(self))[0]
        return tuple(getattr(self, payload.name).shape)

    def __attrs_post_init__(self) -> None:
        """Check what was passed.

        Raises:
            LayoutError: naming the field that is wrong.
        """
        check_tensors(self)
        self.check_relations()

    def check_relations(self) -> None:
        """Check what holds between fields; a layout class overrides it. Raises LayoutError."""


class Kind(StrEnum):
    """What a registered class describes."""

    CONFIG = "config"
    LAYOUT = "layout"
    VALUE = "value"


@frozen
class Entry:
    """One registered class."""

    name: str
    version: int
    kind: Kind
    cls: type
    tagged: bool = True

    @property
    def tags(self) -> dict[str, Any]:
        """What a document says about the class besides its fields: `type` and `version`."""
        if self.kind is not Kind.VALUE:
            return {"type": self.name, "version": self.version}
        return {"type": self.name} if self.tagged else {}

    @property
    def title(self) -> str:
        """The first line of the class's docstring."""
        return (self.cls.__doc__ or "").strip().partition("\n")[0]

    @property
    def schema_path(self) -> str:
        """Where the JSON Schema lies below `schemas/`."""
        return schema_path(self.name, self.version)

    def __str__(self) -> str:
        return f"{self.name} v{self.version}"


@frozen
class Step:
    """One edge of a version chain: pure, total, from class to class."""

    source: Entry
    target: Entry
    function: Callable[[Any], Any]
    drops: str | None

    @property
    def lossless(self) -> bool:
        """Whether the step carries everything."""
        return self.drops is None

    @property
    def doc(self) -> str:
        """The first line of the step's docstring."""
        return (self.function.__doc__ or "").strip().partition("\n")[0]

    def to_dict(self) -> dict[str, str]:
        """Return plain data for a report."""
        return {"from": str(self.source), "to": str(self.target), "text": self.doc}
