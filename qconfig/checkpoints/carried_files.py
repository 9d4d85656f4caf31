"""The files of a checkpoint that are not ours, such as tokenizers and licences: copied along."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from qconfig.checkpoints.checkpoint import CONFIG_FILE, INDEX_FILE, Checkpoint
from qconfig.codec.index_file import check_link, differ, twins
from qconfig.codec.sha256_sums import SUMS_FILE
from qconfig.errors import (
    MOST_PROBLEMS,
    CheckpointError,
    QconfigError,
    StorageError,
    raise_problems,
)
from qconfig.limits import current_limits


def other_files(checkpoint: Checkpoint, *, follow_symlinks: bool = False) -> list[Path]:
    """Return the files of the directory that are neither shards, index, config.json nor sums.

    Sums of the shards that there were would be wrong of others.

    A link is copied as the file that it leads to, so one that leaves the directory could put a
    secret of this machine into a checkpoint that is published.

    Args:
        checkpoint: an open one.
        follow_symlinks: also accept links to files elsewhere.

    Raises:
        CheckpointError: something that cannot be carried, such as a FIFO; all of it at once.
    """
    if not checkpoint.is_directory:
        return []
    directory = checkpoint.directory
    ours = {CONFIG_FILE, INDEX_FILE, *checkpoint.shards, *checkpoint.consumed}
    files: list[Path] = []
    problems: list[QconfigError] = []
    for path in sorted(_all_below(directory)):
        name = path.relative_to(directory).as_posix()
        if name in ours or name == SUMS_FILE:
            continue
        problem = _problem(path, directory, follow_symlinks=follow_symlinks)
        if problem is None:
            files.append(path)
        else:
            problems.append(problem)
    problems += _twins(directory, [*(directory / name for name in ours), *files])
    raise_problems(problems[:MOST_PROBLEMS], file=directory)
    return files


def _all_below(directory: Path) -> Iterator[Path]:
    """Yield all but the folders. Raises CheckpointError where folders are nested too deep."""
    limits = current_limits()
    folders = [(directory, 0)]
    while folders:
        folder, depth = folders.pop()
        if depth > limits.folder_depth:
            raise CheckpointError(
                "folders are nested too deeply",
                file=folder,
                expected=f"levels: {limits.describe('folder_depth')}",
            )
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append((Path(entry.path), depth + 1))
                    else:
                        yield Path(entry.path)
        except OSError as error:
            raise StorageError(f"cannot read: {error.strerror}", file=folder) from error


def _twins(directory: Path, paths: Iterable[Path]) -> Iterator[CheckpointError]:
    """Yield a problem for each file that would take the place of another on some system."""
    for name, twin in twins(path.relative_to(directory).as_posix() for path in paths):
        yield CheckpointError(
            "two files have names that are one on some systems",
            file=directory / name,
            **differ(name, twin),
            hint="rename or remove one of the two",
        )


def _problem(path: Path, directory: Path, *, follow_symlinks: bool) -> QconfigError | None:
    if path.is_symlink() and path.is_dir():
        return CheckpointError(
            "a link to a directory",
            file=path,
            found=str(path.readlink()),
            expected="files and directories that can be copied along",
            hint="remove it, or put a copy in its place",
        )
    if not path.is_file():
        return CheckpointError(
            "not a regular file", file=path, hint="remove it, it cannot be carried along"
        )
    try:
        check_link(path, directory, follow_symlinks=follow_symlinks)
    except QconfigError as error:
        return error
    return None
