"""JSON Schemas of field types.

Unions of value classes are written as if/then on `type`, not as oneOf: a validator then names the
field that is wrong instead of printing the whole object.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from inspect import cleandoc
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import attrs
from attrs import NOTHING, define, field

from qconfig.errors import RegistrationError
from qconfig.limits import DEFAULT_LIMITS
from qconfig.versioning.entries import Config, Entry, Kind
from qconfig.versioning.fields import TensorPattern, info_of, resolved_fields
from qconfig.versioning.registry import registry
from qconfig.versioning.schema_defaults import plain_default

Schema = dict[str, Any]

_PRIMITIVES = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    NoneType: "null",
}
_TAGS = {"type": "Registered name.", "version": "Version of the type."}
_LENGTHS = {"string": "Length", "array": "Items", "object": "Properties"}
_described: dict[Any, Callable[[], Schema]] = {}


def describe_type(kind: Any, schema: Callable[[], Schema]) -> None:
    """Say how a type that is neither plain nor registered looks in documents.

    Args:
        kind: the type as it stands in annotations.
        schema: makes its JSON Schema.
    """
    _described[kind] = schema


def shape_schema(fewest: int, most: int) -> Schema:
    """Return the schema of a tensor's shape with that many dimensions."""
    return {
        "type": "array",
        "items": {"type": "integer", "minimum": 0, "maximum": DEFAULT_LIMITS.dimension},
        "minItems": fewest,
        "maxItems": most,
        "description": "Size of each dimension.",
    }


def document_description(cls: type) -> str:
    """Return the docstring of a class without indentation."""
    return cleandoc(cls.__doc__ or "")


@define
class SchemaTypes:
    """Translate types, and gather the definitions that they refer to.

    Args:
        config: the schema of a place where any registered config may stand.
        definitions: filled with the schemas of value classes and enums, by name.
    """

    config: Schema
    definitions: dict[str, Schema] = field(factory=dict)
    _owners: dict[str, Any] = field(factory=dict)

    def object(self, entry: Entry) -> Schema:
        """Return the closed object schema of a registered class.

        Raises:
            RegistrationError: a field has a type that documents cannot hold.
        """
        properties: dict[str, Schema] = {}
        required: list[str] = []
        if entry.kind is Kind.CONFIG:
            properties["$schema"] = {
                "type": "string",
                "description": "Where an editor finds this schema; no part of the config.",
            }
        for tag, value in entry.tags.items():
            properties[tag] = {"const": value, "description": _TAGS[tag]}
        if entry.kind is not Kind.VALUE:
            required += entry.tags
        for attribute in resolved_fields(entry.cls):
            try:
                properties[attribute.name] = self._field(attribute, entry.kind)
            except RegistrationError as error:
                error.at(fqn=f"{entry}.{attribute.name}")
                raise
            if attribute.default is NOTHING:
                required.append(attribute.name)
        return {
            "description": document_description(entry.cls),
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": False,
        }

    def _field(self, attribute: "attrs.Attribute[Any]", kind: Kind) -> Schema:
        info = info_of(attribute)
        if info.tensor is not None and kind is Kind.LAYOUT:
            schema = tensor_record(info.tensor)
            if attribute.default is None:
                schema = _or_null(schema)
        else:
            schema = self.of(attribute.type)
        # Written twice: once to come first, once to win over the description of a nested type.
        schema = {"description": info.doc} | schema | {"description": info.doc}
        bounds: dict[str, Any] = {
            "minimum": info.minimum,
            "maximum": info.maximum,
            "pattern": info.pattern,
        }
        noun = _LENGTHS.get(main_type(schema), "Length")
        bounds |= {f"min{noun}": info.min_length, f"max{noun}": info.max_length}
        schema |= {key: bound for key, bound in bounds.items() if bound is not None}
        if attribute.default is not NOTHING:
            schema["default"] = plain_default(attribute)
        return schema

    def of(self, kind: Any) -> Schema:
        """Return the schema of a field type.

        Raises:
            RegistrationError: documents cannot hold such a type.
        """
        origin, args = get_origin(kind), get_args(kind)
        if origin in (Union, UnionType):
            return self._union(args)
        if origin is not None:
            return self._container(kind, origin, args)
        if kind in _PRIMITIVES:
            return {"type": _PRIMITIVES[kind]}
        if kind in _described:
            return _described[kind]()
        if isinstance(kind, type):
            return self._class(kind)
        raise _unsupported(kind)

    def _container(self, kind: Any, origin: Any, args: tuple[Any, ...]) -> Schema:
        if origin is Literal:
            if not {*map(type, args)} <= {bool, int, str, NoneType}:
                raise _unsupported(kind)
            return {"enum": list(args)}
        if origin is tuple and len(args) == 2 and args[1] is Ellipsis:
            return {"type": "array", "items": self.of(args[0])}
        if origin is dict and args[0] is str:
            return {"type": "object", "additionalProperties": self.of(args[1])}
        raise _unsupported(kind)

    def _class(self, kind: type) -> Schema:
        if issubclass(kind, Enum):
            values = [member.value for member in kind]
            if not values or not all(isinstance(value, str) for value in values):
                raise _unsupported(kind)
            return self._define(
                kind.__name__,
                kind,
                lambda: {"description": document_description(kind), "enum": values},
            )
        if issubclass(kind, Config):
            return dict(self.config)
        if not registry.has(kind) or registry.entry_of(kind).kind is not Kind.VALUE:
            raise _unsupported(kind)
        entry = registry.entry_of(kind)
        return self._define(entry.name, kind, lambda: self.object(entry))

    def _define(self, name: str, owner: Any, make: Callable[[], Schema]) -> Schema:
        if self._owners.setdefault(name, owner) is not owner:
            raise RegistrationError(f"two types are called {name}", hint="rename one of them")
        if name not in self.definitions:
            self.definitions[name] = {}  # taken, so that a type may contain itself
            self.definitions[name] = make()
        return {"$ref": f"#/$defs/{name}"}

    def _union(self, args: tuple[Any, ...]) -> Schema:
        options = [a for a in args if a is not NoneType]
        if len(options) == 1:
            schema = self.of(options[0])
        else:
            schema = choice(
                {registry.entry_of(a).name: self.of(a) for a in options if registry.has(a)}
            )
            if len(schema["allOf"]) != len(options):
                raise _unsupported(" | ".join(map(str, args)))
        return _or_null(schema) if NoneType in args else schema


