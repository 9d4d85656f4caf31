"""Tensors of safetensors files, read one by one when they are asked for; nothing is mapped."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from qconfig.codec.raw_memory import byte_view, empty_bytes
from qconfig.codec.regular_files import OpenFile, open_regular
from qconfig.codec.safetensors_entries import TensorEntry
from qconfig.codec.safetensors_header import Header
from qconfig.codec.tensor_values import ByteRange, LazyTensor
from qconfig.errors import ContainerError, StorageError

if TYPE_CHECKING:
    import torch

Opener = Callable[[Header], AbstractContextManager[OpenFile]]
"""Gives the file of a header, open for the time that the context lasts."""


def lazy_tensors(header: Header, opener: Opener | None = None) -> dict[str, LazyTensor]:
    """Return the tensors of a file, each with its byte range and read when it is asked for.

    Nothing is mapped: a file that somebody truncates gives an error and not SIGBUS. `load` gives a
    new tensor each time, and raises ContainerError where the file has become too short and
    StorageError where the file system refuses.

    Args:
        header: what the file said.
        opener: opens it; by default each time, by its path.
    """
    opened = opener or _by_path
    return {name: _lazy(name, entry, header, opened) for name, entry in header.tensors.items()}


def _by_path(header: Header) -> AbstractContextManager[OpenFile]:
    return open_regular(header.path)


def _lazy(name: str, entry: TensorEntry, header: Header, opener: Opener) -> LazyTensor:
    source = ByteRange(header.path, header.data_start + entry.start, entry.end - entry.start)

    def read(part: ByteRange) -> "torch.Tensor":
        flat = empty_bytes(part.length)
        try:
            with opener(header) as file, byte_view(flat) as view:
                file.read_into(view, part.offset)
        except (ContainerError, StorageError) as error:
            error.at(fqn=name)
            raise
        return flat

    return LazyTensor(entry.dtype, entry.shape, lambda: _shaped(read(source), entry), source, read)


def _shaped(flat: "torch.Tensor", entry: TensorEntry) -> "torch.Tensor":
    return flat.view(entry.dtype.to_torch()).reshape(entry.shape)
