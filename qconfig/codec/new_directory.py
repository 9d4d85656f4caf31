"""A new directory that appears whole or not at all, where making it again costs little."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from qconfig.codec.work_directory import work_directory


@contextmanager
def new_directory(target: Path | str) -> Iterator[Path]:
    """Yield a directory; on success it becomes `target`, and after a failure it is removed.

    Args:
        target: the directory to make; there must be none, or an empty one.

    Raises:
        UsageError, StorageError: as `work_directory`.
    """
    with work_directory(target) as work:
        yield work.content
