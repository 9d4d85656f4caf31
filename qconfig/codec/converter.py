"""One cattrs converter for every registered class: strict in, canonical out.

Nothing is coerced ("32" is not 32, true is not 1, 1.0 is not 1), nothing is dropped, and all
problems of a document are collected, each with its JSON pointer. The constructors' own checks are
part of it, so what structures is valid; the JSON Schemas say the same for editors.
"""

from collections.abc import Mapping
from enum import Enum, IntEnum, StrEnum
from functools import cache
from itertools import islice
from math import isfinite
from types import NoneType
from typing import Any

import attrs
from attrs import NOTHING, frozen
from cattrs import Converter

from qconfig.codec.structure_hooks import (
    Hook,
    collect,
    enum_hook,
    is_enum,
    is_literal,
    is_mapping,
    is_tuple,
    is_union,
    literal_hook,
    mapping_hook,
    mistyped,
    primitive_hook,
    structure_float,
    together,
    tuple_hook,
    union_hook,
)
from qconfig.codec.tensor_documents import parse_spec, tensor_from_document, tensor_to_document
from qconfig.codec.tensor_values import TensorSpec, TensorValue
from qconfig.errors import (
    MOST_PROBLEMS,
    FieldError,
    QconfigError,
    UnknownFieldError,
    UnknownNameError,
    json_pointer,
    nearest,
)
from qconfig.versioning import Config, Entry, Kind, info_of, registry
from qconfig.versioning.class_check import check_class
from qconfig.versioning.fields import FieldInfo, is_left_out

_ELSEWHERE: Mapping[str, str] = {
    "bits": "bit_width",
    "n_bits": "bit_width",
    "num_bits": "bit_width",
    "weight_bit_width": "bit_width",
}
"""Names that fields have in other libraries, and that are less like their own than like others."""


def make_converter() -> Converter:
    """Return a converter with all hooks of this module."""
    converter = Converter(detailed_validation=False, prefer_attrib_converters=False)
    # By class, or cattrs' own hooks win, which coerce. They take subclasses too: enums need theirs.
    for primitive in (bool, int, str, NoneType):
        converter.register_structure_hook(primitive, primitive_hook(primitive))
    converter.register_structure_hook(float, structure_float)
    hook_of = cache(enum_hook)
    for base in (StrEnum, IntEnum):
        converter.register_structure_hook(base, lambda data, kind: hook_of(kind)(data, kind))
    converter.register_structure_hook_factory(is_enum, enum_hook)
    converter.register_structure_hook_factory(is_literal, literal_hook)
    converter.register_structure_hook_factory(is_tuple, lambda t: tuple_hook(converter, t))
    converter.register_structure_hook_factory(is_mapping, lambda t: mapping_hook(converter, t))
    converter.register_structure_hook_factory(is_union, lambda t: union_hook(converter, t))
    converter.register_structure_hook_factory(attrs.has, lambda t: _ObjectHook.of(converter, t))
    converter.register_structure_hook_func(lambda t: t is Config, _structure_config)
    converter.register_structure_hook_func(lambda t: t is TensorValue, _structure_tensor)
    return converter


def _structure_config(data: Any, _: Any) -> Any:
    return structure_any(data)


def _structure_tensor(data: Any, _: Any) -> Any:
    return tensor_from_document(data)


@frozen
class _Field:
    """A field of a registered class, with what structures its value."""

    name: str
    kind: Any
    hook: Hook
    required: bool
    info: FieldInfo

    def has_room(self, problems: list[QconfigError], data: Any) -> bool:
        """Return whether plain data keeps to the limit on entries; if not, put it to `problems`."""
        before = len(problems)
        collect(problems, "", self.info.check_size, data, self.name)
        return len(problems) == before


