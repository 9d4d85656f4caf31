"""Hooks for values that are not objects of a registered class: nothing is coerced.

A hook takes plain data and the type it is for, and returns the value or raises a QconfigError whose
JSON pointers start at that value.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from itertools import islice
from math import isfinite
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from cattrs import Converter

from qconfig.errors import (
    MOST_PROBLEMS,
    DocumentErrors,
    FieldError,
    QconfigError,
    UnknownNameError,
    json_pointer,
    nearest,
)
from qconfig.versioning import registry

Hook = Callable[[Any, Any], Any]

_NAMES = {bool: "true or false", int: "an integer", str: "a string", NoneType: "null"}


def mistyped(expected: str, found: object) -> FieldError:
    """Return the error for a value of a wrong JSON type."""
    return FieldError("wrong type", found=found, expected=expected)


def primitive_hook(kind: type) -> Hook:
    """Return the hook of bool, int, str or None: exactly that type."""

    def structure(data: Any, _: Any) -> Any:
        if type(data) is not kind:
            raise mistyped(_NAMES[kind], data)
        return data

    return structure


def structure_float(data: Any, _: Any) -> float:
    """Return a finite float from a float or an int. Raises FieldError."""
    if type(data) not in (float, int):
        raise mistyped("a number", data)
    try:
        number = float(data)
    except OverflowError:
        raise mistyped("a number that a double can hold", data) from None
    if not isfinite(number):
        raise mistyped("a finite number", data)
    return number


def is_enum(kind: Any) -> bool:
    """Return whether a type is an enum."""
    return isinstance(kind, type) and issubclass(kind, Enum)


def enum_hook(kind: Any) -> Hook:
    """Return the hook of an enum: documents hold the members' values."""
    members = {member.value: member for member in kind}

    def structure(data: Any, _: Any) -> Any:
        if isinstance(data, str) and data in members:
            return members[data]
        raise UnknownNameError(
            f"unknown {kind.__name__}",
            found=data,
            expected="one of " + ", ".join(map(repr, members)),
            hint=nearest(data, members),
        )

    return structure


def is_literal(kind: Any) -> bool:
    """Return whether a type is a Literal."""
    return get_origin(kind) is Literal


def literal_hook(kind: Any) -> Hook:
    """Return the hook of a Literal: one of its values, of the same type."""
    allowed = get_args(kind)

    def structure(data: Any, _: Any) -> Any:
        if any(data == a and type(data) is type(a) for a in allowed):
            return data
        raise FieldError(
            "value is not allowed", found=data, expected="one of " + ", ".join(map(repr, allowed))
        )

    return structure


def is_tuple(kind: Any) -> bool:
    """Return whether a type is tuple[...]."""
    return get_origin(kind) is tuple


def tuple_hook(converter: Converter, kind: Any) -> Hook:
    """Return the hook of tuple[X, ...]: an array."""
    args = get_args(kind)
    if len(args) != 2 or args[1] is not Ellipsis:
        raise TypeError(f"{kind}: fields are tuple[X, ...]")
    item = args[0]
    hook = converter.get_structure_hook(item)

    def structure(data: Any, _: Any) -> Any:
        if type(data) is not list:
            raise mistyped("an array", data)
        # Items are structured once even where one is wrong: to do it again at each level would
        # take time that is exponential in the depth.
        items: list[Any] = []
        problems: list[QconfigError] = []
        for i, value in enumerate(data):
            items.append(collect(problems, f"/{i}", hook, value, item))
            if len(problems) >= MOST_PROBLEMS:
                break
        if problems:
            raise together(problems)
        return tuple(items)

    return structure


def is_mapping(kind: Any) -> bool:
    """Return whether a type is dict[...]."""
    return get_origin(kind) is dict


def mapping_hook(converter: Converter, kind: Any) -> Hook:
    """Return the hook of dict[str, X]: an object."""
    item = get_args(kind)[1]
    hook = converter.get_structure_hook(item)

    def structure(data: Any, _: Any) -> Any:
        if not isinstance(data, Mapping):
            raise mistyped("an object", data)
        problems: list[QconfigError] = [
            FieldError("a key is not a string", found=key, expected="quoted keys")
            for key in islice((k for k in data if type(k) is not str), MOST_PROBLEMS)
        ]
        result = {}
        # Translated documents have one object in many places; parsed ones never do.
        known: dict[int, Any] = {}
        for key, value in data.items():
            if id(value) in known:
                result[key] = known[id(value)]
                continue
            before = len(problems)
            result[key] = collect(problems, json_pointer(key), hook, value, item)
            if len(problems) >= MOST_PROBLEMS:
                break
            if len(problems) == before and type(value) is dict:
                known[id(value)] = result[key]
        if problems:
            raise together(problems)
        return result

    return structure


def is_union(kind: Any) -> bool:
    """Return whether a type is a union."""
    return get_origin(kind) in (Union, UnionType)


def union_hook(converter: Converter, kind: Any) -> Hook:
    """Return the hook of X | None, or of a union of values that documents tell apart by type."""
    args = get_args(kind)
    optional = NoneType in args
    options = [a for a in args if a is not NoneType]
    if len(options) == 1:
        only = options[0]
        inner = converter.get_structure_hook(only)
    else:
        only, inner = kind, _tagged_hook(converter, options)

    def structure(data: Any, _: Any) -> Any:
        if data is None and optional:
            return None
        return inner(data, only)

    return structure


def _tagged_hook(converter: Converter, options: list[Any]) -> Hook:
    """Choose among value classes by their `type`."""
    by_name = {registry.entry_of(cls).name: cls for cls in options}

    def structure(data: Any, _: Any) -> Any:
        name = data.get("type") if isinstance(data, Mapping) else None
        if not isinstance(name, str) or name not in by_name:
            is_object = isinstance(data, Mapping)
            raise UnknownNameError(
                "unknown or missing type" if is_object else "wrong type",
                pointer="/type" if is_object else None,
                found=name if is_object else data,
                expected="an object with type " + " or ".join(map(repr, by_name)),
                hint=nearest(name, by_name),
            )
        cls = by_name[name]
        return converter.get_structure_hook(cls)(data, cls)

    return structure


def collect(problems: list[QconfigError], pointer: str, hook: Hook, data: Any, kind: Any) -> Any:
    """Return what the hook makes of `data`; put what is wrong into `problems` and return None."""
    try:
        return hook(data, kind)
    except QconfigError as error:
        problems += [p.at(pointer_prefix=pointer) for p in error.problems]
        return None


def together(problems: list[QconfigError]) -> QconfigError:
    """Return one error for one problem, or one that holds them all."""
    return problems[0] if len(problems) == 1 else DocumentErrors(problems)
