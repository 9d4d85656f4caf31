"""torchao's JSON form in: an envelope becomes a document of one of our versions.

Types come from the fields of our classes, so that a name in the data is only ever compared with
the few that its place allows. torchao itself looks it up in its modules, and calls what it finds.
"""

from collections.abc import Mapping
from typing import Any

from qconfig.checkpoints.writer import Writer
from qconfig.codec.collector import collector_paused
from qconfig.codec.converter import structure_any
from qconfig.dialects.torchao.envelopes import (
    has_type,
    object_in,
    payload_in,
    type_in,
    version_in,
)
from qconfig.dialects.torchao.field_kinds import kinds_of
from qconfig.dialects.torchao.field_notes import NOT_CARRIED, Read, field_notes
from qconfig.dialects.torchao.forms import (
    FIELD_ALIASES,
    FILLED,
    NULL_IS_DEFAULT,
    TORCHAO_VERSION,
    Written,
    entry_for,
    name_of,
)
from qconfig.dialects.torchao.fqn_maps import effective_map
from qconfig.dialects.torchao.notes import Note, ReadConfig
from qconfig.dialects.torchao.read_values import ValueReader
from qconfig.dialects.torchao.removed import refuse_removed
from qconfig.dialects.torchao.replaced import REPLACED
from qconfig.dialects.torchao.skipped import with_reach
from qconfig.dialects.torchao.trace import Trace
from qconfig.dialects.torchao.wrappers import Unwrapped, unwrap
from qconfig.errors import FieldError, QconfigError, json_pointer, raise_problems
from qconfig.versioning import Config


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
    with collector_paused():
        document = reader.config(found.data, "", found.pointer)
        config = _structured(document, reader, found)
    notes = [Note(found.placed(note.pointer), note.text) for note in reader.trace.notes]
    return ReadConfig(with_reach(config, found.reach), (*found.notes, *notes))


def _structured(document: Any, reader: "_Reader", found: Unwrapped) -> Config:
    problems: list[QconfigError] = reader.trace.problems
    if not problems:
        try:
            config: Config = structure_any(document)
        except QconfigError as error:
            problems = [reader.trace.relocated(problem) for problem in error.problems]
    for problem in problems:
        problem.pointer = found.placed(problem.pointer or "")
    raise_problems(problems)
    return config


class _Reader:
    """Translates one document; its trace says where each part came from."""

    def __init__(self, writer: Writer | None) -> None:
        self.trace = Trace()
        self._writer = writer
        self._values = ValueReader(self.trace, self.config)
        self._known: dict[str, tuple[Any, tuple[str, str]]] = {}

    def config(self, data: Any, ours: str, theirs: str) -> Any:
        """Translate a config; one that says what an earlier one said is the same object.

        Args:
            data: torchao's form.
            ours: its JSON pointer in the translated document.
            theirs: its JSON pointer in torchao's.
        """
        # A map has a config for each layer, and few different ones. In a repr the order of entries
        # counts, and 1 is neither True nor 1.0.
        said = repr(data) if ours else ""
        known = self._known.get(said)
        if known is not None:
            self.trace.put_repeat(ours, theirs, known[1])
            return known[0]
        before = len(self.trace.problems), len(self.trace.notes)
        document = self._translated(data, ours, theirs)
        if ours and before == (len(self.trace.problems), len(self.trace.notes)):
            self._known[said] = document, (ours, theirs)
        return document

    def _translated(self, data: Any, ours: str, theirs: str) -> Any:
        before = len(self.trace.problems)
        try:
            wire_name = type_in(data)
            if isinstance(wire_name, str):
                refuse_removed(wire_name)
                if wire_name in REPLACED:
                    return self._replaced(data, wire_name, ours, theirs)
            name = name_of(wire_name, object_in(data))
            payload = payload_in(data, name)
            version = version_in(data, payload)
            keys = FIELD_ALIASES.get(name, {})
            payload = self._noted(name, payload, f"{theirs}/_data")
            fields = {keys.get(key, key) for key in payload} - {"version"}
            types = {str(v["_type"]) for v in payload.values() if has_type(v)}
            written = Written(wire_name, version, frozenset(fields), frozenset(types))
            entry = entry_for(name, written, writer=self._writer)
        except QconfigError as error:
            self.trace.failed(error, theirs)
            return None
        head = {"type": entry.name, "version": entry.version}
        self.trace.put(ours, theirs)
        self.trace.put_envelope(ours, theirs)
        self.trace.put(f"{ours}/version", f"{theirs}/_version")
        if TORCHAO_VERSION in kinds_of(entry.cls) and version is not None:
            head[TORCHAO_VERSION] = version
        plain = {key: value for key, value in payload.items() if key != "version"}
        for key, text in field_notes(Read(entry, wire_name, version, plain)):
            place = f"{theirs}/_data{json_pointer(key)}" if key else theirs
            self.trace.note(place, text)
        defaults = NULL_IS_DEFAULT.get(name, frozenset())
        values = {
            key: value
            for key, value in payload.items()
            if key != "version" and not (value is None and key in defaults)
        }
        body = self._values.fields(entry.cls, values, ours, f"{theirs}/_data", keys)
        filled = FILLED.get((entry.name, entry.version), {})
        return {**filled, **body, **head} if len(self.trace.problems) == before else None

    def _replaced(self, data: Mapping[str, Any], wire_name: str, ours: str, theirs: str) -> Any:
        """Translate a config that another one of torchao's says as well."""
        payload = object_in(data)
        version = version_in(data, payload)
        if version is not None and (type(version) is not int or version != 1):
            raise FieldError(
                "unknown _version",
                pointer="/_version",
                found=version,
                expected=f"{wire_name} _version 1, the only one that torchao wrote",
            )
        found = REPLACED[wire_name]({k: v for k, v in payload.items() if k != "version"})
        for key, text in found.notes:
            place = f"{theirs}/_data{json_pointer(key)}" if key else theirs
            self.trace.note(place, text)
        return self.config(
            {"_type": found.type, "_version": found.version, "_data": found.data}, ours, theirs
        )

    def _noted(self, name: str, payload: dict[str, Any], theirs: str) -> dict[str, Any]:
        """Return the fields that are carried, with maps as they had effect; note the others."""
        rest = dict(payload)
        for key, text in NOT_CARRIED.get(name, {}).items():
            if rest.get(key) is not None:
                self.trace.note(theirs + json_pointer(key), text)
                rest[key] = None
        if name == "FqnToConfig":
            for key, entries in payload.items():
                if isinstance(entries, Mapping):
                    rest[key], notes = effective_map(entries, self._writer)
                    for at, text in notes:
                        place = json_pointer(key, at) if at else json_pointer(key)
                        self.trace.note(theirs + place, text)
        return rest
