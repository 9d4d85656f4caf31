"""torchao's JSON form in: an envelope becomes a document of one of our versions.

Types come from the fields of our classes, so that a name in the data is only ever compared with
the few that its place allows. torchao itself looks it up in its modules, and calls what it finds.
"""

import re
from collections.abc import Mapping
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

import attrs

from qconfig.codec.converter import structure_any
from qconfig.codec.dtypes import DType
from qconfig.codec.strict_json import dumps_compact
from qconfig.dialects.torchao.forms import (
    DTYPE,
    FIELD_ALIASES,
    NULL_IS_DEFAULT,
    TORCHAO_VERSION,
    Written,
    entry_for,
    name_of,
)
from qconfig.dialects.torchao.wrappers import unwrap
from qconfig.errors import (
    FieldError,
    QconfigError,
    UnknownFieldError,
    UnknownNameError,
    json_pointer,
    nearest,
    raise_problems,
)
from qconfig.versioning import Config, registry

_VERSION_SUFFIX = re.compile(r"V\d+$")
_CONFIG_FORM = '{"_type": …, "_version": …, "_data": {…}}'


def from_envelope(data: Any) -> Config:
    """Return the config of a document that torchao wrote, in our current version.

    Args:
        data: `{"_type", "_version", "_data"}`, or a `quantization_config` around it. A missing
            `_version` is inferred from the keys, a missing `_data` is empty.

    Raises:
        UnknownNameError: a type, enum member or dtype that is not known at its place.
        NewerVersionError: a `_version` that this release does not know yet.
        FieldError, UnknownFieldError, DocumentErrors: what else is wrong. Pointers lead into
            `data`.
    """
    found = unwrap(data)
    reader = _Reader()
    document = reader.config(found.data, "", found.pointer)
    raise_problems(reader.problems)
    try:
        config: Config = structure_any(document)
    except QconfigError as error:
        raise_problems([reader.relocated(problem) for problem in error.problems])
        raise
    return config


class _Reader:
    """Translates one document and remembers where each part came from."""

    def __init__(self) -> None:
        self.problems: list[QconfigError] = []
        self._places: dict[str, str] = {}
        self._envelopes: set[str] = set()

    def relocated(self, problem: QconfigError) -> QconfigError:
        """Point a problem of the translated document at torchao's."""
        pointer = problem.pointer or ""
        known = pointer
        while known and known not in self._places:
            known = known.rpartition("/")[0]
        rest = pointer[len(known) :]
        inside = "/_data" if rest and known in self._envelopes else ""
        problem.pointer = self._places.get(known, "") + inside + rest
        return problem

    def config(self, data: Any, ours: str, theirs: str) -> Any:
        """Translate a config.

        Args:
            data: torchao's form.
            ours: its JSON pointer in the translated document.
            theirs: its JSON pointer in torchao's.
        """
        before = len(self.problems)
        try:
            wire_name = self._type(data)
            name = name_of(wire_name)
            payload = self._payload(data, name)
            version = _version(data, payload)
            keys = FIELD_ALIASES.get(name, {})
            fields = {keys.get(key, key) for key in payload} - {"version"}
            types = {str(v["_type"]) for v in payload.values() if _has_type(v)}
            entry = entry_for(
                name, Written(wire_name, version, frozenset(fields), frozenset(types))
            )
        except QconfigError as error:
            self.problems += [p.at(pointer_prefix=theirs) for p in error.problems]
            return None
        head = {"type": entry.name, "version": entry.version}
        self._envelopes.add(ours)
        self._places |= {
            ours: theirs,
            f"{ours}/type": f"{theirs}/_type",
            f"{ours}/version": f"{theirs}/_version",
        }
        if TORCHAO_VERSION in _kinds(entry.cls) and version is not None:
            head[TORCHAO_VERSION] = version
        defaults = NULL_IS_DEFAULT.get(name, frozenset())
        values = {
            key: value
            for key, value in payload.items()
            if key != "version" and not (value is None and key in defaults)
        }
        body = self._fields(entry.cls, values, ours, f"{theirs}/_data", keys)
        return body | head if len(self.problems) == before else None

    def _type(self, data: Any) -> Any:
        if not isinstance(data, Mapping) or "_type" not in data:
            raise FieldError("not a torchao config", found=data, expected=_CONFIG_FORM)
        for key in data:
            if key not in {"_type", "_version", "_data"}:
                raise UnknownFieldError(
                    "unknown field", pointer=json_pointer(key), found=key, expected=_CONFIG_FORM
                )
        return data["_type"]

    def _payload(self, data: Mapping[str, Any], name: str) -> dict[str, Any]:
        fields = dict(_object_in(data))
        for old, new in FIELD_ALIASES.get(name, {}).items():
            if old not in fields or new not in fields:
                continue
            first, second = fields[old], fields[new]
            # Compared as texts, in which the order of entries counts.
            if first and second and dumps_compact(first) != dumps_compact(second):
                raise FieldError(
                    f"{old} and {new} differ",
                    pointer=f"/_data/{old}",
                    expected="one of them, or the same entries in the same order",
                    hint=f"delete {old}",
                )
            del fields[new if first and not second else old]
        return fields

    def _fields(
        self,
        cls: type,
        payload: Mapping[str, Any],
        ours: str,
        theirs: str,
        aliases: Mapping[str, str],
    ) -> dict[str, Any]:
        kinds = _kinds(cls)
        translated = {}
        for key, value in payload.items():
            name = aliases.get(key, key)
            # An unknown field goes through as it is: the codec reports it, with the known ones.
            translated[name] = self._value(
                value, kinds.get(name, Any), ours + json_pointer(name), theirs + json_pointer(key)
            )
        return translated

    def _value(self, value: Any, kind: Any, ours: str, theirs: str) -> Any:
        self._places[ours] = theirs
        options = [o for o in _options(kind) if o is not NoneType]
        if isinstance(value, list):
            item = next((get_args(o)[0] for o in options if get_origin(o) is tuple), Any)
            return [
                self._value(v, item, f"{ours}/{i}", f"{theirs}/{i}") for i, v in enumerate(value)
            ]
        if isinstance(value, Mapping) and kind is not Any:
            item = _pair_item(options)
            if item is not None:  # one granularity stands for both
                one = self._value(value, item, f"{ours}/0", theirs)
                self._places[f"{ours}/1"] = theirs
                return [one, one]
            return self._object(value, options, ours, theirs)
        if isinstance(value, str):
            return _plain_text(value, options)
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
            self.problems += [p.at(pointer_prefix=theirs) for p in error.problems]
            return None

    def _tagged(self, value: Mapping[str, Any], options: list[Any], ours: str, theirs: str) -> Any:
        """Translate an enum member, a dtype or a value class, all of which name their type."""
        names = {_wire_name(option): option for option in options if isinstance(option, type)}
        name = self._type(value)
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
        self._envelopes.add(ours)
        self._places[f"{ours}/type"] = f"{theirs}/_type"
        if issubclass(kind, Enum):
            payload = value.get("_data")
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
        return {"type": name} | self._fields(kind, _object_in(value), ours, f"{theirs}/_data", {})


