"""Archives of torch.save's form, made by torch itself or record by record."""

import io
import pickle
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from qconfig.codec.pickled_values import Role
from qconfig.codec.torch_files import read_torch_file

STORAGE = (
    b"((X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x04tQ"
)
"""Pushes a mark and the storage "0" of four floats."""


def saved(value: Any, path: Path, **options: Any) -> Path:
    """Let torch save a value."""
    torch.save(value, path, **options)
    return path


def archive(records: Mapping[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    """Return a zip archive of records in the folder `archive`."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as file:
        for name, data in records.items():
            file.writestr(f"archive/{name}", data)
    return buffer.getvalue()


def of_pickle(data: bytes, storages: Mapping[str, bytes] | None = None) -> bytes:
    """Return an archive with a pickle, and storages by key."""
    records = {"data.pkl": data, "version": b"3\n", "byteorder": b"little"}
    return archive(records | {f"data/{k}": v for k, v in (storages or {}).items()})


def root_of(
    data: bytes,
    path: Path,
    names: Mapping[str, Role] | None = None,
    storages: Mapping[str, bytes] | None = None,
) -> Any:
    """Return what a pickle gives inside an archive."""
    path.write_bytes(of_pickle(data, storages))
    return read_torch_file(path, names or {}).root


def global_of(path: str) -> bytes:
    """Return the instruction that names a class, by "module.name"."""
    module, _, name = path.rpartition(".")
    return f"c{module}\n{name}\n".encode()


class Calls:
    """Pickles as a call: Python's unpickler would make it."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> Any:
        return self.call


def call_of(function: Any, *arguments: Any, protocol: int = 2) -> bytes:
    """Return a pickle that calls a function when Python reads it."""
    return pickle.dumps({"weight": Calls(function, *arguments)}, protocol)


def unfolded(value: Any) -> Any:
    """Return a tree with its tensors loaded."""
    if isinstance(value, dict):
        return {k: unfolded(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(unfolded, value))
    return value.value.load() if hasattr(value, "value") else value
