"""SHA-256 of whole files, in a list that `sha256sum -c` checks."""

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

from qconfig.codec.index_file import check_shard_name, shard_path
from qconfig.codec.regular_files import open_regular, read_document
from qconfig.errors import ContainerError

SUMS_FILE = "SHA256SUMS"

_BUFFER = 2**20  # stays in a processor's cache between being read and being digested
_LINE = re.compile(r"([0-9A-Fa-f]{64}) [ *](?:\./)?(.+)")
_FORM = "64 hexadecimal digits, two spaces and a file name, as sha256sum writes them"


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal; a megabyte of it is in memory.

    Raises:
        ContainerError: it is not a regular file, or was cut short meanwhile.
        StorageError: it is missing or may not be read.
    """
    running, done = hashlib.sha256(), 0
    with open_regular(path) as file, memoryview(bytearray(_BUFFER)) as buffer:
        while done < file.size:
            part = buffer[: min(_BUFFER, file.size - done)]
            file.read_into(part, done)
            running.update(part)
            done += len(part)
    return running.hexdigest()


def sums_text(sums: Mapping[str, str]) -> bytes:
    """Return a list of files, sorted by name.

    Args:
        sums: in hexadecimal, by plain file name.

    Raises:
        ContainerError: a name that is no plain file name.
    """
    for name in sums:
        check_shard_name(name, suffix="")
    return "".join(f"{text}  {name}\n" for name, text in sorted(sums.items())).encode()


def read_sums(directory: Path, *, follow_symlinks: bool = False) -> dict[str, str]:
    """Return the sums that the list of a directory says, in lower case, by name.

    Names are what they are: none has been looked for. Lines that begin with `#` are comments.

    Args:
        directory: where the list is.
        follow_symlinks: also read a list that is a link to a file elsewhere.

    Raises:
        ContainerError: it is no regular file, too large, or a line is of another form or
            contradicts another.
        StorageError: it may not be read.
    """
    path = shard_path(directory, SUMS_FILE, follow_symlinks=follow_symlinks, suffix="")
    sums: dict[str, str] = {}
    lines = read_document(path).decode("utf-8", "surrogateescape").split("\n")
    for number, line in enumerate(lines, start=1):
        if not line or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line.removesuffix("\r"))
        if match is None:
            raise ContainerError(
                f"line {number} is of another form", file=path, found=line, expected=_FORM
            )
        text, name = match[1].lower(), match[2]
        if sums.setdefault(name, text) != text:
            raise ContainerError(
                f"line {number} contradicts an earlier one",
                file=path,
                found=line,
                expected=f"{sums[name]}  {name}",
            )
    return sums


def check_sum(path: Path, expected: str) -> None:
    """Read a file and check that it is the one that its sum is of.

    Raises:
        ContainerError: it is not.
        StorageError: it cannot be read.
    """
    found = sha256_of(path)
    if found != expected:
        raise ContainerError(
            f"the file is not the one of which {SUMS_FILE} says the sum",
            file=path,
            found=f"SHA-256 {found}",
            expected=expected,
            hint="restore the file, or fetch it again",
        )
