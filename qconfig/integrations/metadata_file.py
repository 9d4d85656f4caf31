"""torch's `.metadata` file, a pickle, checked before torch's classes are made of it."""

from math import prod
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint import metadata as torch_metadata
from torch.distributed.checkpoint.filesystem import (
    FileSystemReader,
    _StorageInfo,
)
from torch.distributed.checkpoint.metadata import Metadata

from qconfig.codec.dtypes import DType
from qconfig.codec.pickled_values import PickledObject
from qconfig.codec.regular_files import open_regular
from qconfig.errors import ContainerError, QconfigError
from qconfig.integrations.metadata_pickle import not_of_torch, read_pickle
from qconfig.limits import current_limits

_FILE = ".metadata"

_MODULE = "torch.distributed.checkpoint.metadata."
_TENSOR = f"{_MODULE}TensorStorageMetadata"
_BYTES = f"{_MODULE}BytesStorageMetadata"
_CHUNK = f"{_MODULE}ChunkStorageMetadata"
_PROPERTIES = f"{_MODULE}TensorProperties"
_INDEX = f"{_MODULE}MetadataIndex"
_WHOLE = f"{_MODULE}Metadata"
_INFO = "torch.distributed.checkpoint.filesystem._StorageInfo"
_SIZE = "torch.Size"
_NAMES = frozenset(
    {
        *(_TENSOR, _BYTES, _CHUNK, _PROPERTIES, _INDEX, _WHOLE, _INFO, _SIZE),
        f"{_MODULE}StorageMeta",
        f"{_MODULE}_MEM_FORMAT_ENCODING",
        "torch.serialization._get_layout",
        *(f"{m}.{c}" for m in ("pathlib", "pathlib._local") for c in ("PosixPath", "WindowsPath")),
    }
)
"""All that torch names there; what is of no use to us may be there too."""


class FilesReader(FileSystemReader):
    """torch's reader of files, with metadata that is not unpickled.

    Attributes:
        failure: what was wrong with the metadata; torch reports it as a text alone.
    """

    failure: QconfigError | None = None

    def read_metadata(self, *_arguments: Any, **_options: Any) -> Metadata:
        """Return what `.metadata` says, all of it checked, and the files that it names.

        Raises:
            ContainerError, StorageError: it cannot be read, or is not what torch writes.
        """
        file = Path(self.path) / _FILE
        try:
            metadata = _metadata(read_pickle(file, _NAMES))
            _check_files(metadata, Path(self.path))
        except QconfigError as error:
            self.failure = error.at(file=file)
            raise
        meta = torch_metadata.StorageMeta()
        meta.load_id = self.load_id
        metadata.storage_meta = meta
        return metadata


def _metadata(tree: Any) -> Metadata:
    state = _state(tree, _WHOLE, dict)
    entries = _checked(state.get("state_dict_metadata"), dict)
    places = _checked(state.get("storage_data"), dict)
    paths = state.get("planner_data")
    for name in {} if paths is None else _checked(paths, dict):
        _checked(name, str)
    return Metadata(
        {_checked(name, str): _entry(entry) for name, entry in entries.items()},
        paths,
        {_index(index): _info(info) for index, info in places.items()},
    )


def _entry(tree: Any) -> Any:
    if isinstance(tree, PickledObject) and tree.path == _BYTES:
        return torch_metadata.BytesStorageMetadata()
    state = _state(tree, _TENSOR, dict)
    properties = _state(state.get("properties"), _PROPERTIES, tuple)
    if not properties or not isinstance(properties[0], DType):
        raise not_of_torch("has a tensor without a type", type(properties).__name__)
    chunks = [_state(c, _CHUNK, dict) for c in _checked(state.get("chunks"), list)]
    return torch_metadata.TensorStorageMetadata(
        torch_metadata.TensorProperties(dtype=properties[0].to_torch()),
        _size(state.get("size")),
        [
            torch_metadata.ChunkStorageMetadata(_size(c.get("offsets")), _size(c.get("sizes")))
            for c in chunks
        ],
    )


def _index(tree: Any) -> torch_metadata.MetadataIndex:
    state = _state(tree, _INDEX, dict)
    offset, index = state.get("offset"), state.get("index")
    if index is not None:
        _checked(index, int)
    name = _checked(state.get("fqn"), str)
    return torch_metadata.MetadataIndex(name, None if offset is None else _size(offset), index)


def _info(tree: Any) -> _StorageInfo:
    state = _state(tree, _INFO, dict)
    name = _checked(state.get("relative_path"), str)
    if not name or {*"/\\\0"} & {*name} or name in {".", ".."}:
        raise not_of_torch("names a file elsewhere", name, "the name of a file beside it")
    descriptors = state.get("transform_descriptors")
    if descriptors is not None:
        descriptors = [_checked(d, str) for d in _checked(descriptors, list)]
    offset, length = _checked(state.get("offset"), int), _checked(state.get("length"), int)
    return _StorageInfo(name, offset, length, descriptors)


def _size(tree: Any) -> torch.Size:
    limits = current_limits()
    arguments = tree.args if isinstance(tree, PickledObject) and tree.path == _SIZE else ()
    sizes = _checked(arguments[0] if len(arguments) == 1 else None, tuple)
    if len(sizes) > limits.rank:
        raise not_of_torch("has too many dimensions", len(sizes), limits.describe("rank"))
    for n in sizes:
        if not 0 <= _checked(n, int) <= limits.dimension:
            raise not_of_torch("has a dimension beyond bounds", n, limits.describe("dimension"))
    return torch.Size(sizes)


def _state(tree: Any, path: str, kind: type) -> Any:
    if not isinstance(tree, PickledObject) or tree.path != path:
        found = tree.path if isinstance(tree, PickledObject) else type(tree).__name__
        raise not_of_torch("has another value than torch writes", found, path)
    return _checked(tree.state, kind)


def _checked(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise not_of_torch(
            "has another value than torch writes", type(value).__name__, kind.__name__
        )
    return value


def _check_files(metadata: Metadata, folder: Path) -> None:
    """Compare what tensors take with the files, before memory is taken for them."""
    sizes: dict[str, int] = {}
    stored: dict[str, int] = {}
    for index, info in metadata.storage_data.items():
        name = info.relative_path
        if name not in sizes:
            with open_regular(folder / name) as file:
                sizes[name] = file.size
        if not 0 <= info.offset <= info.offset + info.length <= sizes[name]:
            raise ContainerError(
                "the file is shorter than the metadata says",
                file=folder / name,
                found=f"{sizes[name]} bytes",
                expected=f"{info.offset + info.length} bytes, for {index.fqn}",
                hint="restore the checkpoint",
            )
        # What is transformed, such as compressed, may be any size.
        most = info.length if info.transform_descriptors is None else current_limits().dimension
        stored[index.fqn] = stored.get(index.fqn, 0) + most
    for fqn, entry in metadata.state_dict_metadata.items():
        if not isinstance(entry, torch_metadata.TensorStorageMetadata):
            continue
        size = prod(entry.size) * DType.parse(entry.properties.dtype).itemsize
        if size > stored.get(fqn, 0):
            raise ContainerError(
                "a tensor takes more bytes than are stored of it",
                fqn=fqn,
                found=f"{size} bytes",
                expected=f"at most {stored.get(fqn, 0)} bytes",
            )