def _has_type(value: Any) -> bool:
    return isinstance(value, Mapping) and "_type" in value


def _pair_item(options: list[Any]) -> Any:
    """Return what the entries of a pair may be, where no object but a pair has a place; or None."""
    return next((get_args(o)[0] for o in options if get_origin(o) is tuple), None)


def _plain_text(value: str, options: list[Any]) -> str:
    """Return a string as our documents have it: dtypes without torch., enum members in capitals."""
    if DType in options:
        return value.removeprefix("torch.")
    enums = [o for o in options if isinstance(o, type) and issubclass(o, Enum)]
    # torchao's enums of strings have the lower-case names as values, and take them for members.
    members = {member.lower() for kind in enums for member in kind.__members__}
    return value.upper() if value in members else value


def _object_in(envelope: Mapping[str, Any]) -> Mapping[str, Any]:
    payload = envelope.get("_data", {})
    if not isinstance(payload, Mapping):
        raise FieldError(
            "_data is not an object", pointer="/_data", found=payload, expected="an object"
        )
    return payload


def _version(data: Mapping[str, Any], payload: Mapping[str, Any]) -> Any:
    """Return torchao's version, which some files have among the fields; None if there is none.

    Raises:
        FieldError: it is null, or there are two.
    """
    places = (("/_version", data, "_version"), ("/_data/version", payload, "version"))
    found = [(pointer, holder[key]) for pointer, holder, key in places if key in holder]
    for pointer, version in found:
        if version is None:
            raise FieldError("_version is null", pointer=pointer, expected="an integer, or no key")
        if type(version) is not type(found[0][1]) or version != found[0][1]:
            raise FieldError("two versions", pointer=pointer, found=version)
    return found[0][1] if found else None


@cache
def _kinds(cls: type) -> dict[str, Any]:
    return {f.name: f.type for f in attrs.fields(attrs.resolve_types(cls))}


@cache
def _options(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


@cache
def _wire_name(kind: type) -> str:
    if kind is DType:
        return DTYPE
    # The name of a retired enum ends with a version, which is ours.
    plain = _VERSION_SUFFIX.sub("", kind.__name__)
    return registry.entry_of(kind).name if registry.has(kind) else plain
