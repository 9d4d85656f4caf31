"""New files and names that last: written, brought to the disk, and put in place.

Everything goes through functions of `os`, so that a test can let each call fail.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from qconfig.codec.byte_copy import copy_range, write_all
from qconfig.codec.regular_files import open_regular
from qconfig.errors import StorageError

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
# Some network file systems do not bring directories to the disk, and say so.
_NO_SYNC = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Turn an OSError into a StorageError that names `path`."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise StorageError(f"the file system refused: {reason}", file=path) from error


def write_file(path: Path, content: bytes) -> None:
    """Write a new small file and bring it to the disk. Raises StorageError."""
    with storage_errors(path), _new_file(path) as target:
        write_all(target, content)
        os.fsync(target)


def copy_file(source: Path, target: Path) -> None:
    """Copy a file with its mode into a new one, and bring it to the disk.

    Raises:
        ContainerError: the source is no regular file.
        StorageError: the file system refused.
    """
    with storage_errors(target):
        make_folders(target.parent)
        with open_regular(source) as file, _new_file(target) as copy:
            copy_range(file, 0, file.size, copy)
            os.fchmod(copy, stat.S_IMODE(os.fstat(file.descriptor).st_mode))
            os.fsync(copy)


def open_new(path: Path) -> int:
    """Return a descriptor to write to a new file; what is there already, a link too, is refused.

    Raises:
        OSError: of the file system.
    """
    return os.open(path, _NEW, 0o666)


def make_folders(path: Path) -> None:
    """Make a directory and its parents, where there are none. Raises OSError."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        try:
            folder.mkdir()
        except FileExistsError:  # another process was quicker
            if not folder.is_dir():
                raise


def sync_directory(path: Path) -> None:
    """Bring the entries of a directory to the disk, where its file system can. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise
    finally:
        os.close(descriptor)


def rename_directory(old: Path, new: Path) -> None:
    """Give a directory another name, which nobody has or an empty directory.

    A network file system may do it and answer that it failed, because it had lost its own first
    answer. So what counts is where the directory is afterwards.

    Raises:
        OSError: it is still where it was.
    """
    before = old.stat().st_ino
    try:
        old.rename(new)
    except OSError:
        if os.path.lexists(old) or not new.is_dir() or new.stat().st_ino != before:
            raise


@contextmanager
def _new_file(path: Path) -> Iterator[int]:
    target = open_new(path)
    try:
        yield target
    finally:
        os.close(target)
