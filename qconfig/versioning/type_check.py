"""Check at construction that a field's value has the type its annotation says."""

from enum import Enum
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import attrs

from qconfig.errors import FieldError


class FieldCheck:
    """The validator of a plain field: its type, then its bounds.

    Args:
        check_bounds: called with value and name where the field has bounds.
    """

    __slots__ = ("_check_bounds", "_exact")

    def __init__(self, check_bounds: Any) -> None:
        self._check_bounds = check_bounds
        self._exact: frozenset[type] | None = None

    def __call__(self, _: Any, field: "attrs.Attribute[Any]", value: Any) -> None:
        """Raise FieldError where the value has another type or breaks a bound."""
        if self._exact is None:
            self._exact = _exact_types(field.type)
        if type(value) not in self._exact and not conforms(value, field.type):
            raise FieldError(
                f"{field.name} has a wrong type",
                pointer=f"/{field.name}",
                found=value,
                expected=type_name(field.type),
            )
        if self._check_bounds is not None:
            self._check_bounds(value, field.name)


def tupled(value: Any) -> Any:
    """Return lists as tuples, at every depth; anything else stays as it is."""
    if isinstance(value, list | tuple) and (type(value) is not tuple or _has_list(value)):
        return tuple(map(tupled, value))
    return value


def _has_list(value: tuple[Any, ...]) -> bool:
    return any(isinstance(item, list | tuple) for item in value)


def _exact_types(kind: Any) -> frozenset[type]:
    """Return the types whose values need no look inside."""
    options = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    plain = {o for o in options if isinstance(o, type) and get_origin(o) is None}
    return frozenset(plain | ({int} if float in plain else set()))


def conforms(value: Any, kind: Any) -> bool:
    """Return whether a value is of a type as annotations write it; bool is not int."""
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return any(conforms(value, option) for option in args)
    if origin is not None:
        return _fits_container(value, origin, args)
    if kind in (bool, int, str, NoneType):
        return type(value) is kind
    if kind is float:
        return type(value) in (float, int)
    # A name that has not been resolved yet says nothing.
    return isinstance(value, kind) if isinstance(kind, type) else True


def _fits_container(value: Any, origin: Any, args: tuple[Any, ...]) -> bool:
    if origin is Literal:
        return any(value == a and type(value) is type(a) for a in args)
    if not isinstance(value, origin):
        return False
    if origin is dict:
        return all(isinstance(k, str) and conforms(item, args[1]) for k, item in value.items())
    return all(conforms(item, args[0]) for item in value)


def type_name(kind: Any) -> str:
    """Return a type in words, for errors."""
    if isinstance(kind, type) and get_origin(kind) is None:
        if issubclass(kind, Enum):
            return "one of " + ", ".join(f"{kind.__name__}.{member.name}" for member in kind)
        return "None" if kind is NoneType else kind.__name__
    if get_origin(kind) in (Union, UnionType):
        return " or ".join(map(type_name, get_args(kind)))
    return str(kind)
