"""One cattrs converter for every registered class: strict in, canonical out.

Nothing is coerced ("32" is not 32, true is not 1, 1.0 is not 1), nothing is dropped, and all
problems of a document are collected, each with its JSON pointer. The constructors' own checks are
part of it, so what structures is valid; the JSON Schemas say the same for editors.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import attrs
from attrs import NOTHING
from cattrs import Converter

from qconfig.codec.tensor_documents import parse_spec, tensor_from_document, tensor_to_document
from qconfig.codec.tensor_values import TensorSpec, TensorValue
from qconfig.errors import (
    DocumentErrors,
    FieldError,
    QconfigError,
    UnknownFieldError,
    UnknownNameError,
    nearest,
)
from qconfig.versioning import Config, Entry, Kind, info_of, registry
from qconfig.versioning.fields import FieldInfo

Hook = Callable[[Any, Any], Any]

_NAMES = {bool: "true or false", int: "an integer", str: "a string", NoneType: "null"}


def make_converter() -> Converter:
    """Return a converter with all hooks of this module."""
    converter = Converter(detailed_validation=False, prefer_attrib_converters=False)
    for primitive in (bool, int, str, NoneType):
        converter.register_structure_hook(primitive, _primitive_hook(primitive))
    converter.register_structure_hook(float, _structure_float)
    converter.register_structure_hook_factory(_is_enum, _enum_hook)
    converter.register_structure_hook_factory(_is_literal, _literal_hook)
    converter.register_structure_hook_factory(_is_tuple, lambda t: _tuple_hook(converter, t))
    converter.register_structure_hook_factory(_is_mapping, lambda t: _mapping_hook(converter, t))
    converter.register_structure_hook_factory(_is_union, lambda t: _union_hook(converter, t))
    converter.register_structure_hook_factory(attrs.has, lambda t: _class_hook(converter, t))
    converter.register_structure_hook_func(lambda t: t is Config, _structure_config)
    converter.register_structure_hook_func(lambda t: t is TensorValue, _structure_tensor)
    return converter


def _structure_config(data: Any, _: Any) -> Any:
    return structure_any(data)


def _structure_tensor(data: Any, _: Any) -> Any:
    return tensor_from_document(data)


def _mistyped(expected: str, found: object) -> FieldError:
    return FieldError("wrong type", found=found, expected=expected)


def _primitive_hook(kind: type) -> Hook:
    def structure(data: Any, _: Any) -> Any:
        if type(data) is not kind:
            raise _mistyped(_NAMES[kind], data)
        return data

    return structure


def _structure_float(data: Any, _: Any) -> float:
    if type(data) not in (float, int):
        raise _mistyped("a number", data)
    try:
        return float(data)
    except OverflowError:
        raise _mistyped("a number that a double can hold", data) from None


def _is_enum(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Enum)


def _enum_hook(kind: Any) -> Hook:
    members = {member.value: member for member in kind}

    def structure(data: Any, _: Any) -> Any:
        if isinstance(data, str) and data in members:
            return members[data]
        raise UnknownNameError(
            f"unknown {kind.__name__}",
            found=data,
            expected="one of " + ", ".join(map(repr, members)),
            hint=nearest(str(data), members),
        )

    return structure


def _is_literal(kind: Any) -> bool:
    return get_origin(kind) is Literal


def _literal_hook(kind: Any) -> Hook:
    allowed = get_args(kind)

    def structure(data: Any, _: Any) -> Any:
        if any(data == a and type(data) is type(a) for a in allowed):
            return data
        raise FieldError(
            "value is not allowed", found=data, expected="one of " + ", ".join(map(repr, allowed))
        )

    return structure


def _is_tuple(kind: Any) -> bool:
    return get_origin(kind) is tuple


def _tuple_hook(converter: Converter, kind: Any) -> Hook:
    args = get_args(kind)
    if len(args) != 2 or args[1] is not Ellipsis:
        raise TypeError(f"{kind}: fields are tuple[X, ...]")
    item = args[0]
    hook = converter.get_structure_hook(item)

    def structure(data: Any, _: Any) -> Any:
        if type(data) is not list:
            raise _mistyped("an array", data)
        try:
            return tuple([hook(d, item) for d in data])
        except QconfigError:
            problems: list[QconfigError] = []
            for i, d in enumerate(data):
                _collect(problems, f"/{i}", hook, d, item)
            raise _together(problems) from None

    return structure


def _is_mapping(kind: Any) -> bool:
    return get_origin(kind) is dict


def _mapping_hook(converter: Converter, kind: Any) -> Hook:
    item = get_args(kind)[1]
    hook = converter.get_structure_hook(item)

    def structure(data: Any, _: Any) -> Any:
        if not isinstance(data, Mapping):
            raise _mistyped("an object", data)
        problems: list[QconfigError] = []
        result = {k: _collect(problems, "/" + escape(k), hook, d, item) for k, d in data.items()}
        if problems:
            raise _together(problems)
        return result

    return structure


def _is_union(kind: Any) -> bool:
    return get_origin(kind) in (Union, UnionType)


def _union_hook(converter: Converter, kind: Any) -> Hook:
    args = get_args(kind)
    optional = NoneType in args
    options = [a for a in args if a is not NoneType]
    if len(options) == 1:
        only = options[0]
        inner = converter.get_structure_hook(only)
    else:
        only, inner = kind, _tagged_hook(converter, options)

    def structure(data: Any, _: Any) -> Any:
        if data is None and optional:
            return None
        return inner(data, only)

    return structure


def _tagged_hook(converter: Converter, options: list[Any]) -> Hook:
    """Choose among value classes by their `type`."""
    by_name = {registry.entry_of(cls).name: cls for cls in options}

    def structure(data: Any, _: Any) -> Any:
        name = data.get("type") if isinstance(data, Mapping) else None
        if not isinstance(name, str) or name not in by_name:
            is_object = isinstance(data, Mapping)
            raise UnknownNameError(
                "unknown or missing type" if is_object else "wrong type",
                pointer="/type" if is_object else None,
                found=name if is_object else data,
                expected="an object with type " + " or ".join(map(repr, by_name)),
                hint=nearest(str(name), by_name),
            )
        cls = by_name[name]
        return converter.get_structure_hook(cls)(data, cls)

    return structure


def _class_hook(converter: Converter, cls: Any) -> Hook:
    """Structure an object into a registered class, field by field."""
    entry = registry.entry_of(cls)
    fields: list[tuple[str, Any, Hook, bool, FieldInfo]] = []
    resolved = attrs.resolve_types(cls)
    for f in attrs.fields(resolved):
        hook = converter.get_structure_hook(f.type)
        if entry.kind is Kind.LAYOUT and info_of(f).tensor is not None:
            hook = _optional(_structure_spec) if f.default is None else _structure_spec
        fields.append((f.name, f.type, hook, f.default is NOTHING, info_of(f)))
    tags = _tags(entry)
    known = tags | {f[0] for f in fields}

    def fast(data: Any) -> Any:
        values = {name: hook(data[name], kind) for name, kind, hook, _, _ in fields if name in data}
        return cls(**values)

    def structure(data: Any, _: Any) -> Any:
        if not isinstance(data, Mapping):
            raise _mistyped(f"an object of type {entry.name}", data)
        if data.keys() <= known and not (entry.kind is Kind.VALUE and data.get("type", entry.name) != entry.name):
            try:
                return fast(data)
            except (QconfigError, TypeError):
                pass  # the slow path below says what is wrong, all of it
        return slow(data)

    def slow(data: Any) -> Any:
        problems: list[QconfigError] = []
        for key in data:
            if key not in known:
                problems.append(
                    UnknownFieldError(
                        "unknown field",
                        pointer="/" + escape(key),
                        found=key,
                        expected=f"a field of {entry}: " + ", ".join(f[0] for f in fields),
                        hint=nearest(str(key), known),
                    )
                )
        if entry.kind is Kind.VALUE and data.get("type", entry.name) != entry.name:
            problems.append(
                FieldError("wrong type", pointer="/type", found=data["type"], expected=entry.name)
            )
        values = {}
        for name, kind, hook, required, info in fields:
            if name in data:
                before = len(problems)
                values[name] = _collect(problems, f"/{name}", hook, data[name], kind)
                if len(problems) == before:
                    _collect(problems, "", info.check, values[name], name)
            elif required:
                problems.append(
                    FieldError("missing field", pointer=f"/{name}", expected=f"a field of {entry}")
                )
        if problems:
            raise _together(problems)
        return cls(**values)

    return structure


def _tags(entry: Entry) -> set[str]:
    if entry.kind is not Kind.VALUE:
        return {"type", "version"}
    return {"type"} if entry.tagged else set()


def _optional(hook: Hook) -> Hook:
    return lambda data, kind: None if data is None else hook(data, kind)


def _structure_spec(data: Any, _: Any) -> Any:
    """Read the record of a stored tensor: its dtype and shape; the data lies in the file."""
    if not isinstance(data, Mapping) or set(data) != {"dtype", "shape"}:
        raise _mistyped("an object with dtype and shape", data)
    return TensorSpec(*parse_spec(data))


def _collect(problems: list[QconfigError], pointer: str, hook: Hook, data: Any, kind: Any) -> Any:
    try:
        return hook(data, kind)
    except QconfigError as error:
        problems += [p.at(pointer_prefix=pointer) for p in error.problems]
        return None


def _together(problems: list[QconfigError]) -> QconfigError:
    return problems[0] if len(problems) == 1 else DocumentErrors(problems)


def escape(key: object) -> str:
    """Return a mapping key as a token of a JSON pointer (RFC 6901)."""
    return str(key).replace("~", "~0").replace("/", "~1")


def structure_any(data: Any, kind: Kind = Kind.CONFIG) -> Any:
    """Structure a tagged object of any registered type and bring it to its current version.

    Raises:
        UnknownNameError, NewerVersionError, FieldError, UnknownFieldError, DocumentErrors:
            everything that is wrong with it.
    """
    return registry.convert(structure_as_written(data, kind))


def structure_as_written(data: Any, kind: Kind = Kind.CONFIG) -> Any:
    """Structure a tagged object in the version that it was written in.

    Raises:
        UnknownNameError, NewerVersionError, FieldError, UnknownFieldError, DocumentErrors:
            everything that is wrong with it.
    """
    entry = _entry_for(data, kind)
    return CONVERTER.get_structure_hook(entry.cls)(data, entry.cls)


def _entry_for(data: Any, kind: Kind) -> Entry:
    if not isinstance(data, Mapping):
        raise _mistyped(f"an object with type and version of a {kind}", data)
    missing = [key for key in ("type", "version") if key not in data]
    problems: list[QconfigError] = []
    if "type" in data:
        entry = registry.get(data["type"])
        if entry.kind is not kind:
            raise UnknownNameError(
                f"{entry.name} is not a {kind}", pointer="/type", found=entry.name
            )
        if not missing:
            return registry.get(data["type"], data["version"])
        hint = f'add "version": {entry.version} if the document follows the current form'
    else:
        hint = 'add "type", such as "FqnToConfig"'
    problems += [FieldError("missing field", pointer=f"/{key}", hint=hint) for key in missing]
    raise _together(problems)


def unstructure(value: Any) -> Any:
    """Return plain data: type and version first, every default written out.

    Raises:
        FieldError: a float that JSON has no number for.
    """
    if value is None or type(value) in (bool, int, str):
        return value
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            raise FieldError("JSON has no such number", found=value, expected="a finite float")
        return value
    if isinstance(value, tuple | list):
        return [unstructure(v) for v in value]
    if isinstance(value, Mapping):
        return {k: unstructure(v) for k, v in value.items()}
    if registry.has(type(value)):
        return _unstructure_class(value, registry.entry_of(type(value)))
    if isinstance(value, TensorValue):
        return tensor_to_document(value)  # type: ignore[arg-type]
    raise FieldError("value has no place in a document", found=value)


def _unstructure_class(value: Any, entry: Entry) -> dict[str, Any]:
    tags = {"type": entry.name, "version": entry.version}
    head: dict[str, Any] = {k: v for k, v in tags.items() if k in _tags(entry)}
    for field in attrs.fields(entry.cls):
        inner = getattr(value, field.name)
        if inner is not None and entry.kind is Kind.LAYOUT and info_of(field).tensor is not None:
            head[field.name] = {
                "dtype": str(inner.dtype).removeprefix("torch."),
                "shape": list(inner.shape),
            }
        else:
            head[field.name] = unstructure(inner)
    return head


CONVERTER = make_converter()
