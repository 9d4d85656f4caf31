"""A new directory that appears whole or not at all: sibling, fsync, rename."""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from qconfig.errors import QconfigError, StorageError, UsageError

_MARK = ".qconfig-tmp-"


@contextmanager
def new_directory(target: Path | str, *, source: Path | None = None) -> Iterator[Path]:
    """Yield a temporary sibling of `target`; on success it becomes `target`.

    After a failure the sibling is removed, and so are parents of `target` that had to be made.

    Args:
        target: the directory to make; there must be none, or an empty one.
        source: a directory that must stay untouched.

    Raises:
        UsageError: the target exists, or lies in the source, or the source in it.
        StorageError: the file system refused.
    """
    target = Path(target).absolute()
    work = target.parent / f".{target.name}{_MARK}{secrets.token_hex(4)}"
    with storage_errors(target):
        _check_target(target, source)
        missing = [p for p in (target.parent, *target.parent.parents) if not p.exists()]
    try:
        with storage_errors(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            work.mkdir()
        yield work
        with storage_errors(target):
            for folder, _, _ in os.walk(work):
                sync_directory(Path(folder))
            if target.exists():
                target.rmdir()
            work.rename(target)
            sync_directory(target.parent)
    except BaseException as error:
        shutil.rmtree(work, ignore_errors=True)
        _remove_empty(missing)
        if isinstance(error, QconfigError):
            for problem in error.problems:
                _name_target(problem, work, target)
        raise


def _remove_empty(folders: list[Path]) -> None:
    """Remove folders that were made for the target, innermost first, as long as they are empty."""
    with suppress(OSError):
        for folder in folders:
            folder.rmdir()


def _name_target(error: QconfigError, work: Path, target: Path) -> None:
    """Let an error name the file that was wanted, not the temporary one that is gone."""
    if error.file is not None and Path(error.file).is_relative_to(work):
        error.file = str(target / Path(error.file).relative_to(work))


def write_file(path: Path, content: bytes) -> None:
    """Write a new small file and bring it to the disk. Raises StorageError."""
    with storage_errors(path), path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def copy_file(source: Path, target: Path) -> None:
    """Copy a file with its mode and bring it to the disk. Raises StorageError."""
    with storage_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        shutil.copymode(source, target)
        with target.open("rb") as file:
            os.fsync(file.fileno())


def sync_directory(path: Path) -> None:
    """Bring the entries of a directory to the disk. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Turn an OSError into a StorageError that names `path`."""
    try:
        yield
    except OSError as error:
        raise StorageError(f"the file system refused: {error.strerror}", file=path) from error


def _check_target(target: Path, source: Path | None) -> None:
    if target.is_symlink() or (target.exists() and (not target.is_dir() or any(target.iterdir()))):
        raise UsageError(
            "the target exists",
            file=target,
            expected="a new or empty directory",
            hint="choose another name, or move the old one away",
        )
    if source is None:
        return
    inside, real = source.resolve(), target.resolve()
    if real.is_relative_to(inside) or inside.is_relative_to(real):
        raise UsageError(
            "source and target overlap",
            file=target,
            found=str(real),
            expected=f"a directory outside {inside}",
        )
