"""Writing safetensors files of any size with one tensor in memory at a time.

Tensors that are still the bytes of another file are copied by the kernel. What a mapped file holds
should be ready for vector instructions: data begins at a multiple of 64, tensors whose size is one
come first and therefore stay there, and the rest follows in the order of safetensors 0.8.0 (widest
dtypes first, so that each lies at a multiple of its own width, then by name).

What is computed is written by a thread while the next is made, see `write_behind`.

A header with digests is written when all tensors are, into the space that was left for it.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from itertools import accumulate, zip_longest
from pathlib import Path
from typing import Any

from attrs import define

from qconfig.codec.byte_copy import NO_ROOM, NO_SPACE, copy_range, write_all
from qconfig.codec.digests import BLANK, Digests, digested_beside, header_digest
from qconfig.codec.dtypes import DType
from qconfig.codec.new_files import open_new
from qconfig.codec.regular_files import OpenFile, open_regular
from qconfig.codec.safetensors_entries import METADATA_KEY, header_shape
from qconfig.codec.safetensors_header import LENGTH_BYTES, parse_header
from qconfig.codec.strict_json import dumps_compact
from qconfig.codec.tensor_values import ByteRange, LazyTensor, nbytes
from qconfig.codec.write_behind import Placed, write_computed
from qconfig.errors import ContainerError, FieldError, StorageError
from qconfig.limits import current_limits

Metadata = Mapping[str, str] | Callable[[Digests], Mapping[str, str]]
"""Header metadata; or what makes it from digests, which then are computed while writing.

