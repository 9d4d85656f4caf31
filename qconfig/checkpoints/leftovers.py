"""What runs that were killed or interrupted left beside their targets: found and removed."""

import re
import shutil
from pathlib import Path
from typing import Any, Self

from attrs import frozen

from qconfig.checkpoints.identity import BYTES, JOB, SHARDS, SOURCE
from qconfig.codec.journal import Journal
from qconfig.codec.new_files import storage_errors
from qconfig.codec.run_lock import Holder, LockedError, RunLock, holder_of
from qconfig.codec.targets import MARK
from qconfig.codec.work_directory import CONTENT, JOURNAL, LOCK, parts_of, remove, work_path
from qconfig.errors import QconfigError, StorageError, UsageError

# Releases up to 0.1 wrote a directory with eight hexadecimal digits behind the mark, and no lock.
_NAME = re.compile(rf"\.(?P<target>.+){re.escape(MARK)}(?P<old>-[0-9a-f]{{8}})?", re.DOTALL)


@frozen
class Leftover:
    """What one run left, or is just writing.

    Args:
        path: the directory.
        target: what it would have become.
        holder: the run that works on it.
        finished: its shards that are finished.
        size: bytes of the tensors of those.
        shards: how many there would be; None where the run left no word of it.
        total: bytes of the tensors of all; None likewise.
        job: what the run did, in one word, such as `quantize`; None likewise.
        source: of what.
        is_placed: whether the target is complete, and this only was not removed any more.
        problem: why nothing is known of it.
    """

    path: Path
    target: Path
    holder: Holder | None = None
    finished: tuple[str, ...] = ()
    size: int = 0
    shards: int | None = None
    total: int | None = None
    job: str | None = None
    source: str | None = None
    is_placed: bool = False
    problem: str | None = None

    @property
    def state(self) -> str:
        """`running`, `resumable`, `placed` (the target is complete), `useless` or `unknown`."""
        if self.holder is not None:
            return "running"
        if self.problem is not None:
            return "unknown"
        if self.is_placed:
            return "placed"
        return "resumable" if self.finished else "useless"

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for `--json`."""
        running = None
        if self.holder is not None:
            seconds = round(self.holder.age, 1)
            running = {"pid": self.holder.pid, "host": self.holder.host, "seconds": seconds}
        return {
            "path": str(self.path),
            "target": str(self.target),
            "state": self.state,
            "running": running,
            "job": self.job,
            "source": self.source,
            "finished": list(self.finished),
            "finished_bytes": self.size,
            "shards": self.shards,
            "bytes": self.total,
        }

    @classmethod
    def read(cls, path: Path, target: Path) -> Self:
        """Return what a directory says of itself. Raises StorageError."""
        with storage_errors(path):
            holder = holder_of(path / LOCK)
            try:
                journal = Journal.read(path / JOURNAL)
            except QconfigError as error:
                return cls(path, target, holder, problem=error.message)
            if journal is None:
                return cls(path, target, holder)
            has_content = (path / CONTENT).is_dir()
        parts = parts_of(journal) if has_content else {}
        return cls(
            path,
            target,
            holder,
            tuple(parts),
            sum(_count(facts.get("size")) or 0 for facts in parts.values()),
            _count(journal.head.get(SHARDS)),
            _count(journal.head.get(BYTES)),
            _text(journal.head.get(JOB)),
            _text(journal.head.get(SOURCE)),
            is_placed=not has_content,
        )


def find_leftovers(place: Path | str) -> list[Leftover]:
    """Return what runs left in a directory, or for one target, in the order of their names.

    Args:
        place: a directory in which targets were written; or a target, that is there or not; or
            what was left of one.

    Raises:
        StorageError: there is no such directory, or it cannot be read.
    """
    place = Path(place).absolute()
    match = _NAME.fullmatch(place.name)
    if match is not None:  # what the doctor itself has said
        place = place.parent / match["target"]
    with storage_errors(place):
        if not place.is_dir() and not place.parent.is_dir():
            raise StorageError("no such directory", file=place)
        own = _in(place.parent, place.name)
        return own + _in(place) if place.is_dir() else own


def remove_leftover(leftover: Leftover) -> None:
    """Remove what a run left.

    Raises:
        UsageError: the run goes on.
        StorageError: the file system refused; what is gone, is gone.
    """
    path = leftover.path
    with storage_errors(path):
        if path.name != work_path(leftover.target).name:
            shutil.rmtree(path)  # of an old release, which had no locks
            return
        try:
            lock = RunLock.take(path / LOCK)
        except FileNotFoundError:  # somebody else has removed it
            return
        except LockedError as error:
            raise UsageError(
                "the run goes on",
                file=path,
                found=f"it is written by {error.holder}",
                hint="end it first, or wait for it",
            ) from None
        try:
            remove(path)
        finally:
            lock.release()


def _in(directory: Path, target: str | None = None) -> list[Leftover]:
    found = []
    for path in sorted(directory.iterdir()):
        match = _NAME.fullmatch(path.name)
        if match is None or path.is_symlink() or not path.is_dir():
            continue
        if target is None or match["target"] == target:
            found.append(Leftover.read(path, directory / match["target"]))
    return found


def _count(value: object) -> int | None:
    return value if type(value) is int and value >= 0 else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
