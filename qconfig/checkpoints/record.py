"""The `qconfig` entry of a safetensors header: which tensors belong together, in which layout.

One JSON string, with container version 1 and `min_reader` 1:
`{"container": 1, "min_reader": 1, "layouts": [], "tensors": {fqn: index}, "ties": {alias: fqn}}`.
Container version 2, which readers of version 1 take too, may have one key more:
`"digests": {"algorithm": "xxh3_64", "header": hex, "tensors": hex}`, see `Digests`.
A layout is described once, by its document with dtype and shape of each inner tensor, and shared
by all tensors of that form; the inner tensors themselves are named `<fqn>.<field>`. A tied tensor
is stored once; `ties` has its other names.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import attrs
from attrs import frozen

from qconfig.codec import strict_json
from qconfig.codec.converter import structure_as_written, unstructure
from qconfig.codec.digests import Digests
from qconfig.errors import (
    MOST_PROBLEMS,
    ContainerError,
    DocumentSyntaxError,
    NewerVersionError,
    QconfigError,
    raise_problems,
)
from qconfig.versioning import Kind, Layout

METADATA_KEY = "qconfig"
CONTAINER_VERSION = 2

_OLDEST_READER = 1
_DIGESTS = "digests"
_KEYS = {"container", "min_reader", "layouts", "tensors", "ties"}
_FORMS = {1: [_KEYS], 2: [_KEYS, _KEYS | {_DIGESTS}]}


@frozen
class Record:
    """What the record of one file says.

    Args:
        layouts: layouts by FQN, as written, with specs in place of tensors.
        ties: further names of stored tensors, plain or quantized.
        digests: of the whole file, where it has them.
    """

    layouts: dict[str, Layout] = attrs.field(factory=dict)
    ties: dict[str, str] = attrs.field(factory=dict)
    digests: Digests | None = None


def inner_name(fqn: str, field: str) -> str:
    """Return the name under which a layout's tensor field is stored."""
    return f"{fqn}.{field}"


def write_record(layouts: Mapping[str, Layout], ties: Mapping[str, str]) -> str:
    """Return the JSON string for the quantized tensors of one file, by FQN, and for its ties."""
    return strict_json.dumps_compact(record_data(layouts, ties))


def with_digests(record: Mapping[str, Any], digests: Digests) -> str:
    """Return the JSON string for what `record_data` gave and for the digests of the file."""
    added = {"container": CONTAINER_VERSION, _DIGESTS: digests.to_data()}
    return strict_json.dumps_compact({**record, **added})


def record_data(layouts: Mapping[str, Layout], ties: Mapping[str, str]) -> dict[str, Any]:
    """Return the record without digests as plain data, see `write_record`."""
    interned: dict[str, int] = {}
    documents: list[Any] = []
    tensors: dict[str, int] = {}
    for fqn, layout in layouts.items():
        document = unstructure(layout)
        key = strict_json.dumps_compact(document)
        if key not in interned:
            interned[key] = len(documents)
            documents.append(document)
        tensors[fqn] = interned[key]
    return {
        "container": _OLDEST_READER,
        "min_reader": _OLDEST_READER,
        "layouts": documents,
        "tensors": tensors,
        "ties": dict(ties),
    }


def read_record(text: str, *, file: Path) -> Record:
    """Return what the record of a file says.

    Raises:
        DocumentSyntaxError: not strict JSON.
        NewerVersionError: the container or a layout is newer than this release.
        ContainerError: the record breaks its form.
        DocumentError: a layout document is wrong.
    """
    where = f"/__metadata__/{METADATA_KEY}"
    try:
        data = strict_json.loads(text, file=file)
    except DocumentSyntaxError as error:
        raise error.at(pointer_prefix=where) from None
    if not isinstance(data, dict):
        raise _malformed(file, where, data, "an object")
    min_reader = data.get("min_reader")
    if type(min_reader) is int and min_reader > CONTAINER_VERSION:
        raise NewerVersionError(
            "the container is newer than this qconfig",
            file=file,
            pointer=f"{where}/min_reader",
            found=min_reader,
            expected=f"a container for readers of version {CONTAINER_VERSION}",
            hint="upgrade qconfig",
        )
    version = data.get("container")
    if type(version) is not int or type(min_reader) is not int or min(version, min_reader) < 1:
        raise _malformed(file, where, data, "container and min_reader from 1")
    # A newer container that this reader may still read can have keys that it does not know.
    if version in _FORMS and set(data) not in _FORMS[version]:
        raise _malformed(file, where, sorted(data), ", ".join(sorted(_FORMS[version][-1])))
    documents, tensors, ties = (data.get(key) for key in ("layouts", "tensors", "ties"))
    if not isinstance(documents, list) or not isinstance(tensors, dict):
        raise _malformed(file, where, data, "a list layouts and an object tensors")
    if not isinstance(ties, dict) or not all(isinstance(name, str) for name in ties.values()):
        raise _malformed(file, f"{where}/ties", ties, "an object of names")
    layouts = _layouts(documents, f"{where}/layouts", file)
    for fqn, index in tensors.items():
        if type(index) is not int or not 0 <= index < len(layouts):
            raise _malformed(file, f"{where}/tensors", f"{fqn}: {index}", "an index into layouts")
    digests = Digests.from_data(data[_DIGESTS]) if _DIGESTS in data else None
    if version == CONTAINER_VERSION and _DIGESTS in data and digests is None:
        raise _malformed(
            file,
            f"{where}/{_DIGESTS}",
            data[_DIGESTS],
            "algorithm, header and tensors, with 16 hexadecimal digits for each digest",
        )
    return Record({fqn: layouts[index] for fqn, index in tensors.items()}, ties, digests)


def _layouts(documents: Iterable[Any], where: str, file: Path) -> list[Layout]:
    layouts, problems = [], list[QconfigError]()
    for i, document in enumerate(documents):
        try:
            layouts.append(structure_as_written(document, Kind.LAYOUT))
        except QconfigError as error:
            problems += [p.at(file=file, pointer_prefix=f"{where}/{i}") for p in error.problems]
            if len(problems) >= MOST_PROBLEMS:
                break
    raise_problems(problems, file=file)
    return layouts


def _malformed(file: Path, pointer: str, found: object, expected: str) -> QconfigError:
    return ContainerError(
        "the qconfig record is malformed",
        file=file,
        pointer=pointer,
        found=found,
        expected=expected,
        hint="the file was changed by hand or by another tool; restore it",
    )
