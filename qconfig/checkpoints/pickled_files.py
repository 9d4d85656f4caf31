"""Where the files of a pickled checkpoint lie, and which of their names are of one tensor."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import evolve

from qconfig.checkpoints.guidance import StateDictPlace
from qconfig.codec.index_file import SUFFIX, ShardIndex, check_link, read_index, shard_path
from qconfig.codec.pickled_values import (
    PickledEnum,
    PickledFunction,
    PickledObject,
    PickledSubclass,
    PickledTensor,
)
from qconfig.codec.torch_files import TorchFile
from qconfig.errors import CheckpointError, ContainerError, QconfigError, nearest

INDEX_FILE = "pytorch_model.bin.index.json"
SINGLE_PICKLE = "pytorch_model.bin"
SUFFIXES = (".pt", ".pth", ".bin", ".ckpt")

_MOST_NAMES = 4
_NAMES = "a state_dict: a dict from names to tensors"


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
        check_link(path / INDEX_FILE, follow_symlinks=follow_symlinks)
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


def at_place(file: TorchFile, place: StateDictPlace) -> tuple[TorchFile, tuple[str, ...]]:
    """Return a file with the state_dict that it holds at a place for its root, and notes.

    Raises:
        CheckpointError: there is no such entry, no name has the prefix, or two names are the same
            without it.
    """
    notes: list[str] = []
    root: Any = file.root
    if place.key is not None:
        root = _entry(file, place.key)
        others = [str(key) for key in file.root if key != place.key]
        notes += [f"beside {place.key} and left out: {_some(others)}"] if others else []
        file = evolve(file, root=root, attributes={})
    if not place.prefix:
        return file, tuple(notes)
    if not isinstance(root, Mapping):
        raise CheckpointError("not a state_dict", file=file.path, found=root, expected=_NAMES)
    without: dict[Any, Any] = {}
    cut = [key for key in root if isinstance(key, str) and key.startswith(place.prefix)]
    for key, value in root.items():
        name = key.removeprefix(place.prefix) if isinstance(key, str) else key
        if name in without or name == "":
            raise CheckpointError(
                "two names are the same, or one is empty, without the prefix",
                file=file.path,
                fqn=str(key),
                found=place.prefix,
            )
        without[name] = value
    if not cut:
        raise CheckpointError(
            "no name begins with the prefix",
            file=file.path,
            found=place.prefix,
            expected=f"the beginning of names such as {_some([str(key) for key in root])}",
        )
    notes.append(f"{place.prefix} is taken off {len(cut)} of {len(root)} names")
    return evolve(file, root=without), tuple(notes)


def compared_with_index(
    index: ShardIndex, file: Path, opened: Mapping[str, TorchFile], place: StateDictPlace
) -> tuple[list[QconfigError], list[str]]:
    """Return problems where the index says what no file bears out, and notes of what it omits.

    Args:
        index: what an index says.
        file: where it stands.
        opened: the files by name, as they were read.
        place: where their state_dicts are; the index has names with their prefix.
    """
    file_of: dict[str, str] = {}
    for shard, whole in opened.items():
        root = at_place(whole, StateDictPlace(place.key))[0].root
        names = root if isinstance(root, Mapping) else ()
        file_of |= {name: shard for name in names if isinstance(name, str)}
    problems: list[QconfigError] = [
        CheckpointError(
            "the index names a shard that does not hold the tensor",
            file=file,
            fqn=name,
            found=shard,
            expected=file_of.get(name, "a shard that holds it"),
        )
        for name, shard in index.weight_map.items()
        if file_of.get(name) != shard
    ]
    notes = [
        f"{shard} holds {name}, which is not in the index"
        for name, shard in file_of.items()
        if name not in index.weight_map
    ]
    return problems, notes


def place_hint(root: Any) -> str | None:
    """Return how to say where in a saved value its state_dict is, or None if it is in none."""
    if not isinstance(root, Mapping):
        return None
    found = [key for key, value in root.items() if isinstance(key, str) and _has_tensors(value)]
    if not found:
        return None
    best = next((key for key in found if "state_dict" in key or "model" in key), found[0])
    return f"the tensors lie under {best}: upgrade and inspect read them with --key {best}"


def _has_tensors(value: Any) -> bool:
    if not isinstance(value, Mapping):
        return False
    return any(isinstance(v, PickledTensor | PickledSubclass) for v in value.values())


def _entry(file: TorchFile, key: str) -> Any:
    if isinstance(file.root, Mapping) and key in file.root:
        return file.root[key]
    keys = [str(k) for k in file.root] if isinstance(file.root, Mapping) else []
    raise CheckpointError(
        "the file has no such entry",
        file=file.path,
        found=key,
        expected=f"one of {_some(keys)}" if keys else "a file that holds a dict",
        hint=nearest(key, keys),
    )


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:_MOST_NAMES])
    return shown if len(names) <= _MOST_NAMES else f"{shown} and {len(names) - _MOST_NAMES} more"


def shard_name(name: str) -> str:
    """Return the name of the safetensors file that holds what a pickle of that name held."""
    stem = Path(name).stem
    return stem.removeprefix("pytorch_") + SUFFIX
