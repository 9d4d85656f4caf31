"""Where the files of a pickled checkpoint lie, and which of their names are of one tensor."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from qconfig.codec.index_file import SUFFIX, ShardIndex, read_index, shard_path
from qconfig.codec.pickled_values import (
    PickledEnum,
    PickledFunction,
    PickledObject,
    PickledSubclass,
    PickledTensor,
)
from qconfig.errors import ContainerError

INDEX_FILE = "pytorch_model.bin.index.json"
SINGLE_PICKLE = "pytorch_model.bin"
SUFFIXES = (".pt", ".pth", ".bin", ".ckpt")


def memory_of(value: Any) -> Any:
    """Return what two names share if, and only if, they name the same tensor."""
    if isinstance(value, PickledTensor):
        lazy = value.value
        return (value.storage, value.offset, value.strides, lazy.shape, lazy.dtype)
    if isinstance(value, Mapping):
        return tuple((repr(key), memory_of(item)) for key, item in value.items())
    if isinstance(value, list | tuple):
        return tuple(map(memory_of, value))
    parts = _PARTS.get(type(value))
    if parts is None:
        return (type(value).__name__, repr(value))
    return (type(value).__name__, *(memory_of(getattr(value, part)) for part in parts))


_PARTS: Mapping[type, tuple[str, ...]] = {
    PickledEnum: ("path", "value", "member"),
    PickledFunction: ("path", "args", "kwargs", "bound_to"),
    PickledObject: ("path", "args", "state"),
    PickledSubclass: ("path", "dtype", "shape", "strides", "state"),
}


def pickled_files(
    path: Path, *, follow_symlinks: bool
) -> tuple[dict[str, Path], ShardIndex | None]:
    """Return the files with tensors by name, and what says where they are.

    Raises:
        ContainerError: there are none, or several and no index.
        StorageError: one that the index names is missing.
    """
    if not path.is_dir():
        return {path.name: path}, None
    if os.path.lexists(path / INDEX_FILE):
        index = read_index(path / INDEX_FILE, suffix=".bin")
        names = sorted(set(index.weight_map.values()))
        files = {
            name: shard_path(path, name, follow_symlinks=follow_symlinks, suffix=".bin")
            for name in names
        }
        return files, index
    present = sorted(p.name for p in path.iterdir() if p.suffix in SUFFIXES)
    if SINGLE_PICKLE in present or len(present) == 1:
        name = SINGLE_PICKLE if SINGLE_PICKLE in present else present[0]
        suffix = Path(name).suffix
        file = shard_path(path, name, follow_symlinks=follow_symlinks, suffix=suffix)
        return {name: file}, None
    raise ContainerError(
        "no pickled checkpoint here" if not present else "several files and no index",
        file=path,
        found=present,
        expected=f"{SINGLE_PICKLE}, or {INDEX_FILE} and the files that it names",
        hint="name one file by its path",
    )


def shard_name(name: str) -> str:
    """Return the name of the safetensors file that holds what a pickle of that name held."""
    stem = Path(name).stem
    return stem.removeprefix("pytorch_") + SUFFIX
