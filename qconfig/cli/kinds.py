"""Tell checkpoints from configs by their paths, and read what a config file says of itself."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attrs import frozen

from qconfig.checkpoints.dialects import file_dialect
from qconfig.codec.documents import FORMATS
from qconfig.errors import UnknownNameError, UsageError, json_pointer
from qconfig.versioning import Entry, Kind, registry


def is_checkpoint(path: Path, dialect: str | None = None) -> bool:
    """Return whether a path is taken for a checkpoint: a directory, or a file of tensors.

    Args:
        path: as it was given.
        dialect: in whose form it is, where the user says so. Then every file but a document is
            taken for one.
    """
    if path.is_dir() or path.suffix == ".safetensors" or file_dialect(path) is not None:
        return True
    return dialect is not None and path.suffix.lower() not in FORMATS


def check_directory(target: Path) -> None:
    """Raise UsageError for the name of a new file: a checkpoint is written as a directory."""
    if os.path.lexists(target):
        return
    if target.suffix == ".safetensors" or file_dialect(target) is not None:
        raise UsageError(
            "a checkpoint is written as a directory",
            file=target,
            expected="the name of a new directory",
            hint=f"leave {target.suffix} out",
        )


@frozen
class Place:
    """A config inside a document.

    Args:
        pointer: JSON pointer to it.
        entry: its name and the version it was written in.
    """

    pointer: str
    entry: Entry


def configs_in(data: Any, pointer: str = "") -> Iterator[Place]:
    """Yield the configs of a valid document in our form, outer ones first."""
    if isinstance(data, dict):
        entry = _entry(data)
        if entry is not None:
            yield Place(pointer, entry)
    for key, value in children(data):
        yield from configs_in(value, pointer + key)


def children(data: Any) -> list[tuple[str, Any]]:
    """Return the members of an object or array, with their JSON pointers."""
    if isinstance(data, dict):
        return [(json_pointer(k), v) for k, v in data.items()]
    if isinstance(data, list | tuple):
        return [(json_pointer(i), v) for i, v in enumerate(data)]
    return []


def _entry(data: dict[str, Any]) -> Entry | None:
    if "version" not in data:
        return None
    try:
        entry = registry.get(data.get("type"), data["version"])
    except UnknownNameError:
        return None
    return entry if entry.kind is Kind.CONFIG else None
