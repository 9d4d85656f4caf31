"""A file that says what is done so far: a line of JSON for each thing, and none is lost again."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from attrs import define

from qconfig.codec.byte_copy import write_all
from qconfig.codec.regular_files import open_regular
from qconfig.errors import ContainerError, NewerVersionError

_VERSION = 1
_VERSION_KEY = "qconfig_journal"
_MOST_BYTES = 2**30  # beyond it a file is damaged: a million shards take less


@define
class Journal:
    """A journal on the disk.

    Args:
        path: its file.
        head: what the run is, as plain data.
        entries: what is done, in order.
        size: bytes of the whole lines.
    """

    path: Path
    head: dict[str, Any]
    entries: list[dict[str, Any]]
    size: int = 0

    @classmethod
    def create(cls, path: Path, head: Mapping[str, Any]) -> Self:
        """Begin a new journal. Raises OSError."""
        journal = cls(path, dict(head), [])
        journal._write({_VERSION_KEY: _VERSION, **head}, os.O_CREAT | os.O_EXCL)
        return journal

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """Return a journal that an earlier run left, or None where there is none of use.

        A last line that was not written whole is none. What was damaged otherwise is of no use.

        Raises:
            StorageError: it is there and cannot be read.
            NewerVersionError: a newer release has written it.
        """
        if not os.path.lexists(path):
            return None
        try:
            with open_regular(path) as file:
                text = bytes(file.read(0, min(file.size, _MOST_BYTES)))
        except ContainerError:  # no regular file
            return None
        whole = text[: text.rfind(b"\n") + 1]
        try:
            head, *entries = [json.loads(line) for line in whole.splitlines()]
        except (ValueError, RecursionError):
            return None
        if not all(isinstance(line, dict) for line in (head, *entries)):
            return None
        version = head.pop(_VERSION_KEY, None)
        if type(version) is int and version > _VERSION:
            raise NewerVersionError(
                "a newer release of qconfig has begun to write here",
                file=path,
                found=f"a journal of version {version}",
                expected=f"at most {_VERSION}",
                hint="go on with that release, or remove what it left",
            )
        if version != _VERSION:
            return None
        return cls(path, head, entries, len(whole))

    def add(self, entry: Mapping[str, Any]) -> None:
        """Note one more thing that is done, and bring it to the disk. Raises OSError."""
        self._write(entry, 0)
        self.entries.append(dict(entry))

    def _write(self, line: Mapping[str, Any], flag: int) -> None:
        text = json.dumps(line, separators=(",", ":"), sort_keys=True).encode() + b"\n"
        flags = os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW | flag
        target = os.open(self.path, flags, 0o666)
        try:
            # What follows the whole lines is the half of one that a killed run had begun.
            os.ftruncate(target, self.size)
            os.lseek(target, self.size, os.SEEK_SET)
            write_all(target, text)
            os.fsync(target)
        finally:
            os.close(target)
        self.size += len(text)
