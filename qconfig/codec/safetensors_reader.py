"""Tensors of a safetensors file: read one by one on demand, or mapped into memory at once."""

import mmap
from typing import TYPE_CHECKING

from qconfig.codec.raw_memory import byte_view
from qconfig.codec.regular_files import open_regular
from qconfig.codec.safetensors_entries import TensorEntry
from qconfig.codec.safetensors_header import Header
from qconfig.codec.tensor_values import ByteRange, LazyTensor
from qconfig.errors import ContainerError, StorageError

if TYPE_CHECKING:
    import torch


def lazy_tensors(header: Header) -> dict[str, LazyTensor]:
    """Return the tensors of a file, each with its byte range and read when it is asked for.

    Nothing is mapped: a file that somebody truncates gives an error and not SIGBUS. `load` gives a
    new tensor each time, and raises ContainerError where the file has become too short and
    StorageError where the file system refuses.
    """
    return {
        name: _lazy_tensor(name, entry, header.byte_range(name))
        for name, entry in header.tensors.items()
    }


def mapped_tensors(header: Header) -> "dict[str, torch.Tensor]":
    """Return the tensors of a file as private mappings of it: no bytes are read or copied yet.

    Writing to such a tensor changes memory only, never the file. The file must keep its size
    while the tensors live: the system kills a process that touches a page beyond its end. Tensors
    that lie unaligned in the file are copied.

    Raises:
        ContainerError: the file has another size than when its header was read.
        StorageError: the file is missing or cannot be mapped.
    """
    import torch

    with open_regular(header.path) as file:
        if file.size != header.file_size:
            raise ContainerError(
                "the file has changed since its header was read",
                file=header.path,
                found=f"{file.size} bytes",
                expected=f"{header.file_size} bytes",
                hint="open the checkpoint again",
            )
        try:
            pages = mmap.mmap(file.descriptor, file.size, access=mmap.ACCESS_COPY)
        except OSError as error:
            raise StorageError(f"cannot map: {error.strerror}", file=header.path) from error
    tensors = {}
    for name, entry in header.tensors.items():
        source = header.byte_range(name)
        if source.length == 0:
            flat = torch.empty(0, dtype=torch.uint8, device="cpu")
        else:
            flat = torch.frombuffer(
                pages, dtype=torch.uint8, count=source.length, offset=source.offset
            )
            if source.offset % entry.dtype.itemsize:
                flat = flat.clone()
        tensors[name] = _shaped(flat, entry)
    return tensors


def _lazy_tensor(name: str, entry: TensorEntry, source: ByteRange) -> LazyTensor:
    def read(part: ByteRange) -> "torch.Tensor":
        import torch

        flat = torch.empty(part.length, dtype=torch.uint8, device="cpu")
        try:
            with open_regular(part.path) as file, byte_view(flat) as view:
                file.read_into(view, part.offset)
        except (ContainerError, StorageError) as error:
            error.at(fqn=name)
            raise
        return flat

    return LazyTensor(entry.dtype, entry.shape, lambda: _shaped(read(source), entry), source, read)


def _shaped(flat: "torch.Tensor", entry: TensorEntry) -> "torch.Tensor":
    return flat.view(entry.dtype.to_torch()).reshape(entry.shape)
