"""Safetensors files of one call, mapped into memory; what the call itself looks at is read.

The system kills a process that touches a page of a mapping beyond the end of its file. So nothing
here touches one: a file that shrinks during the call gives an error, whatever it was doing.
"""

import mmap
import os
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Self

from qconfig.codec.dtypes import DType
from qconfig.codec.regular_files import OpenFile, open_regular
from qconfig.codec.safetensors_header import Header
from qconfig.codec.safetensors_reader import lazy_tensors
from qconfig.codec.tensor_values import LazyTensor
from qconfig.errors import ContainerError, StorageError

if TYPE_CHECKING:
    import torch

ALIGNED = 64
"""Bytes at a multiple of which the tensors of our files start."""

_MOST_OPEN = 64
"""Files that are kept open: those of a checkpoint may be more than a process may open."""


class MappedFiles:
    """The files that one call reads from, each known to be what its header was read of.

    A context manager: at its end the files are closed, and what was mapped lives on in the
    tensors. Writing to such a tensor changes memory only, never the file.
    """

    def __init__(self) -> None:
        self._headers: dict[Path, Header] = {}
        self._open: dict[Path, tuple[ExitStack, OpenFile]] = {}
        self._pages: dict[Path, mmap.mmap] = {}
        self._starts: dict[Path, list[int]] = {}
        self._used: dict[Path, Header] = {}
        self._dtypes: dict[DType, torch.dtype] = {}

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the files."""
        while self._open:
            self._open.popitem()[1][0].close()

    def tensors(self, header: Header) -> dict[str, LazyTensor]:
        """Return the tensors of a file, which is opened when the first of them is asked for.

        `load` reads into memory and maps nothing.
        """
        self._headers[header.path] = header
        return lazy_tensors(header, self._opened)

    def mapped(self, tensor: LazyTensor, *, is_part: bool = False) -> "torch.Tensor":
        """Return a tensor as a view of its file, no bytes read; one that cannot be is loaded.

        That is one that is computed, lies unaligned, or is a part that starts at a worse place
        than the stored tensor around it.

        Args:
            tensor: made of those that `tensors` gave.
            is_part: whether it may be a part of a stored one.

        Raises:
            ContainerError: the file has another size or time than when its header was read.
            StorageError: the file is missing or cannot be mapped.
        """
        import torch

        source = tensor.source
        header = self._headers.get(source.path) if source is not None else None
        if source is None or header is None or not source.length:
            return tensor.load()
        if source.offset % tensor.dtype.itemsize or (is_part and self._is_worse(header, tensor)):
            return tensor.load()
        dtype = self._dtypes.get(tensor.dtype)
        if dtype is None:
            dtype = self._dtypes[tensor.dtype] = tensor.dtype.to_torch()
        pages = self._pages.get(source.path)
        if pages is None:
            pages = self._pages[source.path] = self._map(header)
        count = source.length // dtype.itemsize
        flat = torch.frombuffer(pages, dtype=dtype, count=count, offset=source.offset)
        return flat if len(tensor.shape) == 1 else flat.view(tensor.shape)

    def check_unchanged(self) -> None:
        """Check of every file that was mapped or read from that it is as it was.

        Raises:
            ContainerError: somebody wrote to it meanwhile.
            StorageError: it is missing.
        """
        for header in self._used.values():
            with self._opened(header) as file:
                _check(file, header)

    def _map(self, header: Header) -> mmap.mmap:
        with self._opened(header) as file:
            _check(file, header)
            try:
                pages = mmap.mmap(file.descriptor, header.file_size, access=mmap.ACCESS_COPY)
            except OSError as error:
                raise StorageError(f"cannot map: {error.strerror}", file=header.path) from error
            except ValueError:  # it has become shorter since
                raise _changed(header, file) from None
        return pages

    @contextmanager
    def _opened(self, header: Header) -> Iterator[OpenFile]:
        known = self._open.pop(header.path, None)
        if known is None:
            while len(self._open) >= _MOST_OPEN:
                self._open.pop(next(iter(self._open)))[0].close()
            stack = ExitStack()
            known = stack, stack.enter_context(open_regular(header.path))
            self._used.setdefault(header.path, header)
        # Put last: the first one is that which was not used for longest.
        self._open[header.path] = known
        yield known[1]

    def _is_worse(self, header: Header, tensor: LazyTensor) -> bool:
        if tensor.source is None:
            return False
        offset = tensor.source.offset - header.data_start
        starts = self._starts.get(header.path)
        if starts is None:
            starts = sorted({entry.start for entry in header.tensors.values()})
            self._starts[header.path] = starts
        return bool((offset - starts[bisect_right(starts, offset) - 1]) % ALIGNED)


def _check(file: OpenFile, header: Header) -> None:
    status = os.fstat(file.descriptor)
    stamp = status.st_ino, status.st_mtime_ns
    if status.st_size != header.file_size or header.stamp not in (None, stamp):
        raise _changed(header, file)


def _changed(header: Header, file: OpenFile) -> ContainerError:
    size = os.fstat(file.descriptor).st_size
    same = size == header.file_size
    return ContainerError(
        "the file has changed since its header was read",
        file=header.path,
        found="another time of change" if same else f"{size} bytes",
        expected="the time when it was opened" if same else f"{header.file_size} bytes",
        hint="open the checkpoint again",
    )
