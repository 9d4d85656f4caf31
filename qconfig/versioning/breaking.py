"""Which edits of a JSON Schema break documents that were valid under it.

The direction is the reader's: every document that the old schema accepts must stay acceptable and
keep its meaning. A new optional field, a wider enum, a looser bound or another description is
fine; anything else needs a new version. What this module cannot judge it reports.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from attrs import evolve, frozen

from qconfig.errors import json_pointer
from qconfig.versioning.breaking_constraints import (
    JUDGED,
    BreakingChange,
    ChangeKind,
    changed_constraints,
)

Schema = Mapping[str, Any]

_ANNOTATIONS = {"$schema", "$id", "$comment", "title", "description", "examples", "deprecated"}
_APPLICATORS = {
    "$ref",
    "$defs",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "allOf",
    "if",
    "then",
    "else",
    "default",
}


def breaking_changes(old: Schema, new: Schema) -> list[BreakingChange]:
    """Return every change from `old` to `new` that breaks a document, in the order of the schema.

    Args:
        old: the schema as it was released.
        new: the schema as it is now.
    """
    comparison = _Comparison(old, new)
    changes = list(comparison.schemas(old, new, ""))
    for name in old.get("$defs", {}):
        if name not in new.get("$defs", {}):
            message = f"definition {name} is gone"
            changes.append(BreakingChange(f"/$defs/{name}", ChangeKind.REMOVED_DEFINITION, message))
    return changes


def compare_trees(old: Mapping[str, Schema], new: Mapping[str, Schema]) -> list[BreakingChange]:
    """Compare the schemas of two releases, by path; new files are always fine.

    Args:
        old: schemas by path (`int8_weight_only_config/v1.json`), as released.
        new: schemas by path, as they are now.
    """
    changes = []
    for path in sorted(old):
        if path in new:
            changes += [evolve(c, path=path) for c in breaking_changes(old[path], new[path])]
        else:
            message = "a released version is gone: its documents could not be read any more"
            changes.append(BreakingChange("", ChangeKind.REMOVED_VERSION, message, path))
    return changes


@frozen
class _Place:
    """Two schemas that stand at the same place, with their references followed."""

    old: Any
    new: Any
    pointer: str

    def keys(self, keyword: str) -> "tuple[dict[str, Any], dict[str, Any]]":
        return self.old.get(keyword, {}), self.new.get(keyword, {})


class _Comparison:
    """One walk over two schemas; pairs of definitions are compared once."""

    def __init__(self, old: Schema, new: Schema) -> None:
        self._roots = (old, new)
        self._seen: set[tuple[str, str]] = set()

    def schemas(self, old: Any, new: Any, pointer: str) -> Iterator[BreakingChange]:
        if _reference(old) or _reference(new):
            pair = (_constraints(old), _constraints(new))
            if pair in self._seen:
                return
            self._seen.add(pair)
        old, new = self._follow(old, self._roots[0]), self._follow(new, self._roots[1])
        if old is False or new is True:
            return
        if new is False:
            yield BreakingChange(pointer, ChangeKind.TYPE, "nothing is allowed here any more")
            return
        place = _Place({} if old is True else old, new, pointer)
        yield from changed_constraints(place.old, new, pointer)
        yield from self._properties(place)
        yield from self._nested(place)
        yield from self._branches(place)
        for keyword in sorted({*place.old, *new} - _ANNOTATIONS - _APPLICATORS - JUDGED):
            if place.old.get(keyword) != new.get(keyword):
                message = f"{keyword} changed, and what that means is not known"
                yield BreakingChange(pointer, ChangeKind.UNKNOWN, message)

    def _follow(self, schema: Any, root: Schema) -> Any:
        """Put the target of a local reference in its place; keywords beside it stay."""
        while isinstance(schema, Mapping) and "$ref" in schema:
            reference = _reference(schema)
            target = root.get("$defs", {}).get(reference.removeprefix("#/$defs/"), {})
            beside = {k: v for k, v in schema.items() if k != "$ref"}
            both = set(target) & set(beside) - _ANNOTATIONS
            schema = {**target, **beside, **({"allOf": [target]} if both else {})}
        return schema

    def _properties(self, place: _Place) -> Iterator[BreakingChange]:
        old, new = place.keys("properties")
        was_required, required = set(place.old.get("required", [])), place.new.get("required", [])
        for name, schema in old.items():
            at = f"{place.pointer}/properties{json_pointer(name)}"
            if name not in new:
                yield BreakingChange(at, ChangeKind.REMOVED_FIELD, f"field {name} is gone")
                continue
            yield from self.schemas(schema, new[name], at)
            if name not in was_required and _default(schema) != _default(new[name]):
                message = (
                    f"default of {name} changed from {_default(schema)} to {_default(new[name])}: "
                    "documents that leave it out change their meaning"
                )
                yield BreakingChange(at, ChangeKind.DEFAULT, message)
        for name in required:
            at = f"{place.pointer}/properties{json_pointer(name)}"
            if name not in was_required:
                kind = ChangeKind.REQUIRED if name in old else ChangeKind.ADDED_REQUIRED
                yield BreakingChange(at, kind, f"field {name} must be there now")
        if place.old.get("additionalProperties", True) is not False:
            for name in set(new) - set(old) - set(required):
                at = f"{place.pointer}/properties{json_pointer(name)}"
                message = f"field {name} was free and has a schema now"
                yield BreakingChange(at, ChangeKind.TYPE, message)

    def _nested(self, place: _Place) -> Iterator[BreakingChange]:
        pointer = f"{place.pointer}/additionalProperties"
        old, new = (s.get("additionalProperties", True) for s in (place.old, place.new))
        if new is False and old is not False:
            yield BreakingChange(pointer, ChangeKind.CLOSED, "further fields are refused now")
        else:
            yield from self.schemas(old, new, pointer)
        old, new = (s.get("items", True) for s in (place.old, place.new))
        yield from self.schemas(old, new, f"{place.pointer}/items")

    def _branches(self, place: _Place) -> Iterator[BreakingChange]:
        old, new = _branches(place.old), _branches(place.new)
        tags = place.old.get("properties", {}).get("type", {})
        for key, (pointer, condition, then, otherwise) in new.items():
            at = f"{place.pointer}{pointer}"
            if key in old:
                yield from self.schemas(old[key][2], then, f"{at}/then")
                yield from self.schemas(old[key][3], otherwise, f"{at}/else")
            elif not _is_new_tag(condition, tags):
                yield BreakingChange(at, ChangeKind.CONDITION, "there is a further condition")


_Branch = tuple[str, Any, Any, Any]


def _branches(schema: Schema) -> dict[str, _Branch]:
    """Return the if/then/else parts of a schema by their condition."""
    parts = [("", schema)] if "if" in schema else []
    parts += [(f"/allOf/{i}", part) for i, part in enumerate(schema.get("allOf", []))]
    found = {}
    for pointer, part in parts:
        if "if" in part:
            found[repr(part["if"])] = (
                pointer,
                part["if"],
                part.get("then", True),
                part.get("else", True),
            )
        else:
            found[f"always {pointer}"] = (pointer, True, part, True)
    return found


def _is_new_tag(condition: Any, tags: Any) -> bool:
    """Whether a condition speaks of a `type` that the old schema did not allow."""
    if condition is True or "enum" not in tags:
        return False
    name = condition.get("properties", {}).get("type", {}).get("const")
    return name is not None and name not in tags["enum"]


def _reference(schema: Any) -> str:
    return str(schema.get("$ref", "")) if isinstance(schema, Mapping) else ""


def _constraints(schema: Any) -> str:
    """Return a text for a reference and for what stands beside it and constrains values."""
    if not isinstance(schema, Mapping):
        return repr(schema)
    return repr({k: v for k, v in schema.items() if k not in _ANNOTATIONS | {"default"}})


def _default(schema: Any) -> str:
    return (
        repr(schema["default"]) if isinstance(schema, Mapping) and "default" in schema else "none"
    )
