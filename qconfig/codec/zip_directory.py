"""The directory of a zip archive of stored records, read more strictly than the format asks for.

Readers of zip differ in what they believe where the directory at the end, the headers before each
record and the bytes themselves contradict each other. Here all three must agree, every byte
belongs to one record, and a record is stored as it is: nothing is ever inflated. The layout is that
of PKWARE's APPNOTE 6.3, sections 4.3 and 4.5.3.
"""

import struct
from collections.abc import Callable, Iterator
from typing import Any

from attrs import frozen

from qconfig.codec.regular_files import OpenFile
from qconfig.errors import ContainerError
from qconfig.limits import Limits

_END = struct.Struct("<4sHHHHIIH")
_END64 = struct.Struct("<4sQHHIIQQQQ")
_LOCATOR64 = struct.Struct("<4sIQI")
_ENTRY = struct.Struct("<4sHHHHHHIIIHHHHHII")
_LOCAL = struct.Struct("<4sHHHHHIIIHH")
_FULL_16, _FULL_32 = 0xFFFF, 0xFFFFFFFF

_HAS_DESCRIPTOR, _IS_UTF8 = 0x0008, 0x0800
_IS_ENCRYPTED = 0x2041
_LONGEST_DESCRIPTOR = 24
_CUT = "the download or the write was cut off; fetch the file again"


@frozen
class ZipRecord:
    """One file of an archive.

    Args:
        name: as the archive has it, with its folder.
        offset: where its bytes begin in the archive.
        size: how many there are.
        crc: their CRC-32, as the archive says.
    """

    name: str
    offset: int
    size: int
    crc: int


@frozen
class _Entry:
    name: bytes
    flags: int
    method: int
    crc: int
    packed: int
    size: int
    header: int


def read_records(
    file: OpenFile, limits: Limits, check_name: Callable[[str], None]
) -> list[ZipRecord]:
    """Return the records of an archive in the order of its directory.

    Args:
        file: the archive.
        limits: bounds on the directory.
        check_name: raises for a name that tells of another format, before anything is said of
            how that format stores it.

    Raises:
        ContainerError: the file is cut short, something follows it, or a record is compressed,
            encrypted, named twice, outside the file, or overlaps another.
        StorageError: the file system refused.
    """
    count, start, length = _directory(file)
    if count > limits.archive_records:
        raise _broken("has too many records", count, limits.describe("archive_records"))
    if length > limits.header_bytes:
        raise _broken(
            "has too long a directory", f"{length} bytes", limits.describe("header_bytes")
        )
    entries = list(_entries(bytes(file.read(start, length)), count))
    for entry in entries:
        check_name(_text(entry.name))
    for entry in entries:
        _check_entry(entry)
    offsets = _check_local_headers(file, entries, start)
    records = [
        ZipRecord(_text(e.name), offset, e.size, e.crc)
        for e, offset in zip(entries, offsets, strict=True)
    ]
    seen: set[str] = set()
    for record in records:
        if record.name in seen:
            raise _broken("has two records of one name", record.name, "names that differ")
        seen.add(record.name)
    return records


def _directory(file: OpenFile) -> tuple[int, int, int]:
    """Return the number of records, and where the directory starts and how long it is."""
    end = file.size - _END.size
    if end < 0:
        raise _broken("is too short", f"{file.size} bytes", f"at least {_END.size} bytes", _CUT)
    raw = _END.unpack(file.read(end, _END.size))
    signature, disk, first_disk, count_here, count, length, start, comment = raw
    if signature != b"PK\x05\x06" or comment:
        raise _broken("does not end as a zip archive does", signature, "b'PK\\x05\\x06'", _CUT)
    if (disk, first_disk) != (0, 0) or count_here != count:
        raise _broken("is one of several volumes", f"volume {disk}", "an archive in one file")
    found = (count, start, length)
    locator = end - _LOCATOR64.size
    if locator >= 0:
        signature, disk, position, disks = _LOCATOR64.unpack(file.read(locator, _LOCATOR64.size))
        if signature == b"PK\x06\x07":
            if disk or disks != 1 or position != locator - _END64.size:
                raise _broken("has a zip64 end that is not where it should be", position)
            end, found = position, _directory64(file, position, found)
    count, start, length = found
    if start + length != end:
        raise _broken(
            "has bytes around its directory",
            f"a directory of {length} bytes at {start}",
            f"a directory that ends at byte {end}",
            "something was cut off or added; fetch the file again",
        )
    return count, start, length


def _directory64(
    file: OpenFile, position: int, narrow: tuple[int, int, int]
) -> tuple[int, int, int]:
    raw = _END64.unpack(file.read(position, _END64.size))
    signature, size, _, _, disk, first_disk, count_here, count, length, start = raw
    wide = (count, start, length)
    fill = (_FULL_16, _FULL_32, _FULL_32)
    is_same = all(n in {w, f} for n, w, f in zip(narrow, wide, fill, strict=True))
    sound = signature == b"PK\x06\x06" and size == _END64.size - 12
    if not sound or (disk, first_disk) != (0, 0) or count_here != count or not is_same:
        raise _broken("has two ends that contradict each other", wide, str(narrow))
    return wide


