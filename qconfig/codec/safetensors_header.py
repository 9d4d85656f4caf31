"""The header of a safetensors file, read more strictly than the format's own library does.

A file is: eight bytes with the header's length (little-endian), a JSON object, the data. The
object maps each tensor's name to its dtype code, shape and byte range, and `__metadata__` to a map
of strings. safetensors 0.8.0 keeps the last of two tensors of one name and lets control characters,
unknown fields and absurd ranks pass; here each is an error.
"""

from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from qconfig.codec import strict_json
from qconfig.codec.collector import collector_paused
from qconfig.codec.regular_files import open_regular
from qconfig.codec.safetensors_entries import (
    METADATA_KEY,
    TensorEntry,
    check_coverage,
    check_metadata,
    parse_entries,
)
from qconfig.codec.tensor_names import check_twins
from qconfig.codec.tensor_values import ByteRange
from qconfig.errors import ContainerError, DocumentSyntaxError
from qconfig.limits import Limits, current_limits

LENGTH_BYTES = 8
_VALUES = 40  # of one tensor, or of the metadata of all, at most


@frozen
class Header:
    """What a safetensors file says that it holds, checked against the file's size.

    Args:
        path: the file.
        metadata: the strings under `__metadata__`.
        tensors: the entries by name, in the order of the header.
        data_start: offset of the data in the file.
        file_size: bytes of the file.
        stamp: inode and time of the last change, in ns, when the header was read from a file.
    """

    path: Path
    metadata: dict[str, str]
    tensors: dict[str, TensorEntry]
    data_start: int
    file_size: int
    stamp: tuple[int, int] | None = None

    def byte_range(self, name: str) -> ByteRange:
        """Return where in the file the bytes of the tensor `name` lie.

        Raises:
            KeyError: there is no such tensor.
        """
        entry = self.tensors[name]
        return ByteRange(self.path, self.data_start + entry.start, entry.end - entry.start)


def read_header(path: Path | str, *, limits: Limits | None = None) -> Header:
    """Read and check the header of a safetensors file; the data is not read.

    Raises:
        ContainerError: the file breaks the format or a limit, or is no regular file.
        StorageError: the file is missing or may not be read.
    """
    limits = limits or current_limits()
    with open_regular(path) as file:
        head = bytes(file.read(0, min(LENGTH_BYTES, file.size)))
        try:
            length = _header_length(head, file.size, limits)
        except ContainerError as error:
            error.at(file=path)
            raise
        buffer = bytes(file.read(0, LENGTH_BYTES + length))
        header = parse_header(buffer, file_size=file.size, path=path, limits=limits)
        return evolve(header, stamp=file.stamp)


def parse_header(
    buffer: bytes, *, file_size: int, path: Path | str, limits: Limits | None = None
) -> Header:
    """Check the first bytes of a safetensors file.

    Args:
        buffer: at least the length and the header; what follows is not looked at.
        file_size: bytes of the whole file.
        path: the file, for errors and byte ranges; it is not opened.
        limits: bounds on everything that a header counts.

    Raises:
        ContainerError: the header breaks the format or a limit.
    """
    path, limits = Path(path), limits or current_limits()
    try:
        length = _header_length(buffer, file_size, limits)
        with collector_paused():
            content = _content(buffer[LENGTH_BYTES : LENGTH_BYTES + length], limits)
            metadata = check_metadata(content.pop(METADATA_KEY, {}), limits)
            if len(content) > limits.tensors:
                raise _too_many_tensors(f"{len(content)} tensors", limits)
            check_twins(content)
            tensors = parse_entries(content, limits)
        data_start = LENGTH_BYTES + length
        check_coverage(tensors, data_start, file_size)
    except ContainerError as error:
        error.at(file=path)
        raise
    return Header(path, metadata, tensors, data_start, file_size)


def _header_length(head: bytes, file_size: int, limits: Limits) -> int:
    if file_size < LENGTH_BYTES or len(head) < LENGTH_BYTES:
        raise ContainerError(
            "too short for a safetensors file",
            found=f"{min(file_size, len(head))} bytes",
            expected=f"at least {LENGTH_BYTES} bytes",
            hint="the download or the write was cut off; fetch the file again",
        )
    length = int.from_bytes(head[:LENGTH_BYTES], "little")
    if length > limits.header_bytes:
        raise ContainerError(
            "the header is too long",
            found=f"{length} bytes",
            expected=f"bytes: {limits.describe('header_bytes')}",
            hint="is it a safetensors file at all?",
        )
    if length > file_size - LENGTH_BYTES:
        raise ContainerError(
            "the header ends after the file",
            found=f"a header of {length} bytes in a file of {file_size} bytes",
            expected=f"a file of at least {LENGTH_BYTES + length} bytes",
            hint="the download or the write was cut off; fetch the file again",
        )
    return length


def _content(text: bytes, limits: Limits) -> dict[str, Any]:
    if not text.startswith(b"{"):
        raise ContainerError(
            "the header does not start with '{'",
            found=text[:16],
            hint="is it a safetensors file at all?",
        )
    # Names may have brackets too, so this stops only floods: a header of brackets alone would
    # take thirty times its size in memory before its tensors could be counted.
    if text.count(b"[") + text.count(b"{") > 16 * (limits.tensors + 16):
        raise _too_many_tensors("too many brackets", limits)
    try:
        most = _VALUES * (limits.tensors + _VALUES)
        json_limits = evolve(limits, document_bytes=limits.header_bytes, json_values=most)
        content: dict[str, Any] = strict_json.loads(text, limits=json_limits)
    except DocumentSyntaxError as error:
        pointer = error.pointer or ""
        name = pointer[1:].split("/")[0].replace("~1", "/").replace("~0", "~")
        problem = ContainerError(f"in the header: {error.message}", pointer=error.pointer)
        problem.fqn = name if pointer and name != METADATA_KEY else None
        if len(pointer) > limits.name_bytes:
            problem.fqn = problem.pointer = None
        problem.found, problem.expected, problem.hint = error.found, error.expected, error.hint
        raise problem from None
    return content


def _too_many_tensors(found: str, limits: Limits) -> ContainerError:
    return ContainerError(
        "the header has too many tensors",
        found=found,
        expected=f"tensors: {limits.describe('tensors')}",
    )
