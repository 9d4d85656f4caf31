"""What readers of torchao's tensors share: fields, each taken once, and what they give."""

import re
from collections.abc import Callable
from typing import Any

import attrs
from attrs import frozen

from qconfig.checkpoints.origin import Origin
from qconfig.checkpoints.writer import Writer
from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import LazyTensor
from qconfig.dialects.torchao.stored import Stored
from qconfig.dialects.torchao.tensors.looks import Looks
from qconfig.errors import ContainerError, QconfigError, UnknownFieldError, json_pointer, nearest
from qconfig.versioning import Layout, registry

_REQUIRED: Any = object()
_RELEASE = re.compile(r"0\.(\d+)")


@frozen
class Read:
    """A tensor of torchao's as one of ours.

    Args:
        layout: in the version that has the fields of what was stored.
        origin: what it was.
    """

    layout: Layout
    origin: Origin

    def at_least(self, version: int) -> "Read":
        """Return the same in `version` of its layout, or in a later one if it is that already.

        Raises:
            MigrationError: a step cannot carry what it meets.
        """
        entry = registry.entry_of(type(self.layout))
        if entry.version >= version:
            return self
        steps = tuple(registry.path(entry, version))
        layout = registry.convert(self.layout, version)
        return Read(layout, attrs.evolve(self.origin, steps=self.origin.steps + steps))

    def newest(self) -> "Read":
        """Return the same in the newest version there is, of another layout where its own ended.

        Raises:
            MigrationError: a step cannot carry what it meets.
        """
        steps = tuple(registry.path(registry.entry_of(type(self.layout))))
        layout: Layout = registry.convert(self.layout)
        return Read(layout, attrs.evolve(self.origin, steps=self.origin.steps + steps))

    def with_fields(self, **fields: Any) -> "Read":
        """Return the same with other values in these fields of the layout.

        Raises:
            LayoutError: they do not fit the others.
        """
        layout: Any = self.layout
        return attrs.evolve(self, layout=attrs.evolve(layout, **fields))

    def noting(self, *, changes: tuple[str, ...] = (), ambiguities: tuple[str, ...] = ()) -> "Read":
        """Return the same with more to report."""
        origin = attrs.evolve(
            self.origin,
            changes=self.origin.changes + changes,
            ambiguities=self.origin.ambiguities + ambiguities,
        )
        return attrs.evolve(self, origin=origin)

    def inside(self, name: str) -> "Read":
        """Return the same, said to be wrapped into a class of that name."""
        origin = attrs.evolve(self.origin, type=f"{name}({self.origin.type})")
        return attrs.evolve(self, origin=origin)


@frozen
class Context:
    """What a reader knows besides the tensor.

    Args:
        writer: the release that wrote the file, where the user said it.
        read: reads a tensor that lies in another one.
        looks: at data of its checkpoint.
    """

    writer: Writer | None
    read: Callable[[Stored], Read]
    looks: Looks

    def releases(self, text: str) -> str:
        """Return the writer's release if it is known, else `text`.

        Where no release of `text` is the named one, both are returned: the file says otherwise.
        """
        if self.writer is None or self.writer.library != "torchao":
            return text
        named = "{}.{}".format(*self.writer.release)
        minors = [int(minor) for minor in _RELEASE.findall(text)]
        is_late = not minors or (text.endswith("later") and self.writer.release[1] >= minors[0])
        if is_late or minors[0] <= self.writer.release[1] <= minors[-1]:
            return named
        return f"{named} as named, though only {text} is known to have this form"

    def is_before(self, release: tuple[int, int]) -> bool | None:
        """Return whether the writer is older than a release; None if nobody said who it is."""
        if self.writer is None or self.writer.library != "torchao":
            return None
        return self.writer.release < release


Reader = Callable[[Stored, Context], Read]


def inner(context: Context, value: Any, name: str) -> Read:
    """Return what the tensor in field `name` of another one is read as.

    Raises:
        ContainerError: there is no tensor of torchao's.
        QconfigError: it cannot be read; the pointer leads to it.
    """
    if not isinstance(value, Stored):
        raise wrong(name, value, "a quantized tensor of torchao's")
    try:
        return context.read(value)
    except QconfigError as error:
        raise error.at(pointer_prefix=json_pointer(name)) from None


