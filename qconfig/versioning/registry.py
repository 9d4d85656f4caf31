"""The closed registry: (name, version) -> class, and the steps between versions.

Identity is a registered string and an integer from 1, never a class path. Nothing in qconfig
imports, calls or looks up code by a name that it found in data; it asks this registry.
"""

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Any, TypeVar, get_type_hints

import attrs
from attrs import frozen

from qconfig.errors import (
    FieldError,
    NewerVersionError,
    RegistrationError,
    UnknownNameError,
    nearest,
)
from qconfig.versioning.fields import tensor_fields
from qconfig.versioning.names import schema_path
from qconfig.versioning.tensor_check import check_tensors

C = TypeVar("C", bound=type)
F = TypeVar("F", bound=Callable[..., Any])


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


class Registry:
    """Holds entries and steps; filled on first use by the loader it is given."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, int], Entry] = {}
        self._by_class: dict[type, Entry] = {}
        self._versions: dict[str, list[int]] = {}
        self._steps: dict[tuple[str, int, int], Step] = {}
        self._loader: Callable[[], None] | None = None

    def on_first_use(self, loader: Callable[[], None]) -> None:
        """Call `loader` once, before the first lookup: it imports what registers itself."""
        self._loader = loader

    def _load(self) -> None:
        loader, self._loader = self._loader, None
        if loader is not None:
            loader()

    # registration

    def add(self, name: str, version: int, kind: Kind, cls: type, *, tagged: bool = True) -> None:
        """Register an attrs class; an untagged value has no `type` in documents.

        Raises:
            RegistrationError: not an attrs class, or the identity is taken.
        """
        if not attrs.has(cls):
            raise RegistrationError(
                f"{cls.__name__} is not an attrs class", hint="add @attrs.frozen"
            )
        if version < 1 or (name, version) in self._entries:
            raise RegistrationError(
                f"{name} v{version} cannot be registered",
                found=cls.__name__,
                expected="a version from 1 that is not taken",
            )
        entry = Entry(name, version, kind, cls, tagged)
        self._entries[name, version] = entry
        self._by_class[cls] = entry
        self._versions.setdefault(name, []).append(version)
        self._versions[name].sort()

    def add_step(self, function: Callable[[Any], Any], drops: str | None) -> None:
        """Register a step; its annotations say from which class to which.

        Raises:
            RegistrationError: unknown classes, two names, a jump, or the edge is taken.
        """
        hints = get_type_hints(function)
        target = self._by_class.get(hints.pop("return", type(None)))
        source = self._by_class.get(next(iter(hints.values()), type(None)))
        if source is None or target is None or len(hints) != 1:
            raise RegistrationError(
                f"step {function.__qualname__} needs the form (old: …V1) -> …V2",
                expected="annotations with two registered classes",
            )
        edge = (source.name, source.version, target.version)
        if source.name != target.name or abs(source.version - target.version) != 1:
            raise RegistrationError(f"step {source} -> {target} is not an edge of one chain")
        if edge in self._steps:
            raise RegistrationError(f"two steps for {source} -> {target}")
        self._steps[edge] = Step(source, target, function, drops)

    # lookup

    def get(self, name: Any, version: Any = None) -> Entry:
        """Return the entry of a name and version (None: the newest).

        Raises:
            UnknownNameError: nobody registered the name.
            NewerVersionError: the version is newer than the newest known.
            FieldError: the version is not a known positive integer.
        """
        self._load()
        versions = self._versions.get(name) if isinstance(name, str) else None
        if versions is None:
            raise UnknownNameError(
                "unknown type",
                pointer="/type",
                found=name,
                expected="a registered name",
                hint=nearest(str(name), self._versions),
            )
        if version is None:
            version = versions[-1]
        supported = f"{name} version {versions[0]} to {versions[-1]}"
        if type(version) is not int:
            raise FieldError(
                "version must be an integer", pointer="/version", found=version, expected=supported
            )
        if version > versions[-1]:
            raise NewerVersionError(
                f"{name} version {version} is newer than this qconfig",
                pointer="/version",
                found=version,
                expected=supported,
                hint="upgrade qconfig",
            )
        entry = self._entries.get((name, version))
        if entry is None:
            raise FieldError(
                "unknown version", pointer="/version", found=version, expected=supported
            )
        return entry

    def entry_of(self, cls: type) -> Entry:
        """Return the entry of a class.

        Raises:
            UnknownNameError: the class is not registered.
        """
        self._load()
        entry = self._by_class.get(cls)
        if entry is None:
            raise UnknownNameError("class is not registered", found=cls.__name__)
        return entry

    def has(self, cls: Any) -> bool:
        """Return whether the class is registered."""
        self._load()
        return cls in self._by_class

    def versions(self, name: str) -> list[Entry]:
        """Return all versions of a name, oldest first."""
        self.get(name)
        return [self._entries[name, v] for v in self._versions[name]]

    def entries(self, kind: Kind | None = None) -> Iterator[Entry]:
        """Yield all entries, by name and version."""
        self._load()
        for _, entry in sorted(self._entries.items()):
            if kind is None or entry.kind is kind:
                yield entry

    def steps(self) -> Iterator[Step]:
        """Yield all steps, by name and versions."""
        self._load()
        for _, step in sorted(self._steps.items()):
            yield step

    def is_current(self, entry: Entry) -> bool:
        """Return whether the entry is the newest of its name."""
        return self._versions[entry.name][-1] == entry.version

    # composition

    def path(self, entry: Entry, to: int | None = None) -> list[Step]:
        """Return the steps from `entry` to version `to` of its name (None: the newest).

        Raises:
            UnknownNameError: a step is missing; for upgrades a test rules that out.
        """
        goal = self.get(entry.name, to).version
        direction = 1 if goal > entry.version else -1
        path = []
        for v in range(entry.version, goal, direction):
            step = self._steps.get((entry.name, v, v + direction))
            if step is None:
                raise UnknownNameError(
                    f"there is no step from {entry.name} v{v} to v{v + direction}",
                    expected="a registered migration",
                    hint="downgrades exist only where a step was written",
                )
            path.append(step)
        return path

    def convert(self, value: Any, to: int | None = None) -> Any:
        """Take an instance along its chain to version `to` (None: the newest)."""
        for step in self.path(self.entry_of(type(value)), to):
            value = step.function(value)
        return value


registry = Registry()


def register_config(name: str, version: int) -> Callable[[C], C]:
    """Register a config class under a name and an integer version."""
    return _register(name, version, Kind.CONFIG, Config)


def register_layout(name: str, version: int) -> Callable[[C], C]:
    """Register a tensor-layout class under a name and an integer version."""
    return _register(name, version, Kind.LAYOUT, Layout)


def register_value(name: str, *, tagged: bool = True) -> Callable[[C], C]:
    """Register a value that configs and layouts contain, such as a granularity.

    Args:
        name: the registered string.
        tagged: whether documents say its `type`; needless where no other value can stand.

    A value has no version of its own: what contains it has. A value class is closed for good once
    released; a change that is not an optional field needs a new name.
    """
    return _register(name, 1, Kind.VALUE, object, tagged=tagged)


def _register(
    name: str, version: int, kind: Kind, base: type, *, tagged: bool = True
) -> Callable[[C], C]:
    def decorate(cls: C) -> C:
        if not issubclass(cls, base):
            raise RegistrationError(f"{cls.__name__} must derive from {base.__name__}")
        registry.add(name, version, kind, cls, tagged=tagged)
        return cls

    return decorate


def migration(*, drops: str | None = None) -> Callable[[F], F]:
    """Register a step between neighbouring versions; annotations name the two classes.

    Args:
        drops: what the step cannot carry, in words; None declares it lossless.
    """

    def decorate(function: F) -> F:
        registry.add_step(function, drops)
        return function

    return decorate
