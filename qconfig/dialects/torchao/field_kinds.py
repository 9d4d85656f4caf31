"""Types of fields of our classes, and the names that torchao has for them."""

import re
from enum import Enum
from functools import cache
from types import UnionType
from typing import Any, Union, get_args, get_origin

import attrs

from qconfig.codec.dtypes import DType
from qconfig.dialects.torchao.forms import DTYPE, MEMBER_ALIASES
from qconfig.versioning import registry

_VERSION_SUFFIX = re.compile(r"V\d+$")


@cache
def kinds_of(cls: type) -> dict[str, Any]:
    """Return the type of each field of a class."""
    return {f.name: f.type for f in attrs.fields(attrs.resolve_types(cls))}


@cache
def options_of(kind: Any) -> tuple[Any, ...]:
    """Return the types of a union; of any other type, itself."""
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def pair_item(options: list[Any]) -> Any:
    """Return what the entries of a pair may be, where no object but a pair has a place; or None."""
    return next((get_args(o)[0] for o in options if get_origin(o) is tuple), None)


@cache
def wire_name(kind: type) -> str:
    """Return the `_type` of an enum, a dtype or a value class."""
    if kind is DType:
        return DTYPE
    # The name of a retired enum ends with a version, which is ours.
    plain = _VERSION_SUFFIX.sub("", kind.__name__)
    return registry.entry_of(kind).name if registry.has(kind) else plain


def plain_text(value: str, options: list[Any]) -> str:
    """Return a string as our documents have it: dtypes without torch., enum members in capitals."""
    if DType in options:
        return value.removeprefix("torch.")
    # torchao's enums of strings have the lower-case names as values, and take them for members.
    for kind in (o for o in options if isinstance(o, type) and issubclass(o, Enum)):
        if value.islower() and member_of(kind, value.upper()) in kind.__members__:
            return str(kind[member_of(kind, value.upper())].value)
    return value


def member_of(kind: type[Enum], name: str) -> str:
    """Return today's name of a member, unless the enum still has the one that was written."""
    aliases = {} if name in kind.__members__ else MEMBER_ALIASES.get(kind.__name__, {})
    return aliases.get(name, name)