def wrong(name: str, value: Any, expected: str) -> ContainerError:
    """Return the error for a field that holds something else than the class puts there."""
    return ContainerError(
        f"{name} is not what its class stores there",
        pointer=json_pointer(name),
        found=value,
        expected=expected,
    )


class Fields:
    """The fields of a stored tensor; a reader takes each once and then says that it is done.

    Args:
        stored: the tensor.
    """

    def __init__(self, stored: Stored) -> None:
        self.stored = stored
        self._left = dict(stored.fields)

    def __contains__(self, name: str) -> bool:
        """Return whether the file has the field, taken or not, with a value or None."""
        return name in self.stored.fields

    def take(self, name: str, default: Any = _REQUIRED) -> Any:
        """Return a field's value.

        Args:
            name: the field.
            default: what a missing one stands for.

        Raises:
            ContainerError: it is missing and has no default.
        """
        value = self._left.pop(name, default)
        if value is _REQUIRED:
            raise ContainerError(
                f"{self.stored.name} has no {name}",
                found=sorted(self.stored.fields),
                expected=name,
            )
        return value

    def value(self, name: str, kinds: type | tuple[type, ...], default: Any = _REQUIRED) -> Any:
        """Return a field's value if it is of one of these classes exactly, or the default.

        Raises:
            ContainerError: it is missing or of another class.
        """
        kinds = kinds if isinstance(kinds, tuple) else (kinds,)
        value = self.take(name, default)
        if value is default or type(value) in kinds:
            return value
        raise wrong(name, value, " or ".join(kind.__name__ for kind in kinds))

    def tensor(self, name: str) -> LazyTensor:
        """Return a plain tensor. Raises ContainerError where there is none."""
        value: LazyTensor = self.value(name, LazyTensor)
        return value

    def optional_tensor(self, name: str) -> LazyTensor | None:
        """Return a plain tensor, or None if the field is that or missing."""
        value: LazyTensor | None = self.value(name, LazyTensor, None)
        return value

    def optional(self, name: str, kinds: type | tuple[type, ...]) -> Any:
        """Return a value, or None if the field is that or missing."""
        return self.value(name, kinds, None)

    def sizes(self, name: str) -> tuple[int, ...]:
        """Return a list or tuple of integers."""
        value = self.value(name, (list, tuple))
        if any(type(n) is not int for n in value):
            raise wrong(name, value, "integers")
        return tuple(value)

    @property
    def dtype(self) -> DType:
        """The element type that the tensor shows, as the file says it outside or among the fields.

        Raises:
            ContainerError: it says none, or two.
        """
        said: DType | None = self.value("dtype", DType, self.stored.dtype)
        if said is None or self.stored.dtype not in (None, said):
            raise wrong("dtype", said, f"the type of the tensor, {self.stored.dtype}")
        return said

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape that the tensor shows, as the file says it outside or among the fields.

        Raises:
            ContainerError: it says none, or two.
        """
        said = self.stored.shape
        if "shape" in self._left:
            said = self.sizes("shape")
        if said is None or self.stored.shape not in (None, said):
            raise wrong("shape", said, f"the shape of the tensor, {self.stored.shape}")
        return said

    def done(self) -> None:
        """Check that nothing is left, but dtype and shape of the tensor itself.

        Raises:
            UnknownFieldError: the first field that nobody took.
        """
        own = {"dtype": self.stored.dtype, "shape": self.stored.shape}
        for name, value in self._left.items():
            same = tuple(value) if isinstance(value, list) else value
            if name in own and own[name] in (None, same):
                continue
            known = self.stored.fields.keys() - self._left.keys()
            raise UnknownFieldError(
                f"{self.stored.name} has a field that no known release wrote",
                pointer=json_pointer(name),
                found=name,
                expected=", ".join(sorted(known)),
                hint=nearest(name, known),
            )


def origin(
    stored: Stored,
    releases: str | None,
    *,
    changes: tuple[str, ...] = (),
    ambiguities: tuple[str, ...] = (),
) -> Origin:
    """Return the origin of a tensor that is not wrapped."""
    return Origin(stored.name, releases, changes=changes, ambiguities=ambiguities)
