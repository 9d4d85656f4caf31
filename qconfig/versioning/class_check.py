"""Check a registered class before its first document: what its author has to know."""

import re
from typing import Any

import attrs

from qconfig.errors import RegistrationError
from qconfig.versioning.entries import Entry
from qconfig.versioning.schema_types import SchemaTypes, main_type

_MEASURES = {
    "minimum": ("integer", "number"),
    "maximum": ("integer", "number"),
    "pattern": ("string",),
}


def check_class(entry: Entry) -> None:
    """Check that documents can hold a class: names, types and bounds of its fields.

    Raises:
        RegistrationError: naming class and field.
    """
    tags = {"$schema", *entry.tags}
    schema = SchemaTypes({}).object(entry)
    for field in attrs.fields(entry.cls):
        problem = _problem(field, tags, schema["properties"][field.name])
        if problem is not None:
            raise RegistrationError(problem, fqn=f"{entry}.{field.name}")


def _problem(field: "attrs.Attribute[Any]", tags: set[str], schema: dict[str, Any]) -> str | None:
    if field.name in tags:
        return "documents have a key of this name already"
    if not field.init or field.alias != field.name:
        return "the constructor does not take the field under its own name"
    kind = main_type(schema)
    for bound, kinds in _MEASURES.items():
        if bound in schema and kind not in kinds:
            return f"a {bound} is for {' or '.join(kinds)}, not for {kind or 'an object'}"
    if "minLength" in schema or "maxLength" in schema:
        return None if kind == "string" else "only strings, tuples and mappings have a length"
    if "pattern" in schema:
        try:
            re.compile(schema["pattern"])
        except re.error as error:
            return f"its pattern is no regular expression: {error}"
    return None
