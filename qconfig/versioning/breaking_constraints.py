"""Changes of one schema object that concern values: types, enums, constants, bounds, patterns."""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

from attrs import frozen


class ChangeKind(StrEnum):
    """What an edit of a schema did."""

    REMOVED_VERSION = "removed-version"
    REMOVED_DEFINITION = "removed-definition"
    REMOVED_FIELD = "removed-field"
    ADDED_REQUIRED = "added-required-field"
    REQUIRED = "optional-to-required"
    DEFAULT = "changed-default"
    TYPE = "changed-type"
    CONST = "changed-const"
    ENUM = "narrowed-enum"
    BOUND = "tightened-bound"
    PATTERN = "changed-pattern"
    CLOSED = "closed-object"
    CONDITION = "added-condition"
    UNKNOWN = "unknown-keyword"


@frozen
class BreakingChange:
    """One edit that breaks documents.

    Args:
        pointer: JSON pointer into the schema.
        kind: what the edit did.
        message: the same in a sentence, without a final stop.
        path: the schema's path below `schemas/`, where trees were compared.
    """

    pointer: str
    kind: ChangeKind
    message: str
    path: str = ""

    def __str__(self) -> str:
        return f"{self.path}{'#' if self.path else ''}{self.pointer}: {self.message} ({self.kind})"


_LOWER = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_UPPER = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
JUDGED = frozenset({"type", "enum", "const", "pattern", *_LOWER, *_UPPER})


def changed_constraints(
    old: Mapping[str, Any], new: Mapping[str, Any], pointer: str
) -> Iterator[BreakingChange]:
    """Yield the edits of the keywords in `JUDGED` that refuse values accepted so far."""
    yield from _types(old, new, pointer)
    yield from _values(old, new, pointer)
    for keyword in (*_LOWER, *_UPPER):
        before, after = old.get(keyword), new.get(keyword)
        if after is None:
            continue
        if before is None or (after > before if keyword in _LOWER else after < before):
            message = f"{keyword} went from {'none' if before is None else before} to {after}"
            yield BreakingChange(f"{pointer}/{keyword}", ChangeKind.BOUND, message)
    if "pattern" in new and old.get("pattern") != new["pattern"]:
        message = f"pattern went from {old.get('pattern')!r} to {new['pattern']!r}"
        yield BreakingChange(f"{pointer}/pattern", ChangeKind.PATTERN, message)


def _types(
    old: Mapping[str, Any], new: Mapping[str, Any], pointer: str
) -> Iterator[BreakingChange]:
    before, after = _type_set(old), _type_set(new)
    if after is None:
        return
    if "number" in after:
        after |= {"integer"}
    if before is None and (values := _value_list(old)) is not None:
        before = {_type_of(value) for value in values}
    if before is None or before - after:
        gone = "any" if before is None else " or ".join(sorted(before - after))
        message = f"type {gone} became {' or '.join(sorted(after))}"
        yield BreakingChange(f"{pointer}/type", ChangeKind.TYPE, message)


def _values(
    old: Mapping[str, Any], new: Mapping[str, Any], pointer: str
) -> Iterator[BreakingChange]:
    before, after = _value_list(old), _value_list(new)
    if after is None:
        return
    is_const = "const" in new
    keyword = "const" if is_const else "enum"
    kind = ChangeKind.CONST if is_const and "const" in old else ChangeKind.ENUM
    if before is None:
        message = f"any value became one of {after}"
        yield BreakingChange(f"{pointer}/{keyword}", kind, message)
        return
    allowed = {repr(value) for value in after}
    gone = [value for value in before if repr(value) not in allowed]
    if gone:
        message = f"{', '.join(map(repr, gone))} is refused now"
        yield BreakingChange(f"{pointer}/{keyword}", kind, message)


def _value_list(schema: Mapping[str, Any]) -> list[Any] | None:
    if "const" in schema:
        return [schema["const"]]
    return list(schema["enum"]) if "enum" in schema else None


def _type_set(schema: Mapping[str, Any]) -> set[str] | None:
    kind = schema.get("type")
    if kind is None:
        return None
    return {kind} if isinstance(kind, str) else set(kind)


def _type_of(value: Any) -> str:
    names = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}
    return names.get(type(value), "array" if isinstance(value, list) else "object")