@frozen
class _ObjectHook:
    """Structures an object into a registered class, field by field."""

    entry: Entry
    tags: dict[str, Any]
    fields: tuple[_Field, ...]
    known: frozenset[str]

    @classmethod
    def of(cls, converter: Converter, kind: Any) -> "_ObjectHook":
        entry = registry.entry_of(kind)
        check_class(entry)
        fields = []
        for field in attrs.fields(kind):
            info, required = info_of(field), field.default is NOTHING
            hook: Hook = converter.get_structure_hook(field.type)
            if entry.kind is Kind.LAYOUT and info.tensor is not None:
                hook = _optional(_structure_spec) if field.default is None else _structure_spec
            fields.append(_Field(field.name, field.type, hook, required, info))
        known = frozenset([*entry.tags, *(f.name for f in fields)])
        return cls(entry, entry.tags, tuple(fields), known)

    def __call__(self, data: Any, _: Any) -> Any:
        if not isinstance(data, Mapping):
            raise mistyped(f"an object of type {self.entry.name}", data)
        problems: list[QconfigError] = []
        if not data.keys() <= self.known:
            problems += self.unknown_fields(data)
        problems += [
            FieldError(f"wrong {key}", pointer=f"/{key}", found=data[key], expected=repr(value))
            for key, value in self.tags.items()
            if key in data and (type(data[key]) is not type(value) or data[key] != value)
        ]
        values = {
            f.name: collect(problems, f"/{f.name}", f.hook, data[f.name], f.kind)
            for f in self.fields
            if f.name in data and f.has_room(problems, data[f.name])
        }
        problems += [
            FieldError("missing field", pointer=f"/{f.name}", expected=f"a field of {self.entry}")
            for f in self.fields
            if f.required and f.name not in data
        ]
        if not problems:
            try:
                return self.entry.cls(**values)
            except QconfigError as error:
                problems += error.problems
            except (TypeError, ValueError) as error:  # what validators of attrs raise
                problems.append(FieldError(str(error.args[0] if error.args else error)))
        # The constructor stops at the first value out of bounds; a document hears of them all.
        bounds: list[QconfigError] = []
        for f in self.fields:
            collect(bounds, "", f.info.check, values.get(f.name), f.name)
        known = {problem.pointer for problem in bounds}
        raise together([*(p for p in problems if p.pointer not in known), *bounds])

    def unknown_fields(self, data: Mapping[Any, Any]) -> list[UnknownFieldError]:
        names = ", ".join(f.name for f in self.fields) or "none at all"
        return [
            UnknownFieldError(
                "unknown field",
                pointer=json_pointer(key),
                found=key,
                expected=f"a field of {self.entry}: {names}",
                hint=self.version_with(key) or self.other_name(key) or nearest(key, self.known),
            )
            for key in islice((k for k in data if k not in self.known), MOST_PROBLEMS)
        ]

    def other_name(self, key: Any) -> str | None:
        """Return a hint that names the field which has another name elsewhere, or None."""
        name = _ELSEWHERE.get(key.lower()) if isinstance(key, str) else None
        return f"did you mean {name!r}?" if name in self.known else None

    def version_with(self, key: Any) -> str | None:
        """Return a hint that names the newest version with a field of that name, or None."""
        for entry in reversed(registry.versions(self.entry.name)):
            if any(field.name == key for field in attrs.fields(entry.cls)):
                return f"it is a field of {entry}"
        return None


def _optional(hook: Hook) -> Hook:
    return lambda data, kind: None if data is None else hook(data, kind)


def _structure_spec(data: Any, _: Any) -> Any:
    """Read the record of a stored tensor: its dtype and shape; the data lies in the file."""
    if not isinstance(data, Mapping) or set(data) != {"dtype", "shape"}:
        raise mistyped("an object with dtype and shape", data)
    return TensorSpec(*parse_spec(data))


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
        raise mistyped(f"an object with type and version of a {kind}", data)
    missing = [key for key in ("type", "version") if key not in data]
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
    raise together([FieldError("missing field", pointer=f"/{key}", hint=hint) for key in missing])


def unstructure(value: Any) -> Any:
    """Return plain data: type and version first, defaults written out, but of added fields.

    Raises:
        FieldError: a float that JSON has no number for.
    """
    if value is None or type(value) in (bool, int, str) or _is_finite(value):
        return value
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple | list):
        return [unstructure(v) for v in value]
    if isinstance(value, Mapping):
        return {k: unstructure(v) for k, v in value.items()}
    if registry.has(type(value)):
        return _unstructure_class(value, registry.entry_of(type(value)))
    if isinstance(value, TensorValue):
        return tensor_to_document(value)  # type: ignore[arg-type]
    raise FieldError("value has no place in a document", found=value)


def _is_finite(value: Any) -> bool:
    return type(value) is float and isfinite(value)


def _unstructure_class(value: Any, entry: Entry) -> dict[str, Any]:
    head = entry.tags
    for field in attrs.fields(entry.cls):
        inner = getattr(value, field.name)
        if is_left_out(field, inner):
            continue
        if inner is not None and entry.kind is Kind.LAYOUT and info_of(field).tensor is not None:
            head[field.name] = {
                "dtype": str(inner.dtype).removeprefix("torch."),
                "shape": list(inner.shape),
            }
        else:
            head[field.name] = unstructure(inner)
    return head


CONVERTER = make_converter()