Digests of as many tensors have to give strings of the same length.
"""

_ALIGNMENT = 64
_Item = tuple[str, LazyTensor, int]  # name, tensor, bytes
_D = DType
_ORDER = {
    dtype: rank
    for rank, dtype in enumerate(
        (
            *(_D.UINT64, _D.INT64, _D.FLOAT64, _D.COMPLEX64),
            *(_D.FLOAT32, _D.UINT32, _D.INT32),
            *(_D.BFLOAT16, _D.FLOAT16, _D.UINT16, _D.INT16),
            *(_D.FLOAT8_E5M2FNUZ, _D.FLOAT8_E4M3FNUZ, _D.FLOAT8_E8M0FNU),
            *(_D.FLOAT8_E4M3FN, _D.FLOAT8_E5M2),
            *(_D.INT8, _D.UINT8, _D.FLOAT4_E2M1FN_X2, _D.BOOL),
        )
    )
}


@define
class _Run:
    """Tensors that follow each other in the target and in their source."""

    tensors: list[_Item]
    source: ByteRange
    position: int


def write_safetensors(
    path: Path | str,
    tensors: Mapping[str, LazyTensor],
    metadata: Metadata,
    *,
    known: Mapping[ByteRange, str] | None = None,
    progress: Callable[[str, int], None] | None = None,
) -> None:
    """Write a new safetensors file and bring it to the disk.

    The names, shapes and sizes are checked by the reader's rules before the file is made. If
    anything fails later, the file is removed. The same tensors and metadata give the same bytes.

    Args:
        path: the file; there must be none. The caller fsyncs the directory.
        tensors: what to write. One with a `source` is copied from there; any other is made once,
            as a whole or some rows at a time, in the order of this mapping. While it is made, no
            more than the one before is in memory.
        metadata: goes under `__metadata__`, which is left out if there is none.
        known: digests of byte ranges, which are copied without being read then. Where one is
            wrong, so is the file's, and whoever checks it finds that out.
        progress: called with the name and the bytes of each tensor that has been written.

    Raises:
        ContainerError: a dtype that safetensors has no code for, a name or shape that a reader
            would refuse, or a tensor that differs from its declaration.
        StorageError: the file exists already or cannot be written, or a source cannot be read.
    """
    path = Path(path)
    items, header, size = _planned(path, tensors, metadata)
    found: dict[str, str] | None = {} if callable(metadata) else None
    with _new_file(path, size) as target:
        with _writing(path, size):
            _reserve(target, size)
            if found is None:
                write_all(target, header)
        placed = _placed(items, len(header))
        for run in _copies(placed):
            with _writing(path, size):
                os.lseek(target, run.position, os.SEEK_SET)
            with open_regular(run.source.path) as file, _writing(path, size):
                _copy_run(file, target, run.source, run.tensors, known=known or {}, found=found)
            if progress:
                for name, _, length in run.tensors:
                    progress(name, length)
        computed = {
            name: Placed(name, tensor, position, length)
            for (name, tensor, length), position in placed
            if tensor.source is None
        }
        order = [computed[name] for name in tensors if name in computed]
        writing = partial(_writing, path, size)
        for done in write_computed(target, order, writing, digests=found is not None):
            if found is not None:
                found[done.name] = done.digest
            if progress:
                progress(done.name, done.size)
        with _writing(path, size):
            if found is not None and callable(metadata):
                os.lseek(target, 0, os.SEEK_SET)
                write_all(target, _digested_header(items, metadata, found, len(header)))
            os.fsync(target)


def check_safetensors(
    path: Path | str,
    tensors: Mapping[str, LazyTensor],
    metadata: Metadata,
) -> None:
    """Check everything that `write_safetensors` does before it makes the file.

    Args:
        path: what errors name.
        tensors: as there.
        metadata: as there.

    Raises:
        ContainerError: as there.
    """
    _planned(Path(path), tensors, metadata)


def _planned(
    path: Path, tensors: Mapping[str, LazyTensor], metadata: Metadata
) -> tuple[list[_Item], bytes, int]:
    """Return the tensors in the order of the file, its header, and its bytes."""
    try:
        items = [(name, tensor, _length(name, tensor)) for name, tensor in tensors.items()]
        items.sort(key=_place)
        said = metadata(Digests.blank(len(items))) if callable(metadata) else metadata
        return items, *_header(path, items, said)
    except ContainerError as error:
        error.at(file=path)
        raise


def _place(item: _Item) -> tuple[bool, int, str]:
    name, tensor, length = item
    return not length or length % _ALIGNMENT != 0, _ORDER[tensor.dtype], name


def _length(name: str, tensor: LazyTensor) -> int:
    if tensor.dtype not in _ORDER:
        raise ContainerError(
            f"safetensors has no code for {tensor.dtype}",
            fqn=name,
            found=str(tensor.dtype),
            expected=", ".join(_ORDER),
            hint="store the elements under another dtype, such as uint8",
        )
    length = nbytes(tensor)
    if tensor.source is not None and tensor.source.length != length:
        raise ContainerError(
            "the byte range does not fit dtype and shape",
            fqn=name,
            found=f"{tensor.source.length} bytes of {tensor.source.path}",
            expected=f"{length} bytes for {tensor.dtype} {tensor.shape}",
        )
    return length


def _header(path: Path, items: list[_Item], metadata: Mapping[str, str]) -> tuple[bytes, int]:
    header = _header_bytes(items, metadata)
    bounds, length = current_limits(), len(header) - LENGTH_BYTES
    if length > bounds.header_bytes:
        raise ContainerError(
            "the header is too long",
            found=f"{length} bytes for {len(items)} tensors",
            expected=f"bytes: {bounds.describe('header_bytes')}",
            hint="write more, smaller shards: --max-shard-size or max_shard_bytes=",
        )
    size = len(header) + sum(length for *_, length in items)
    # Reading the header back here means that no rule can differ between reader and writer.
    parse_header(header, file_size=size, path=path)
    return header, size


def _header_bytes(items: list[_Item], metadata: Mapping[str, str]) -> bytes:
    content: dict[str, Any] = {METADATA_KEY: dict(sorted(metadata.items()))} if metadata else {}
    position = 0
    for name, tensor, length in items:
        if name == METADATA_KEY:
            raise ContainerError("a tensor has the name of the metadata", fqn=name)
        try:
            shape = header_shape(tensor.dtype, tensor.shape)
        except ContainerError as error:
            error.at(fqn=name)
            raise
        content[name] = {
            "dtype": tensor.dtype.safetensors_code,
            "shape": shape,
            "data_offsets": [position, position + length],
        }
        position += length
    try:
        text = dumps_compact(content).encode()
    except FieldError as error:
        raise ContainerError(f"in the header: {error.message}", found=error.found) from None
    text += b" " * (-(LENGTH_BYTES + len(text)) % _ALIGNMENT)
    return len(text).to_bytes(LENGTH_BYTES, "little") + text


def _digested_header(
    items: list[_Item],
    metadata: Callable[[Digests], Mapping[str, str]],
    found: Mapping[str, str],
    length: int,
) -> bytes:
    tensors = {name: tensor for name, tensor, _ in items}
    stated = tuple(found[name] for name in sorted(found))
    own = header_digest(metadata(Digests(BLANK, stated)), tensors)
    header = _header_bytes(items, metadata(Digests(own, stated)))
    if len(header) != length:
        raise ContainerError(
            "the header has another length with its digests",
            found=f"{len(header)} bytes",
            expected=f"{length} bytes",
        )
    return header


def _placed(items: list[_Item], position: int) -> list[tuple[_Item, int]]:
    """Return the tensors with the places where they begin; the first lies at `position`."""
    positions = accumulate((length for *_, length in items), initial=position)
    return list(zip(items, positions, strict=False))  # the last position is the file's end


def _copies(placed: list[tuple[_Item, int]]) -> Iterator[_Run]:
    """Yield the tensors with a source, those together that follow each other in both files."""
    run: _Run | None = None
    for item, position in placed:
        source = item[1].source
        if run and source and _follows(source, run.source):
            length = run.source.length + source.length
            run.source = ByteRange(source.path, run.source.offset, length)
            run.tensors.append(item)
            continue
        if run:
            yield run
        run = _Run([item], source, position) if source else None
    if run:
        yield run


def _follows(source: ByteRange, before: ByteRange) -> bool:
    return source.path == before.path and source.offset == before.offset + before.length


def _copy_run(
    file: OpenFile,
    target: int,
    source: ByteRange,
    tensors: list[_Item],
    *,
    known: Mapping[ByteRange, str],
    found: dict[str, str] | None,
) -> None:
    stated = [known.get(tensor.source) for _, tensor, _ in tensors if tensor.source is not None]
    if found is None or None not in stated:
        copy_range(file, source.offset, source.length, target)
        computed = list[str]()
    else:
        lengths = [length for *_, length in tensors]
        with digested_beside(file, source.offset, lengths) as computed:
            copy_range(file, source.offset, source.length, target)
    if found is not None:
        for (name, *_), text, own in zip_longest(tensors, stated, computed):
            found[name] = text or own


def _reserve(target: int, size: int) -> None:
    """Take the space now, so that a full disk is known before the work; not all systems can."""
    try:
        os.posix_fallocate(target, 0, size)
    except (AttributeError, OSError) as error:
        if isinstance(error, OSError) and error.errno in NO_ROOM:
            raise


@contextmanager
def _new_file(path: Path, size: int) -> Iterator[int]:
    with _writing(path, size):
        target = open_new(path)
    try:
        try:
            yield target
        finally:
            with _writing(path, size):
                os.close(target)
    except BaseException:
        with suppress(OSError):  # what made the write fail may keep the file from being removed
            path.unlink(missing_ok=True)
        raise


@contextmanager
def _writing(path: Path, size: int) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        is_full = error.errno in NO_SPACE
        raise StorageError(
            f"cannot write: {error.strerror}",
            file=path,
            expected=f"{size} bytes of free space" if is_full else None,
            hint="free some space or write to another disk" if is_full else None,
        ) from error
