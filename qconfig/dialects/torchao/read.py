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

from qconfig.checkpoints.writer import Writer
from qconfig.codec.converter import structure_any
from qconfig.codec.dtypes import DType
from qconfig.codec.strict_json import dumps_compact
from qconfig.dialects.torchao.field_notes import NOT_CARRIED, Read, field_notes
from qconfig.dialects.torchao.forms import (
    DTYPE,
    FIELD_ALIASES,
    FILLED,
    MEMBER_ALIASES,
    NULL_IS_DEFAULT,
    TORCHAO_VERSION,
    Written,
    entry_for,
    name_of,
)
from qconfig.dialects.torchao.fqn_maps import effective_map
from qconfig.dialects.torchao.notes import Note, ReadConfig
from qconfig.dialects.torchao.removed import refuse_removed
from qconfig.dialects.torchao.replaced import REPLACED
from qconfig.dialects.torchao.skipped import with_reach
from qconfig.dialects.torchao.wrappers import Unwrapped, unwrap
from qconfig.errors import (
    DocumentError,
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
    """Return the config of a document that torchao wrote; see `read_document`, which has notes."""
    return read_document(data).config


def read_document(data: Any, *, writer: Writer | None = None) -> ReadConfig:
    """Return the config of a document that torchao wrote, in our current version, with notes.

    Args:
        data: `{"_type", "_version", "_data"}`, or a `quantization_config` around it, or the name of
            a function in its place. A missing `_version` is inferred from the keys, a missing
            `_data` is empty.
        writer: the release that wrote it, where that is known: some documents meant other things in
            other releases.

    Raises:
        UnknownNameError: a type, enum member or dtype that is not known at its place.
        NewerVersionError: a `_version` that this release does not know yet.
        MigrationError: torchao's config says what no config here says.
        FieldError, UnknownFieldError, DocumentErrors: what else is wrong. Pointers lead into
            `data`.
        RuleError: an entry of modules_to_not_convert cannot be a pattern.
    """
    found = unwrap(data)
    reader = _Reader(writer)
    document = reader.config(found.data, "", found.pointer)
    config = _structured(document, reader, found)
    notes = [Note(found.placed(note.pointer), note.text) for note in reader.notes]
    return ReadConfig(with_reach(config, found.reach), (*found.notes, *notes))


def _structured(document: Any, reader: "_Reader", found: Unwrapped) -> Config:
    problems: list[QconfigError] = reader.problems
    if not problems:
        try:
            config: Config = structure_any(document)
        except QconfigError as error:
            problems = [reader.relocated(problem) for problem in error.problems]
        else:
            return config
    for problem in problems:
        problem.pointer = found.placed(problem.pointer or "")
    raise_problems(problems)
    raise DocumentError("not a torchao config")


class _Reader:
    """Translates one document and remembers where each part came from."""

    def __init__(self, writer: Writer | None) -> None:
        self.problems: list[QconfigError] = []
        self.notes: list[Note] = []
        self._writer = writer
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
            if isinstance(wire_name, str):
                refuse_removed(wire_name)
                if wire_name in REPLACED:
                    return self._replaced(data, wire_name, ours, theirs)
            name = name_of(wire_name, _object_in(data))
            payload = self._payload(data, name)
            version = _version(data, payload)
            keys = FIELD_ALIASES.get(name, {})
            payload = self._noted(name, payload, f"{theirs}/_data")
            fields = {keys.get(key, key) for key in payload} - {"version"}
            types = {str(v["_type"]) for v in payload.values() if _has_type(v)}
            written = Written(wire_name, version, frozenset(fields), frozenset(types))
            entry = entry_for(name, written, writer=self._writer)
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
        plain = {key: value for key, value in payload.items() if key != "version"}
        for key, text in field_notes(Read(entry, wire_name, version, plain)):
            place = f"{theirs}/_data{json_pointer(key)}" if key else theirs
            self.notes.append(Note(place, text))
        defaults = NULL_IS_DEFAULT.get(name, frozenset())
        values = {
            key: value
            for key, value in payload.items()
            if key != "version" and not (value is None and key in defaults)
        }
        body = self._fields(entry.cls, values, ours, f"{theirs}/_data", keys)
        filled = FILLED.get((entry.name, entry.version), {})
        return {**filled, **body, **head} if len(self.problems) == before else None

    def _replaced(self, data: Mapping[str, Any], wire_name: str, ours: str, theirs: str) -> Any:
        """Translate a config that another one of torchao's says as well."""
        payload = _object_in(data)
        found = REPLACED[wire_name]({k: v for k, v in payload.items() if k != "version"})
        for key, text in found.notes:
            place = f"{theirs}/_data{json_pointer(key)}" if key else theirs
            self.notes.append(Note(place, text))
        return self.config(
            {"_type": found.type, "_version": found.version, "_data": found.data}, ours, theirs
        )

    def _noted(self, name: str, payload: dict[str, Any], theirs: str) -> dict[str, Any]:
        """Return the fields that are carried, with maps as they had effect; note the others."""
        rest = dict(payload)
        for key, text in NOT_CARRIED.get(name, {}).items():
            if rest.get(key) is not None:
                self.notes.append(Note(theirs + json_pointer(key), text))
                rest[key] = None
        if name == "FqnToConfig":
            for key, entries in payload.items():
                if isinstance(entries, Mapping):
                    rest[key], notes = effective_map(entries, self._writer)
                    self.notes += [
                        Note(theirs + (json_pointer(key, at) if at else json_pointer(key)), text)
                        for at, text in notes
                    ]
        return rest

    def _type(self, data: Any) -> Any:
        if not isinstance(data, Mapping) or "_type" not in data:
            is_named = isinstance(data, Mapping) and isinstance(data.get("name"), str)
            raise FieldError(
                "not a torchao config",
                found=data,
                expected=_CONFIG_FORM,
                hint="the key of the class is _type, not name" if is_named else None,
            )
        for key in data:
            if key not in {"_type", "_version", "_data"}:
                raise UnknownFieldError(
                    "unknown field",
                    pointer=json_pointer(key),
                    found=key,
                    expected=_CONFIG_FORM,
                    hint="fields of the config stand in _data" if "_data" not in data else None,
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
            if isinstance(payload, str) and kind is not DType:
                payload = _member_of(kind, payload)
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
    # torchao's enums of strings have the lower-case names as values, and take them for members.
    for kind in (o for o in options if isinstance(o, type) and issubclass(o, Enum)):
        if value.islower() and _member_of(kind, value.upper()) in kind.__members__:
            return str(kind[_member_of(kind, value.upper())].value)
    return value


def _member_of(kind: type[Enum], name: str) -> str:
    """Return today's name of a member, unless the enum still has the one that was written."""
    aliases = {} if name in kind.__members__ else MEMBER_ALIASES.get(kind.__name__, {})
    return aliases.get(name, name)


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
