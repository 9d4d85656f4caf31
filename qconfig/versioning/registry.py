"""The closed registry: (name, version) -> class, and the steps between versions.

Identity is a registered string and an integer from 1, never a class path. Nothing in qconfig
imports, calls or looks up code by a name that it found in data; it asks this registry.
"""

import re
from collections.abc import Callable, Iterator
from threading import RLock
from typing import Any, NoReturn, get_type_hints

import attrs

from qconfig.errors import (
    FieldError,
    MigrationError,
    NewerVersionError,
    RegistrationError,
    UnknownNameError,
    nearest,
    shown,
)
from qconfig.versioning.entries import Entry, Kind, Step
from qconfig.versioning.names import snake_name

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


class Registry:
    """Holds entries and steps; filled on first use by the loader it is given."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, int], Entry] = {}
        self._by_class: dict[type, Entry] = {}
        self._versions: dict[str, list[int]] = {}
        self._names: dict[str, str] = {}
        self._steps: dict[tuple[str, int, int], Step] = {}
        self._successions: dict[str, Step] = {}
        self._loader: Callable[[], None] | None = None
        self._lock = RLock()
        self._is_loading = False

    def on_first_use(self, loader: Callable[[], None]) -> None:
        """Call `loader` once, before the first lookup: it imports what registers itself."""
        self._loader = loader

    def load(self) -> None:
        """Call the loader now, unless it was called before; every lookup does so by itself.

        Raises:
            RegistrationError: a plug-in cannot be loaded.
        """
        if self._loader is None:
            return
        with self._lock:  # other threads wait until all is there
            if self._is_loading or self._loader is None:
                return
            self._is_loading = True
            try:
                self._loader()
            except Exception as error:
                # The modules that did import stay so: a second attempt would find a part only.
                self._loader = _raiser(error)
                raise
            finally:
                self._is_loading = False
            self._loader = None

    # registration

    def add(self, name: Any, version: Any, kind: Kind, cls: type, *, tagged: bool = True) -> None:
        """Register an attrs class; an untagged value has no `type` in documents.

        Raises:
            RegistrationError: not an attrs class, or not an identity that it can have.
        """
        if not attrs.has(cls):
            raise RegistrationError(
                f"{cls.__name__} is not an attrs class", hint="add @attrs.frozen"
            )
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise RegistrationError(
                "not a name for a class",
                found=name,
                expected="a letter, then letters, digits and underscores",
            )
        if type(version) is not int or version < 1 or (name, version) in self._entries:
            raise RegistrationError(
                f"{name} v{version} cannot be registered",
                found=cls.__name__,
                expected="a version from 1 that is not taken",
            )
        entry = Entry(name, version, kind, cls, tagged)
        if cls in self._by_class:
            raise RegistrationError(
                f"{cls.__name__} is registered already", found=str(self._by_class[cls])
            )
        known = next((self._entries[name, v] for v in self._versions.get(name, ())), entry)
        if known.kind is not kind:
            raise RegistrationError(f"{name} is a {known.kind}", found=f"a {kind} of that name")
        owner, package = (c.__module__.partition(".")[0] for c in (known.cls, cls))
        if owner != package:
            raise RegistrationError(
                f"{name} belongs to another package", found=package, expected=owner
            )
        file_name = snake_name(name)
        if self._names.setdefault(file_name, name) != name:
            raise RegistrationError(
                f"{name} and {self._names[file_name]} would share the file {file_name}"
            )
        self._entries[name, version] = entry
        self._by_class[cls] = entry
        self._versions.setdefault(name, []).append(version)
        self._versions[name].sort()

    def add_step(self, function: Callable[[Any], Any], drops: str | None) -> None:
        """Register a step; its annotations say from which class to which.

        A step that leads to another name of the same kind ends its own: what was the newest
        version has a successor, and none of its versions is current.

        Raises:
            RegistrationError: unknown classes, another kind, a jump, or the edge is taken.
        """
        try:
            hints = get_type_hints(function)
        except (NameError, TypeError, AttributeError) as error:
            raise RegistrationError(
                "the annotations of a step cannot be read", found=function, hint=str(error)
            ) from None
        target = self._by_class.get(hints.pop("return", type(None)))
        source = self._by_class.get(next(iter(hints.values()), type(None)))
        if source is None or target is None or len(hints) != 1:
            raise RegistrationError(
                f"step {function.__qualname__} needs the form (old: …V1) -> …V2",
                expected="annotations with two registered classes",
            )
        step = Step(source, target, function, drops)
        if source.name != target.name:
            self._add_succession(step)
            return
        edge = (source.name, source.version, target.version)
        if abs(source.version - target.version) != 1:
            raise RegistrationError(f"step {source} -> {target} is not an edge of one chain")
        if edge in self._steps:
            raise RegistrationError(f"two steps for {source} -> {target}")
        self._steps[edge] = step

    def _add_succession(self, step: Step) -> None:
        source, target = step.source, step.target
        if source.kind is not target.kind or source.kind is Kind.VALUE:
            raise RegistrationError(f"step {source} -> {target} is not an edge of one chain")
        if source.name in self._successions:
            raise RegistrationError(f"two steps for {source} -> {target}")
        followers = {target.name}
        while (after := self._successions.get(target.name)) is not None:
            target = after.target
            followers.add(target.name)
        if source.name in followers:
            raise RegistrationError(f"{source.name} would succeed itself")
        self._successions[source.name] = step

    # lookup

    def get(self, name: Any, version: Any = None) -> Entry:
        """Return the entry of a name and version (None: the newest).

        Raises:
            UnknownNameError: nobody registered the name.
            NewerVersionError: the version is newer than the newest known.
            FieldError: the version is not a known positive integer.
        """
        self.load()
        versions = self._versions.get(name) if isinstance(name, str) else None
        if versions is None:
            raise UnknownNameError(
                "unknown type",
                pointer="/type",
                found=name,
                expected="a registered name",
                hint=nearest(name, self._versions),
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
                f"{name} version {shown(version)} is newer than this qconfig",
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
        if not self.has(cls):
            raise UnknownNameError(
                "class is not registered",
                found=getattr(cls, "__name__", cls),
                hint="load_config and config_from_dict make a config of a document"
                if cls in (dict, str)
                else None,
            )
        return self._by_class[cls]

    def has(self, cls: Any) -> bool:
        """Return whether the class is registered."""
        if cls in self._by_class:  # a class that is known needs no others
            return True
        self.load()
        return cls in self._by_class

    def versions(self, name: str) -> list[Entry]:
        """Return all versions of a name, oldest first."""
        self.get(name)
        return [self._entries[name, v] for v in self._versions[name]]

    def entries(self, kind: Kind | None = None) -> Iterator[Entry]:
        """Yield all entries, by name and version."""
        self.load()
        for _, entry in sorted(self._entries.items()):
            if kind is None or entry.kind is kind:
                yield entry

    def steps(self) -> Iterator[Step]:
        """Yield all steps, by name and versions."""
        self.load()
        for _, step in sorted(self._steps.items()):
            yield step
        for _, step in sorted(self._successions.items()):
            yield step

    def is_current(self, entry: Entry) -> bool:
        """Return whether the entry is the newest of its name, and the name has not ended."""
        newest = self._versions[entry.name][-1] == entry.version
        return newest and entry.name not in self._successions

    def current(self, entry: Entry) -> Entry:
        """Return what the entry becomes: the newest of its name, or of the name that succeeds it.

        Raises:
            UnknownNameError: nobody registered the name.
        """
        while (step := self._successions.get(entry.name)) is not None:
            entry = step.target
        return self.get(entry.name)

    # composition

    def path(self, entry: Entry, to: int | None = None) -> list[Step]:
        """Return the steps from `entry` to version `to` of its name (None: to what is current).

        Raises:
            UnknownNameError: nobody wrote a step back.
            RegistrationError: a step forward is missing; `check_chains` rules that out.
        """
        goal = self.get(entry.name, to).version
        direction = 1 if goal > entry.version else -1
        path = []
        for v in range(entry.version, goal, direction):
            step = self._steps.get((entry.name, v, v + direction))
            if step is None and direction == 1:
                raise _missing_step(entry.name, v)
            if step is None:
                raise MigrationError(
                    f"there is no step from {entry.name} v{v} to v{v + direction}",
                    expected="a registered migration",
                    hint="downgrades exist only where a step was written",
                )
            path.append(step)
        if to is None and (succession := self._successions.get(entry.name)) is not None:
            return [*path, succession, *self.path(succession.target)]
        return path

    def convert(self, value: Any, to: int | None = None) -> Any:
        """Take an instance along its chain to version `to` (None: to what is current).

        Raises:
            UnknownNameError: the class is not registered, or has no such step back.
            MigrationError: a step refuses what it met.
            RegistrationError: a step is missing, or returns something else than it declares.
        """
        entry = self.entry_of(type(value))
        if to is None:
            self.load()
            if self.is_current(entry):
                return value
        for step in self.path(entry, to):
            value = step.function(value)
            if type(value) is not step.target.cls:
                raise RegistrationError(
                    f"the step {step.source} -> {step.target} returns another class",
                    found=type(value).__name__,
                    expected=step.target.cls.__name__,
                )
        return value

    def check_chains(self) -> None:
        """Check that the versions of each name are 1, 2, 3, ... with a step from each to the next.

        Raises:
            RegistrationError: a version or a step is missing.
        """
        for name, versions in self._versions.items():
            for missing in sorted({*range(1, versions[-1])}.difference(versions)):
                raise RegistrationError(
                    f"{name} has no version {missing}", found=versions, expected="no gaps from 1"
                )
            for version in versions[:-1]:
                if (name, version, version + 1) not in self._steps:
                    raise _missing_step(name, version)
        for name, step in self._successions.items():
            if step.source.version != self._versions[name][-1]:
                raise RegistrationError(
                    f"{name} has versions after the one that has a successor",
                    found=self._versions[name],
                    expected=f"{step.source} as the last",
                )


def _missing_step(name: str, version: int) -> RegistrationError:
    return RegistrationError(
        f"there is no step from {name} v{version} to v{version + 1}",
        expected="a function under @migration() with both classes as annotations",
    )


def _raiser(error: Exception) -> Callable[[], NoReturn]:
    def again() -> NoReturn:
        raise error

    return again


registry = Registry()
