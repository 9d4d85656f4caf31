"""What may be the target of a run: a name that can be a new directory, apart from the source."""

import os
import re
from pathlib import Path

from qconfig.codec.new_files import storage_errors
from qconfig.errors import StorageError, UsageError

MARK = ".qconfig-tmp"
"""What the name of a directory ends in, in which a target is made."""

_MOST_BYTES = 255 - len(f".{MARK}")
_WORK_NAME = re.compile(rf"\..+{re.escape(MARK)}(-[0-9a-f]{{8}})?", re.DOTALL)


def absolute(target: Path | str) -> Path:
    """Return a path from the root, in which no part leads up."""
    path = Path(target).absolute()
    return path.parent.resolve() / path.name if ".." in path.parts else path


def check_target(target: Path, source: Path | None) -> None:
    """Check that a directory of this name can be made, whatever is there now.

    Args:
        target: an absolute path.
        source: a directory that must stay untouched.

    Raises:
        UsageError: no file system can hold the name, or one is mounted there; or it lies in the
            source, or the source in it, or where another target is made.
        StorageError: the file system refused, or would refuse the name.
    """
    _check_path(target)
    if any(_WORK_NAME.fullmatch(part) for part in target.parts):
        raise UsageError(
            "the target has the name of a directory in which targets are made, or lies in one",
            file=target,
            expected=f"no part of the path like .NAME{MARK}",
            hint="what is there is removed by other runs, and by qconfig doctor",
        )
    _check_apart(target, source)


def is_taken(target: Path) -> bool:
    """Return whether there is something else than an empty directory. Raises OSError."""
    if target.is_symlink():
        return True
    return target.exists() and (not target.is_dir() or any(target.iterdir()))


def _check_path(target: Path) -> None:
    try:
        is_path = b"\0" not in os.fsencode(target)
    except UnicodeEncodeError:
        is_path = False
    if not is_path:
        raise UsageError(
            "not a path",
            found=str(target),
            expected="a name without NUL, of characters that the file system can hold",
        )
    size = len(os.fsencode(target.name))
    if size > _MOST_BYTES:
        raise StorageError(
            "the target's name is too long for the directory in which it is made",
            file=target,
            found=f"{size} bytes",
            expected=f"at most {_MOST_BYTES} bytes",
            hint="write to a shorter name, and rename it then",
        )


def _check_apart(target: Path, source: Path | None) -> None:
    with storage_errors(target):
        if target.is_dir() and target.is_mount():
            raise UsageError(
                "the target is where a file system is mounted, so that no directory can get its "
                "name",
                file=target,
                hint="choose a new directory in it",
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
