"""The decorators that put classes and steps into the registry."""

from collections.abc import Callable
from typing import Any, TypeVar

from qconfig.errors import RegistrationError
from qconfig.versioning.entries import Config, Kind, Layout
from qconfig.versioning.registry import registry

C = TypeVar("C", bound=type)
F = TypeVar("F", bound=Callable[..., Any])


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
        given: Any = cls  # which may be anything
        if not isinstance(given, type) or not issubclass(given, base):
            name_given = getattr(given, "__name__", given)
            raise RegistrationError(
                f"{name_given} must be a class that derives from {base.__name__}"
            )
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
