"""The archive that torch.save writes: one pickle, and one record for each storage.

All records lie in one folder: `data.pkl`, `data/<key>` for each storage, `version`, since torch 2.1
`byteorder` and `.data/serialization_id`, later `.format_version` and `.storage_alignment`.
Everything else is another format (TorchScript, torch.package, torch.export) and refused by name.
"""

import zlib

from attrs import frozen

from qconfig.codec.regular_files import OpenFile
from qconfig.codec.zip_directory import ZipRecord, read_records
from qconfig.errors import ContainerError
from qconfig.limits import Limits

_PICKLE = "data.pkl"
_SMALL = frozenset(
    {"version", "byteorder", ".format_version", ".storage_alignment", ".data/serialization_id"}
)
_SMALL_BYTES = 256
_NEWEST_VERSION = 10
_LEGACY = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."  # torch's magic number, pickled
_SAVE_AGAIN = "load it where it was made and save its state_dict with torch.save"
_OTHERS = {
    "code": "a TorchScript archive",
    "constants.pkl": "a TorchScript archive",
    "constants": "a TorchScript archive",
    "bytecode.pkl": "a TorchScript archive for mobile devices",
    "extra": "a TorchScript archive",
    "archive_format": "an archive of torch.export",
    "archive_version": "an archive of torch.export",
    "models": "an archive of torch.export",
    ".data": "an archive of torch.package",
}


@frozen
class TorchArchive:
    """What lies where in a file of torch.save.

    Args:
        pickle: the bytes of `data.pkl`.
        storages: the records of the storages by key.
    """

    pickle: bytes
    storages: dict[str, ZipRecord]


def read_archive(file: OpenFile, limits: Limits) -> TorchArchive:
    """Read the directory and the pickle of an archive; the storages are not read.

    Raises:
        ContainerError: the file is no archive of torch.save, is damaged, or breaks a limit.
        StorageError: the file system refused.
    """
    _check_start(file)
    records: dict[str, ZipRecord] = {}
    storages: dict[str, ZipRecord] = {}
    folder = None
    for record in read_records(file, limits, _check_format):
        first, _, name = record.name.partition("/")
        folder = first if folder is None else folder
        parts = name.split("/")
        if first != folder or not _is_plain(first) or not all(map(_is_plain, parts)):
            raise ContainerError(
                "a record does not lie in the archive's one folder",
                found=record.name,
                expected=f"names below {folder!r}, as torch.save writes them",
                hint="is it a checkpoint at all?",
            )
        if len(parts) == 2 and parts[0] == "data":
            storages[parts[1]] = record
        elif name == _PICKLE or name in _SMALL:
            records[name] = record
        else:
            raise ContainerError(
                "the archive holds what torch.save does not write",
                found=name,
                expected="the records of torch.save",
                hint="is it a checkpoint at all?",
            )
    if _PICKLE not in records or "version" not in records:
        raise ContainerError(
            "not an archive of torch.save",
            found=sorted(records),
            expected=f"records {_PICKLE} and version",
        )
    _check_version(_small(file, records["version"]))
    if "byteorder" in records:
        _check_order(_small(file, records["byteorder"]))
    return TorchArchive(_pickle(file, records[_PICKLE], limits), storages)


def _check_start(file: OpenFile) -> None:
    head = bytes(file.read(0, min(file.size, 512)))
    if head.startswith(b"PK\x03\x04"):
        return
    if head.startswith(_LEGACY):
        found, hint = "torch.save's form before torch 1.6, which is a row of pickles", _SAVE_AGAIN
    elif head[257:262] == b"ustar":
        found, hint = "a tar archive, as torch.save wrote before torch 0.1.10", _SAVE_AGAIN
    elif head.startswith((b"\x80", b"(", b"]", b"}", b"c")):
        found, hint = "a bare pickle", _SAVE_AGAIN
    elif not head:
        found, hint = "an empty file", "the download or the write was cut off; fetch it again"
    else:
        found, hint = f"bytes that begin with {head[:8]!r}", "is it a checkpoint at all?"
    raise ContainerError(
        "not an archive of torch.save", found=found, expected="a zip archive", hint=hint
    )


def _is_plain(part: str) -> bool:
    return part not in {"", ".", ".."} and not any(c in part for c in "\\\0")


def _check_format(record: str) -> None:
    name = record.partition("/")[2]
    kind = _OTHERS.get(name.partition("/")[0])
    if kind is not None and name not in _SMALL:
        raise ContainerError(
            f"{kind}, which is not read",
            found=name,
            expected="the records of torch.save",
            hint=_SAVE_AGAIN,
        )


def _small(file: OpenFile, record: ZipRecord) -> bytes:
    if record.size > _SMALL_BYTES:
        raise ContainerError(
            f"the record {record.name} is too long",
            found=f"{record.size} bytes",
            expected=f"at most {_SMALL_BYTES} bytes",
        )
    return bytes(file.read(record.offset, record.size))


def _check_version(text: bytes) -> None:
    number = text.strip()
    if not number.isdigit() or len(number) > 2 or not 1 <= int(number) <= _NEWEST_VERSION:
        raise ContainerError(
            "a version of torch.save's archive that is not known",
            found=text,
            expected=f"1 to {_NEWEST_VERSION}",
            hint="was it written by a newer torch?",
        )


def _check_order(text: bytes) -> None:
    if text != b"little":
        raise ContainerError(
            "the file was written on a big-endian machine"
            if text == b"big"
            else "the file has an unknown order of bytes",
            found=text,
            expected="little",
            hint="load it with torch and save it again on a little-endian machine",
        )


def _pickle(file: OpenFile, record: ZipRecord, limits: Limits) -> bytes:
    if record.size > limits.pickle_bytes:
        raise ContainerError(
            "the pickle is too long",
            found=f"{record.size} bytes",
            expected=f"bytes: {limits.describe('pickle_bytes')}",
        )
    data = bytes(file.read(record.offset, record.size))
    # torch.serialization.set_crc32_options(False) leaves all checksums 0.
    if record.crc and zlib.crc32(data) != record.crc:
        raise ContainerError(
            f"the record {record.name} is damaged",
            found=f"checksum {zlib.crc32(data):#010x}",
            expected=f"checksum {record.crc:#010x}",
            hint="fetch the file again",
        )
    return data