def _entries(directory: bytes, count: int) -> Iterator[_Entry]:
    position = 0
    for index in range(count):
        if position + _ENTRY.size > len(directory):
            raise _broken("has fewer records than it says", index, str(count), _CUT)
        raw = _ENTRY.unpack_from(directory, position)
        signature, flags, method, crc = raw[0], raw[3], raw[4], raw[7]
        packed, size, name_length, extra_length, comment_length, disk = raw[8:14]
        start = position + _ENTRY.size
        extra_start = start + name_length
        position = extra_start + extra_length + comment_length
        if signature != b"PK\x01\x02" or disk or position > len(directory):
            raise _broken("has a directory that is damaged", f"entry {index}", hint=_CUT)
        name = directory[start:extra_start]
        extra = directory[extra_start : extra_start + extra_length]
        size, packed, header = _wide_sizes(name, extra, (size, packed, raw[16]))
        yield _Entry(name, flags, method, crc, packed, size, header)
    if position != len(directory):
        raise _broken("has more records than it says", f"{len(directory) - position} bytes more")


def _wide_sizes(name: bytes, extra: bytes, narrow: tuple[int, ...]) -> Iterator[int]:
    """Return the sizes and the offset, from the zip64 field where 32 bits do not hold them."""
    wide, position = b"", 0
    while _FULL_32 in narrow and position + 4 <= len(extra):
        kind, length = struct.unpack_from("<HH", extra, position)
        if kind == 1:
            wide = extra[position + 4 : position + 4 + length]
            break
        position += 4 + length
    needed = narrow.count(_FULL_32)
    if len(wide) < 8 * needed:
        raise _broken("lacks a zip64 field", _text(name))
    values = iter(struct.unpack_from(f"<{needed}Q", wide))
    return (next(values) if n == _FULL_32 else n for n in narrow)


def _check_entry(entry: _Entry) -> None:
    if entry.flags & _IS_ENCRYPTED:
        raise _broken("has an encrypted record", _text(entry.name))
    if entry.method or entry.size != entry.packed:
        raise _broken(
            "has a compressed record",
            _text(entry.name),
            "records that are stored as they are, as torch.save writes them",
            "unpack it and write it again with torch.save",
        )
    if entry.flags & ~(_HAS_DESCRIPTOR | _IS_UTF8):
        raise _broken("has a record with unknown flags", f"{_text(entry.name)}: {entry.flags:#x}")


def _check_local_headers(file: OpenFile, entries: list[_Entry], limit: int) -> list[int]:
    """Return where each record's bytes begin; the records must fill the file up to `limit`."""
    offsets = [0] * len(entries)
    end, slack = 0, 0
    for index in sorted(range(len(entries)), key=lambda i: entries[i].header):
        entry = entries[index]
        _check_gap(entry.header - end, slack, _text(entry.name))
        offset = _data_offset(file, entry, limit)
        offsets[index], end = offset, offset + entry.size
        if end > limit:
            raise _broken(
                "has a record that ends after the archive's records do",
                f"{_text(entry.name)}: {entry.size} bytes at {offset}",
                f"an end at byte {limit} at most",
            )
        slack = _LONGEST_DESCRIPTOR if entry.flags & _HAS_DESCRIPTOR else 0
    _check_gap(limit - end, slack, "the directory")
    return offsets


def _check_gap(gap: int, slack: int, what: str) -> None:
    if gap < 0:
        raise _broken("has records that overlap", what)
    if gap > slack:
        raise _broken("has bytes that belong to no record", f"{gap} bytes before {what}")


def _data_offset(file: OpenFile, entry: _Entry, limit: int) -> int:
    name_start = entry.header + _LOCAL.size
    name_end = name_start + len(entry.name)
    if name_end > limit:
        raise _broken("has a record outside the file", _text(entry.name))
    raw = bytes(file.read(entry.header, name_end - entry.header))
    signature, _, flags, method, _, _, crc, packed, size, name_length, extra_length = (
        _LOCAL.unpack_from(raw)
    )
    unsaid = {0} if flags & _HAS_DESCRIPTOR else set()
    if (
        (signature, flags, method) != (b"PK\x03\x04", entry.flags, 0)
        or (name_length, raw[_LOCAL.size :]) != (len(entry.name), entry.name)
        or not {packed, size} <= {entry.size, _FULL_32} | unsaid
        or crc not in {entry.crc} | unsaid
    ):
        raise _broken("has a record whose header contradicts the directory", _text(entry.name))
    return name_end + int(extra_length)


def _text(name: bytes) -> str:
    try:
        return name.decode()
    except UnicodeDecodeError:
        raise _broken("has a record whose name is not UTF-8", name) from None


def _broken(
    what: str, found: Any, expected: str | None = None, hint: str | None = None
) -> ContainerError:
    return ContainerError(f"the zip archive {what}", found=found, expected=expected, hint=hint)
