"""JSON Schemas (draft 2020-12) of registered classes.

What a schema says, the class demands too. The class demands more in two places: relations between
fields (a rule's `use` names an entry of `configs`), and integers, because JSON Schema takes 1.0
for an integer and qconfig does not.
"""

import json
from collections.abc import Iterable

from qconfig.versioning.entries import Entry, Kind
from qconfig.versioning.registry import registry
from qconfig.versioning.schema_types import Schema, SchemaTypes, case

DIALECT = "https://json-schema.org/draft/2020-12/schema"
COMBINED_PATH = "qconfig.json"

# The schema of one version must not change when another config is registered, so that a nested
# config is open here; the combined schema looks inside.
_ANY_CONFIG: Schema = {
    "type": "object",
    "properties": {
        "type": {"type": "string", "description": "Registered name."},
        "version": {"type": "integer", "minimum": 1, "description": "Version of the type."},
    },
    "required": ["type", "version"],
}
_NESTED_CONFIG: Schema = {"$ref": "#/$defs/Config", "properties": {"$schema": False}}


def schema_of(entry: Entry) -> Schema:
    """Return the schema of one version of a config or layout, complete in itself.

    A field that holds any config takes any object with a `type` and a `version`: the schemas of
    those types say what else it may hold, and `combined_schema` puts them together.

    Raises:
        RegistrationError: a field has a type that documents cannot hold.
    """
    types = SchemaTypes(_ANY_CONFIG)
    body = types.object(entry)
    folder = entry.schema_path.partition("/")[0]
    head = {
        "$schema": DIALECT,
        "$id": f"urn:qconfig:schema:{folder}:v{entry.version}",
        "title": _title(entry),
    }
    definitions = {"$defs": dict(sorted(types.definitions.items()))} if types.definitions else {}
    return head | body | definitions


def combined_schema() -> Schema:
    """Return the schema of every config in every version, for editors: `schemas/qconfig.json`.

    Raises:
        RegistrationError: a field has a type that documents cannot hold.
    """
    types = SchemaTypes(_NESTED_CONFIG)
    entries = list(registry.entries(Kind.CONFIG))
    cases, bodies = [], {}
    for entry in entries:
        definition = f"{entry.name}.v{entry.version}"
        bodies[definition] = {"title": _title(entry)} | types.object(entry)
        tags = {"type": entry.name, "version": entry.version}
        cases.append(case(tags, {"$ref": f"#/$defs/{definition}"}))
    names = list(dict.fromkeys(entry.name for entry in entries))
    for name in names:
        known = {"enum": [entry.version for entry in registry.versions(name)]}
        cases.append(case({"type": name}, {"properties": {"version": known}}))
    dispatch = {
        "description": "Any registered config.",
        "type": "object",
        "properties": {
            "type": {"enum": names, "description": "Registered name."},
            "version": {"type": "integer", "minimum": 1, "description": "Version of the type."},
        },
        "required": ["type", "version"],
        "allOf": cases,
    }
    return {
        "$schema": DIALECT,
        "$id": "urn:qconfig:schema:qconfig",
        "title": "qconfig document",
        "description": "Any config that this release of qconfig reads, in any of its versions.",
        "$ref": "#/$defs/Config",
        "$defs": {"Config": dispatch} | dict(sorted((types.definitions | bodies).items())),
    }


def _title(entry: Entry) -> str:
    return f"{entry.name} version {entry.version}"


def schema_text(schema: Schema) -> str:
    """Return the canonical text of a schema: what lies in its file."""
    return json.dumps(schema, ensure_ascii=False, allow_nan=False, indent=2) + "\n"


def all_schemas(entries: Iterable[Entry]) -> dict[str, Schema]:
    """Return the schemas of configs and layouts, by path below `schemas/`; values have none.

    Raises:
        RegistrationError: a field has a type that documents cannot hold.
    """
    return {e.schema_path: schema_of(e) for e in entries if e.kind is not Kind.VALUE}
