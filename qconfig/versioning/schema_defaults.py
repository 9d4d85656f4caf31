"""Defaults of fields as JSON data, for schemas."""

from collections.abc import Mapping
from enum import Enum
from typing import Any

import attrs

from qconfig.errors import RegistrationError
from qconfig.versioning.registry import registry


def plain_default(attribute: "attrs.Attribute[Any]") -> Any:
    """Return the default of an optional field as documents write it.

    Raises:
        RegistrationError: the default has no place in a document.
    """
    default: Any = attribute.default
    if getattr(default, "takes_self", False):
        raise RegistrationError("a default cannot depend on other fields")
    return _plain(getattr(default, "factory", lambda: default)())


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple | list):
        return [_plain(v) for v in value]
    if isinstance(value, Mapping):
        return {k: _plain(v) for k, v in value.items()}
    if registry.has(type(value)):
        entry = registry.entry_of(type(value))
        names = [f.name for f in attrs.fields(entry.cls)]
        return entry.tags | {name: _plain(getattr(value, name)) for name in names}
    raise RegistrationError("a default has no place in a document", found=value)
