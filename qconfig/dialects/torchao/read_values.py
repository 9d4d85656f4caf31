"""Fields of torchao's configs as values of our documents."""

from collections.abc import Callable, Mapping
from enum import Enum
from types import NoneType
from typing import Any, get_args, get_origin

from attrs import frozen

from qconfig.codec.dtypes import DType
from qconfig.dialects.torchao.envelopes import object_in, type_in
from qconfig.dialects.torchao.field_kinds import (
    kinds_of,
    member_of,
    options_of,
    pair_item,
    plain_text,
    wire_name,
)
from qconfig.dialects.torchao.trace import Trace
from qconfig.errors import FieldError, QconfigError, UnknownNameError, json_pointer, nearest
from qconfig.versioning import Config


@frozen
class ValueReader:
    """Translates values by the types that fields of our classes have.

    Args:
        trace: remembers where values came from, and takes problems.
        config: translates a config that is the value of a field: its envelope, and its JSON
            pointers in our document and in torchao's.
    """

    trace: Trace
    config: Callable[[Any, str, str], Any]

    def fields(
        self,
        cls: type,
        payload: Mapping[str, Any],
        ours: str,
        theirs: str,
        aliases: Mapping[str, str],
    ) -> dict[str, Any]:
        """Return the fields of an object.

        Args:
            cls: our class.
            payload: torchao's fields.
            ours: JSON pointer of the object in our document.
            theirs: that of its fields in torchao's.
            aliases: today's names of fields by earlier ones.
        """
        kinds = kinds_of(cls)
        translated = {}
        for key, value in payload.items():
            name = aliases.get(key, key)
            # An unknown field goes through as it is: the codec reports it, with the known ones.
            translated[name] = self._value(
                value, kinds.get(name, Any), ours + json_pointer(name), theirs + json_pointer(key)
            )
        return translated

    def _value(self, value: Any, kind: Any, ours: str, theirs: str) -> Any:
        self.trace.put(ours, theirs)
        options = [o for o in options_of(kind) if o is not NoneType]
        if isinstance(value, list):
            item = next((get_args(o)[0] for o in options if get_origin(o) is tuple), Any)
            return [
                self._value(v, item, f"{ours}/{i}", f"{theirs}/{i}") for i, v in enumerate(value)
            ]
        if isinstance(value, Mapping) and kind is not Any:
            item = pair_item(options)
            if item is not None:  # one granularity stands for both
                one = self._value(value, item, f"{ours}/0", theirs)
                self.trace.put(f"{ours}/1", theirs)
                return [one, one]
            return self._object(value, options, ours, theirs)
        if isinstance(value, str):
            return plain_text(value, options)
        return value

    def _object(self, value: Mapping[str, Any], options: list[Any], ours: str, theirs: str) -> Any:
        if Config in options:
            return self.config(value, ours, theirs)
        item = next((get_args(o)[1] for o in options if get_origin(o) is dict), None)
        if item is not None:
            return {
                k: self._value(v, item, ours + json_pointer(k), theirs + json_pointer(k))
                for k, v in value.items()
            }
        try:
            return self._tagged(value, options, ours, theirs)
        except QconfigError as error:
            self.trace.failed(error, theirs)
            return None

    def _tagged(self, value: Mapping[str, Any], options: list[Any], ours: str, theirs: str) -> Any:
        """Translate an enum member, a dtype or a value class, all of which name their type."""
        names = {wire_name(option): option for option in options if isinstance(option, type)}
        name = type_in(value)
        kind = names.get(name) if isinstance(name, str) else None
        if kind is None:
            raise UnknownNameError(
                "unknown type",
                pointer="/_type",
                found=name,
                expected=" or ".join(names) or "a plain value",
                hint=nearest(str(name), names),
            )
        if value.get("_version", 1) != 1 or isinstance(value.get("_version"), bool):
            raise FieldError(
                "unknown _version", pointer="/_version", found=value["_version"], expected="1"
            )
        self.trace.put_envelope(ours, theirs)
        if issubclass(kind, Enum):
            payload = value.get("_data")
            if isinstance(payload, str) and kind is not DType:
                payload = member_of(kind, payload)
            members = {m.value if kind is DType else m.name: m.value for m in kind}
            if not isinstance(payload, str) or payload not in members:
                raise UnknownNameError(
                    f"unknown {name}",
                    pointer="/_data",
                    found=payload,
                    expected="one of " + ", ".join(members),
                    hint=nearest(str(payload), members),
                )
            return members[payload]
        return {"type": name} | self.fields(kind, object_in(value), ours, f"{theirs}/_data", {})
