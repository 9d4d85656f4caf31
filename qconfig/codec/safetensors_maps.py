"""Safetensors files of one call, mapped into memory; what the call itself looks at is read.

The system kills a process that touches a page of a mapping beyond the end of its file. So nothing
here touches one: a file that shrinks during the call gives an error, whatever it was doing.
"""

import mmap
import os
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
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
        self._views: dict[Path, Callable[..., torch.Tensor]] = {}
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
        source = tensor.source
        if source is None or not source.length or source.offset % tensor.dtype.itemsize:
            return tensor.load()
        view = self._views.get(source.path)
        if view is None or is_part:
            header = self._headers.get(source.path)
            if header is None or (is_part and self._is_worse(header, tensor)):
                return tensor.load()
            view = view or self._map(header)
        dtype = self._dtypes.get(tensor.dtype)
        if dtype is None:
            dtype = self._dtypes[tensor.dtype] = tensor.dtype.to_torch()
        count = source.length // tensor.dtype.itemsize
        flat = view(dtype=dtype, count=count, offset=source.offset)
        shape = tensor.shape
        if len(shape) < 2:
            return flat if shape else flat.view(shape)
        # Sizes one by one: torch takes half as long again over a tuple.
        return flat.view(*shape)

    def check_unchanged(self) -> None:
        """Check of every file that was mapped or read from that it is as it was.

        Raises:
            ContainerError: somebody wrote to it meanwhile.
            StorageError: it is missing.
        """
        for header in self._used.values():
            with self._opened(header) as file:
                _check(file, header)

    def _map(self, header: Header) -> "Callable[..., torch.Tensor]":
        """Map a file, and return what gives a vector of some of its bytes."""
        import torch

        with self._opened(header) as file:
            _check(file, header)
            try:
                pages = mmap.mmap(file.descriptor, header.file_size, access=mmap.ACCESS_COPY)
            except OSError as error:
                raise StorageError(f"cannot map: {error.strerror}", file=header.path) from error
            except ValueError:  # it has become shorter since
                raise _changed(header, file) from None
        view = self._views[header.path] = partial(torch.frombuffer, pages)
        return view

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
