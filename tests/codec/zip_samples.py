"""Zip archives made part by part, so that each number in them can be a lie."""

import io
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

from attrs import frozen

DESCRIPTOR = 8


@frozen
class Part:
    """One record; everything but its name and bytes is as it should be unless it is given."""

    name: bytes
    data: bytes
    flags: int = 0
    method: int = 0
    size: int | None = None
    packed: int | None = None
    offset: int | None = None
    disk: int = 0
    local_name: bytes | None = None
    local_method: int | None = None
    local_flags: int | None = None
    local_size: int | None = None
    local_crc: int | None = None
    before: bytes = b""
    comment: bytes = b""
    hole: int = 0


def given(value, default):
    """Return the value, or the default where there is none."""
    return default if value is None else value


def zip_bytes(
    parts: Sequence[Part],
    *,
    zip64: bool = False,
    wide: bool = False,
    descriptors: bool = False,
    first: bytes = b"",
    between: bytes = b"",
    after: bytes = b"",
    end_comment: bytes = b"",
    count: int | None = None,
    volume: int = 0,
    locator: int | None = None,
    file: Path | None = None,
) -> bytes:
    """Return an archive, or write it to `file`, where holes take no space.

    Args:
        parts: the records, in order.
        zip64: whether it has the end record of 64 bits.
        wide: whether all sizes and offsets are in 64 bits.
        descriptors: whether sizes follow the bytes and not only precede them.
        first: bytes before everything.
        between: bytes between the directory and the end.
        after: bytes after everything.
        end_comment: the archive's comment.
        count: how many records it claims to have.
        volume: which of several volumes it claims to be.
        locator: where it says that the end record of 64 bits is.
        file: where to write.
    """
    with file.open("wb") if file else io.BytesIO() as out:
        out.write(first)
        directory = b""
        for part in parts:
            directory += _record(out, part, wide=wide, descriptors=descriptors)
        start = out.tell() - len(first)
        out.write(directory + between)
        number, length = given(count, len(parts)), len(directory)
        if zip64:
            position = out.tell()
            counts = (len(parts), len(parts), length, start)
            out.write(struct.pack("<4sQHHIIQQQQ", b"PK\6\6", 44, 0, 0, volume, 0, *counts))
            out.write(struct.pack("<4sIQI", b"PK\6\7", 0, given(locator, position), 1))
        narrow = min(start, 0xFFFFFFFF)
        sizes = (volume, 0, number, number, length, narrow, len(end_comment))
        out.write(struct.pack("<4sHHHHIIH", b"PK\5\6", *sizes) + end_comment + after)
        return b"" if file else out.getvalue()


def _record(out, part: Part, *, wide: bool, descriptors: bool) -> bytes:
    """Write a record and return its entry of the directory."""
    out.write(part.before)
    offset, true_size = out.tell(), part.hole or len(part.data)
    crc = zlib.crc32(part.data)
    flags = part.flags | (DESCRIPTOR if descriptors else 0)
    size, packed = given(part.size, true_size), given(part.packed, true_size)
    name = given(part.local_name, part.name)
    near = min(0xFFFFFFFF, given(part.local_size, true_size))
    local = (0, 0, 0) if descriptors else (given(part.local_crc, crc), near, near)
    local_flags = given(part.local_flags, flags)
    method = given(part.local_method, part.method)
    out.write(
        struct.pack("<4sHHHHHIIIHH", b"PK\3\4", 0, local_flags, method, 0, 0, *local, len(name), 0)
        + name
    )
    if part.hole:
        out.seek(part.hole, io.SEEK_CUR)
    out.write(part.data)
    if descriptors:
        out.write(struct.pack("<4sIII", b"PK\7\10", crc, true_size, true_size))
    place = given(part.offset, offset)
    numbers = [size, packed, place]
    lies = part.size == 0xFFFFFFFF or part.offset == 0xFFFFFFFF
    far = [n for n in numbers if not lies and (wide or n >= 0xFFFFFFFF)]
    extra = struct.pack(f"<HH{len(far)}Q", 1, 8 * len(far), *far) if far else b""
    size, packed, place = (0xFFFFFFFF if n in far else n for n in numbers)
    lengths = (len(part.name), len(extra), len(part.comment))
    head = (b"PK\1\2", 0, 0, flags, part.method, 0, 0, crc, packed, size, *lengths, part.disk)
    return struct.pack("<4sHHHHHHIIIHHHHHII", *head, 0, 0, place) + part.name + extra + part.comment
