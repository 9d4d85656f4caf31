"""torchao's envelopes, `{"_type", "_version", "_data"}`: their parts, each checked on the way."""

from collections.abc import Mapping
from typing import Any

from qconfig.dialects.torchao.forms import FIELD_ALIASES
from qconfig.errors import FieldError, UnknownFieldError, json_pointer

CONFIG_FORM = '{"_type": …, "_version": …, "_data": {…}}'
"""What an envelope looks like, for errors."""


def has_type(value: Any) -> bool:
    """Return whether a value is an object that names a type."""
    return isinstance(value, Mapping) and "_type" in value


def type_in(data: Any) -> Any:
    """Return the `_type` of an envelope, whatever it is.

    Raises:
        FieldError: no envelope.
        UnknownFieldError: a key that envelopes do not have.
    """
    if not has_type(data):
        is_named = isinstance(data, Mapping) and isinstance(data.get("name"), str)
        raise FieldError(
            "not a torchao config",
            found=data,
            expected=CONFIG_FORM,
            hint="the key of the class is _type, not name" if is_named else None,
        )
    for key in data:
        if key not in {"_type", "_version", "_data"}:
            raise UnknownFieldError(
                "unknown field",
                pointer=json_pointer(key),
                found=key,
                expected=CONFIG_FORM,
                hint="fields of the config stand in _data" if "_data" not in data else None,
            )
    return data["_type"]


def object_in(envelope: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the `_data` of an envelope; a missing one is empty.

    Raises:
        FieldError: it is no object.
    """
    payload = envelope.get("_data", {})
    if not isinstance(payload, Mapping):
        raise FieldError(
            "_data is not an object", pointer="/_data", found=payload, expected="an object"
        )
    return payload


def payload_in(envelope: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the fields of a config's envelope, with one of two names that stand for one field.

    Args:
        envelope: the envelope.
        name: the registered name of the config.

    Raises:
        FieldError: `_data` is no object, or two names of a field have different values.
    """
    fields = dict(object_in(envelope))
    for old, new in FIELD_ALIASES.get(name, {}).items():
        if old not in fields or new not in fields:
            continue
        first, second = fields[old], fields[new]
        # Compared as texts, in which the order of entries counts, and 1 is neither True nor 1.0.
        if first and second and repr(first) != repr(second):
            raise FieldError(
                f"{old} and {new} differ",
                pointer=f"/_data/{old}",
                expected="one of them, or the same entries in the same order",
                hint=f"delete {old}",
            )
        del fields[new if first and not second else old]
    return fields


def version_in(envelope: Mapping[str, Any], payload: Mapping[str, Any]) -> Any:
    """Return torchao's version, which some files have among the fields; None if there is none.

    Raises:
        FieldError: it is null, or there are two.
    """
    places = (("/_version", envelope, "_version"), ("/_data/version", payload, "version"))
    found = [(pointer, holder[key]) for pointer, holder, key in places if key in holder]
    for pointer, version in found:
        if version is None:
            raise FieldError("_version is null", pointer=pointer, expected="an integer, or no key")
        if type(version) is not type(found[0][1]) or version != found[0][1]:
            raise FieldError("two versions", pointer=pointer, found=version)
    return found[0][1] if found else None
