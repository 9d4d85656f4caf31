"""Check at construction that a field's value has the type its annotation says."""

from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import attrs

from qconfig.errors import FieldError, nearest

Check = Callable[[Any], bool]

_SEQUENCES = (list, tuple)
_EXACT = (bool, int, str, NoneType)


class FieldCheck:
    """The validator of a plain field: its type, then its bounds.

    Args:
        check_bounds: called with value and name where the field has bounds.
    """

    __slots__ = ("_check_bounds", "_conforms", "_kind")

    def __init__(self, check_bounds: Any) -> None:
        self._check_bounds = check_bounds
        self._kind: Any = NoneType
        self._conforms: Check = _is_none

    def __call__(self, instance: Any, field: "attrs.Attribute[Any]", value: Any) -> None:
        """Raise FieldError where the value has another type or breaks a bound."""
        if field.type is not self._kind:
            if isinstance(field.type, str):
                _resolve(type(instance))
            self._conforms, self._kind = type_check(field.type), field.type
        if not self._conforms(value):
            raise FieldError(
                f"{field.name} has a wrong type",
                pointer=f"/{field.name}",
                found=value,
                expected=_expected(field),
                hint=_near(field, value),
            )
        if self._check_bounds is not None:
            self._check_bounds(value, field.name)


def _expected(field: "attrs.Attribute[Any]") -> str:
    """Return what a field takes, in words: the names of choices where it takes names."""
    names = _choices(field)
    return "one of " + ", ".join(map(repr, names)) if names else type_name(field.type)


def _near(field: "attrs.Attribute[Any]", value: Any) -> str | None:
    """Return a hint that names the choice that a name is nearest to, or None."""
    return nearest(value.upper(), _choices(field)) if isinstance(value, str) else None


def _choices(field: "attrs.Attribute[Any]") -> list[str]:
    """Return the names that the field's converter turns into members of its enum."""
    kind: Any = field.type
    convert: Any = field.converter
    if convert is None or not isinstance(kind, type) or not issubclass(kind, Enum):
        return []
    extra = (None, field) if isinstance(convert, attrs.Converter) else ()
    return [str(member.value) for member in kind if convert(member.value, *extra) is member]


def _resolve(cls: type) -> None:
    """Turn annotations that are strings into types, in place.

    A name that does not exist is reported where a document of the class is read, see `check_class`.
    """
    with suppress(NameError):
        attrs.resolve_types(cls)


def _is_none(value: Any) -> bool:
    return value is None


def tupled(value: Any) -> Any:
    """Return lists as tuples, at every depth; anything else stays as it is."""
    if isinstance(value, _SEQUENCES) and (type(value) is not tuple or _has_sequence(value)):
        return tuple(map(tupled, value))
    return value


def _has_sequence(value: tuple[Any, ...]) -> bool:
    return any(isinstance(item, _SEQUENCES) for item in value)


def type_check(kind: Any) -> Check:
    """Return a test whether a value is of a type as annotations write it; bool is not int."""
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return _union_check(args)
    if origin is Literal:
        return lambda value: any(value == a and type(value) is type(a) for a in args)
    if origin is tuple:
        item = type_check(args[0])
        return lambda value: isinstance(value, tuple) and all(map(item, value))
    if origin is dict:
        item = type_check(args[1])
        return lambda value: (
            isinstance(value, dict) and all(map(_is_str, value)) and all(map(item, value.values()))
        )
    return _class_check(kind)


def _class_check(kind: Any) -> Check:
    if kind in _EXACT:
        return lambda value: type(value) is kind
    if kind is float:
        return lambda value: type(value) in (float, int)
    if isinstance(kind, type):
        return lambda value: isinstance(value, kind)
    return lambda _: True  # a name that has not been resolved yet says nothing


def _union_check(args: tuple[Any, ...]) -> Check:
    # A set of exact classes answers for nearly every value; subclasses and containers come second.
    exact = frozenset(arg for arg in args if isinstance(arg, type) and get_origin(arg) is None)
    checks = [type_check(arg) for arg in args]
    return lambda value: type(value) in exact or any(check(value) for check in checks)


def _is_str(value: Any) -> bool:
    return isinstance(value, str)


def type_name(kind: Any) -> str:
    """Return a type in words, for errors."""
    if isinstance(kind, type) and get_origin(kind) is None:
        if issubclass(kind, Enum):
            return "one of " + ", ".join(f"{kind.__name__}.{member.name}" for member in kind)
        return "None" if kind is NoneType else kind.__name__
    if get_origin(kind) in (Union, UnionType):
        return " or ".join(map(type_name, get_args(kind)))
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(map(repr, get_args(kind)))
    if get_origin(kind) is not None:
        inner = ", ".join("..." if arg is Ellipsis else type_name(arg) for arg in get_args(kind))
        return f"{get_origin(kind).__name__}[{inner}]"
    return str(kind)
