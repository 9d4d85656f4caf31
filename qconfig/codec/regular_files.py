"""Opening files that somebody else named: never blocks, never reads what is not a plain file."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from attrs import frozen

from qconfig.errors import ContainerError, StorageError
from qconfig.limits import current_limits

_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFREG: "a regular file",
}


@frozen
class OpenFile:
    """A regular file that is open for reading.

    Args:
        path: where it was opened.
        descriptor: valid inside the `with` block of `open_regular`.
        size: bytes, when it was opened.
    """

    path: Path
    descriptor: int
    size: int

    @property
    def stamp(self) -> tuple[int, int]:
        """Inode and time of the last change, in ns: another file or content has another."""
        status = os.fstat(self.descriptor)
        return status.st_ino, status.st_mtime_ns

    def read_into(self, view: memoryview, offset: int) -> None:
        """Fill `view` with the bytes from `offset` on.

        Raises:
            ContainerError: the file ends earlier.
            StorageError: the file system refused.
        """
        done = 0
        while done < len(view):
            try:
                # Python repeats a call that a signal interrupted (PEP 475); a short read is ours.
                count = os.preadv(self.descriptor, [view[done:]], offset + done)
            except OSError as error:
                raise StorageError(f"cannot read: {error.strerror}", file=self.path) from error
            if count == 0:
                raise ContainerError(
                    "the file is cut short",
                    file=self.path,
                    found=f"{os.fstat(self.descriptor).st_size} bytes",
                    expected=f"at least {offset + len(view)} bytes",
                    hint="something truncated the file while it was in use; fetch it again",
                )
            done += count

    def read(self, offset: int, length: int) -> bytearray:
        """Return `length` bytes from `offset` on.

        Raises:
            ContainerError: the file ends earlier.
            StorageError: the file system refused.
        """
        buffer = bytearray(length)
        with memoryview(buffer) as view:
            self.read_into(view, offset)
        return buffer


class SourceFile(Protocol):
    """A file that was opened, understood and closed again, to be read from later."""

    @property
    def path(self) -> Path:
        """The file."""

    @property
    def file_size(self) -> int:
        """Its bytes."""

    @property
    def stamp(self) -> tuple[int, int] | None:
        """Inode and time of the last change, in ns, when it was opened."""


def check_unchanged(source: SourceFile) -> None:
    """Check that the file is the one that was opened, and as it was.

    Raises:
        ContainerError: somebody wrote to it, or put another in its place.
        StorageError: it is missing.
    """
    with open_regular(source.path) as file:
        if (file.size, file.stamp) != (source.file_size, source.stamp):
            raise ContainerError(
                "the file has changed since its header was read",
                file=source.path,
                hint="run again when nobody writes to the checkpoint",
            )


def kind_of(mode: int) -> str:
    """Return in words what kind of file a `st_mode` is of."""
    return _KINDS.get(stat.S_IFMT(mode), "a file of an unknown kind")


@contextmanager
def open_regular(path: Path | str) -> Iterator[OpenFile]:
    """Open a regular file for reading; symbolic links are followed.

    Raises:
        ContainerError: it is a directory, a FIFO, a socket or a device. It is not waited for.
        StorageError: it is missing or may not be read.
    """
    path = Path(path)
    try:
        # Opening a device can already act on it, so its kind is asked first, and once more of
        # the descriptor because the name may point elsewhere by then.
        _check_kind(path, path.stat().st_mode)
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        if _leads_nowhere(path):
            raise ContainerError(
                "a symbolic link that leads nowhere",
                file=path,
                found=str(path.readlink()),
                expected="a regular file",
                hint="the download is not complete; fetch it again",
            ) from None
        reason = getattr(error, "strerror", None) or str(error)
        raise StorageError(f"cannot open: {reason}", file=path) from error
    try:
        status = os.fstat(descriptor)
        _check_kind(path, status.st_mode)
        yield OpenFile(path, descriptor, status.st_size)
    finally:
        os.close(descriptor)


def read_document(path: Path | str) -> bytes:
    """Return the bytes of a small file.

    Raises:
        ContainerError: it is not a regular file, or larger than `Limits.document_bytes`.
        StorageError: it is missing or may not be read.
    """
    limits = current_limits()
    with open_regular(path) as file:
        if file.size > limits.document_bytes:
            raise ContainerError(
                "the file is too large for a document",
                file=path,
                found=f"{file.size} bytes",
                expected=f"bytes: {limits.describe('document_bytes')}",
            )
        return bytes(file.read(0, file.size))


def _leads_nowhere(path: Path) -> bool:
    try:
        return path.is_symlink() and not path.exists()
    except (OSError, ValueError):
        return False


def _check_kind(path: Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise ContainerError(
            "not a regular file", file=path, found=kind_of(mode), expected="a regular file"
        )
