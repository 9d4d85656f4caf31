"""The page of all documents, written from the registered classes when the docs are built.

A Sphinx extension: it appends the tables to `config-reference.md`. `markdown()` needs no Sphinx.
"""

import json
import types
from collections.abc import Iterator
from enum import Enum
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin

import attrs
from attrs import NOTHING

from qconfig.codec.converter import unstructure
from qconfig.codec.dtypes import DType
from qconfig.versioning import Entry, Kind, info_of, registry

if TYPE_CHECKING:
    from sphinx.application import Sphinx

PAGE = "config-reference"
_HEADINGS = {Kind.CONFIG: "Configs", Kind.LAYOUT: "Tensor layouts", Kind.VALUE: "Values"}
_TYPES = {
    bool: "true or false",
    int: "integer",
    float: "number",
    str: "string",
    type(None): "null",
    DType: "element type",
}


def markdown() -> str:
    """Return tables of the fields of every registered class in every version."""
    return "\n".join(line for kind in _HEADINGS for line in _section(kind))


def _section(kind: Kind) -> Iterator[str]:
    yield f"\n## {_HEADINGS[kind]}\n"
    for name in dict.fromkeys(entry.name for entry in registry.entries(kind)):
        yield f"\n### {name}\n"
        for entry in reversed(registry.versions(name)):
            yield from _class(entry)


def _class(entry: Entry) -> Iterator[str]:
    if entry.kind is not Kind.VALUE:
        state = "" if registry.is_current(entry) else ", retired"
        yield f"\n**Version {entry.version}{state}.** {entry.title}\n"
        yield from _steps(entry)
    else:
        yield f"\n{entry.title}\n"
    fields = attrs.fields(attrs.resolve_types(entry.cls))
    if not fields:
        return
    yield "| field | holds | default | meaning |"
    yield "|---|---|---|---|"
    for field in fields:
        cells = (f"`{field.name}`", _holds(field), _default(field), info_of(field).doc)
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
    yield ""


def _steps(entry: Entry) -> Iterator[str]:
    for step in registry.steps():
        if step.source == entry:
            loss = "lossless" if step.lossless else f"drops {step.drops}"
            name = "" if step.target.name == entry.name else f"{step.target.name} "
            yield f"- to {name}version {step.target.version} ({loss}): {step.doc}"
    yield ""


def _holds(field: Any) -> str:
    info = info_of(field)
    if info.tensor is not None:
        dims = ", ".join(info.tensor.dimensions)
        optional = " or null" if field.default is None else ""
        return f"{' or '.join(info.tensor.dtypes)} `({dims})`{optional}"
    bounds = [
        f"{word} {bound}"
        for word, bound in (("from", info.minimum), ("to", info.maximum))
        if bound is not None
    ]
    return " ".join([_type(field.type), *bounds])


def _type(kind: Any) -> str:
    arguments = get_args(kind)
    if get_origin(kind) in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(map(_type, arguments)))
    if get_origin(kind) is tuple:
        return f"array of {_type(arguments[0])}"
    if get_origin(kind) is dict:
        return f"object of {_type(arguments[1])}"
    if isinstance(kind, type) and issubclass(kind, Enum) and len(kind) <= 8:
        return ", ".join(f"`{member.value}`" for member in kind)
    return _TYPES.get(kind) or str(kind.__name__)


def _default(field: Any) -> str:
    if field.default is NOTHING:
        return "required"
    factory = getattr(field.default, "factory", None)
    value = field.default if factory is None else factory()
    plain = unstructure(value)
    if isinstance(plain, dict) and "type" in plain:
        inner = ", ".join(f"{k}={v}" for k, v in plain.items() if k != "type")
        return f"`{plain['type']}({inner})`"
    return f"`{json.dumps(plain)}`"


def _append(_: "Sphinx", page: str, source: list[str]) -> None:
    if page == PAGE:
        source[0] += markdown()


def setup(app: "Sphinx") -> dict[str, Any]:
    """Register the extension."""
    app.connect("source-read", _append)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