def choice(options: Mapping[str, Schema]) -> Schema:
    """Return the schema of an object whose `type` says which of `options` it follows."""
    return {
        "type": "object",
        "properties": {"type": {"enum": list(options)}},
        "required": ["type"],
        "allOf": [case({"type": name}, then) for name, then in options.items()],
    }


def case(tags: Mapping[str, Any], then: Schema) -> Schema:
    """Return the if/then schema of objects whose keys have the values of `tags`."""
    condition = {
        "type": "object",
        "properties": {key: {"const": value} for key, value in tags.items()},
        "required": list(tags),
    }
    return {"if": condition, "then": then}


def tensor_record(pattern: TensorPattern) -> Schema:
    """Return the schema of the record of a stored tensor: its dtype and its shape."""
    return {
        "type": "object",
        "properties": {
            "dtype": {"enum": list(pattern.allowed), "description": "Element type."},
            "shape": shape_schema(*pattern.ranks),
        },
        "required": ["dtype", "shape"],
        "additionalProperties": False,
    }


def _or_null(schema: Schema) -> Schema:
    if "type" in schema:
        return schema | {"type": [schema["type"], "null"]}
    if "enum" in schema:
        return schema | {"enum": [*schema["enum"], None]}
    return {"if": {"type": "null"}, "else": schema}


def main_type(schema: Schema) -> str:
    """Return the JSON type that a schema asks for beside null, or "" if it names none."""
    kind = schema.get("type", "")
    return str(kind[0] if isinstance(kind, list) else kind)


def _unsupported(kind: Any) -> RegistrationError:
    return RegistrationError(
        "documents cannot hold a field of this type",
        found=kind,
        expected="bool, int, float, str, Literal, an enum of strings, a registered value, Config, "
        "a tensor, tuple[X, ...], dict[str, X], X | None, or a union of registered values",
    )
