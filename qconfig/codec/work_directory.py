"""A new directory that appears whole or not at all, and that a killed run leaves resumable.

A directory `T` is made in its sibling `.T.qconfig-tmp`, which has

    lock       held by the run that works here, see `run_lock`
    journal    what the run is, and the parts that are finished, see `journal`
    content    what becomes `T`
    parts-*    files that are written now and will be in `content`

All files are brought to the disk before `content` is renamed to `T`; then the rest is removed.
"""

import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from attrs import define, field

from qconfig.codec.journal import Journal
from qconfig.codec.new_files import make_folders, rename_directory, storage_errors, sync_directory
from qconfig.codec.run_lock import LockedError, RunLock
from qconfig.codec.targets import MARK, absolute, check_target, is_taken
from qconfig.errors import QconfigError, StorageError, UsageError

CONTENT, JOURNAL, LOCK = "content", "journal", "lock"
_PARTS = "parts-"
IDENTITY = "identity"
"""Key of a journal's head: what has to be the same for a run to go on where another ended."""
PART = "part"
"""Key of a journal's entry: the name of a file of `content` that is finished."""
PLACED = "placed"
"""Key of a journal's entry: everything is finished, and the directory gets its name."""


@define
class WorkDirectory:
    """Where a new directory is made.

    Args:
        target: its name in the end.
        path: the sibling.
        parts: directory for files that are not finished. Each run has another one, so that what
            workers of an earlier run still write is never taken for this one's.
        journal: of a run that can be resumed.
        finished: what an earlier run has finished, by the name of the part.
        is_placed: whether an earlier run has made all of `target`; nothing is left to do then.
    """

    target: Path
    path: Path
    parts: Path
    journal: Journal | None = None
    finished: dict[str, dict[str, Any]] = field(factory=dict)
    is_placed: bool = False

    @property
    def content(self) -> Path:
        """The directory that becomes the target."""
        return self.path / CONTENT

    def add(self, part: str, facts: Mapping[str, Any]) -> None:
        """Note that a file of `content` is finished. Raises StorageError.

        Its bytes are on the disk. Its name may be lost in a power cut, and so a run that goes on
        looks whether it is there.
        """
        if self.journal is None:
            return
        # Before the line is written: a signal may come when it is on the disk already.
        self.finished[part] = dict(facts)
        try:
            with storage_errors(self.target / part):
                self.journal.add({PART: part, **facts})
        except StorageError:
            del self.finished[part]
            raise

    def is_kept(self, error: BaseException) -> bool:
        """Return whether another run can go on after `error`, and gains by it.

        An error of the data comes again, so that there is nothing to go on with.
        """
        passes = not isinstance(error, QconfigError) or any(
            isinstance(problem, StorageError) for problem in error.problems
        )
        return passes and bool(self.finished)


def work_path(target: Path) -> Path:
    """Return the sibling in which `target` is made."""
    return target.parent / f".{target.name}{MARK}"


def new_part(parts: Path) -> Path:
    """Return the name of a new file in a directory of parts."""
    return parts / secrets.token_hex(8)


@contextmanager
def work_directory(
    target: Path | str, *, source: Path | None = None, head: Mapping[str, Any] | None = None
) -> Iterator[WorkDirectory]:
    """Yield where a directory is made; what its content is in the end becomes `target`.

    After a failure it stays if another run can go on, see `WorkDirectory.is_kept`; the error says
    so then. Otherwise it is removed, and so are parents of `target` that had to be made.

    Args:
        target: the directory to make; there must be none, or an empty one.
        source: a directory that must stay untouched.
        head: what the run is, with its `IDENTITY`; None for one that cannot be resumed.

    Raises:
        UsageError: the target exists, or lies in the source, or the source in it; another run
            works on it, or an earlier one of another identity has left something.
        StorageError: the file system refused.
    """
    target = absolute(target)
    check_target(target, source)
    with storage_errors(target):
        placed = _placed_earlier(target, head) if is_taken(target) else None
        missing = [p for p in (target.parent, *target.parent.parents) if not p.exists()]
    if placed is not None:
        yield placed
        return
    path = work_path(target)
    lock = work = None
    try:
        with storage_errors(target):
            make_folders(target.parent)
            lock = _locked(target, path)
            work = _prepared(target, path, head)
        yield work
        _place(work)
    except BaseException as error:
        if work is not None:
            _settle(work, error)
        elif lock is not None and not isinstance(error, UsageError):  # which protects parts
            _discard(path)
        _remove_empty(missing)
        raise
    finally:
        if lock is not None:
            lock.release()


def remove(path: Path) -> None:
    """Remove a work directory whose lock the caller holds. Raises OSError.

    The lock goes last: as long as it is there, no other run begins. One that begins then keeps the
    directory.
    """
    _remove_entry(path / CONTENT)
    _remove_parts(path)
    for name in (JOURNAL, LOCK):
        _remove_entry(path / name)
    try:
        path.rmdir()
    except FileNotFoundError:
        return
    except OSError:
        if not (path / LOCK).exists():
            raise


def _remove_parts(path: Path) -> None:
    for parts in path.glob(f"{_PARTS}*"):
        _remove_entry(parts)


def _remove_entry(entry: Path) -> None:
    if entry.is_dir() and not entry.is_symlink():
        shutil.rmtree(entry)
    else:
        entry.unlink(missing_ok=True)


def _locked(target: Path, path: Path) -> RunLock:
    try:
        return _lock_taken(target, path)
    except OSError:
        with suppress(OSError):  # if nobody else is there
            path.rmdir()
        raise


def _lock_taken(target: Path, path: Path) -> RunLock:
    while True:
        with suppress(FileExistsError):
            path.mkdir()
        if path.is_symlink() or not path.is_dir():
            raise UsageError(
                "something else has the name of the directory in which the target is made",
                file=path,
                expected="a directory that qconfig made, or nothing",
                hint="move it away, or choose another target",
            )
        try:
            return RunLock.take(path / LOCK)
        except FileNotFoundError:
            continue  # its last holder has removed the directory meanwhile
        except LockedError as error:
            raise UsageError(
                "another run is writing the target",
                file=target,
                found=f"it is written by {error.holder}" if error.holder else "its lock is held",
                expected="one run at a time",
                hint="wait for it, end it, or choose another target",
            ) from None


def _prepared(target: Path, path: Path, head: Mapping[str, Any] | None) -> WorkDirectory:
    _remove_parts(path)  # first, so that no late worker puts one into the content of this run
    journal = Journal.read(path / JOURNAL)
    content = path / CONTENT
    if content.is_symlink() or not content.is_dir():
        journal = None  # of a run that has placed its target, which is gone since
    finished = {} if journal is None else parts_of(journal)
    if journal is not None and finished:
        _check_same(target, journal, head)
        work = WorkDirectory(target, path, _new_parts(path), journal, finished)
        _remove_unfinished(work)
        return work
    _remove_entry(content)
    (path / JOURNAL).unlink(missing_ok=True)
    content.mkdir()
    journal = None if head is None else Journal.create(path / JOURNAL, head)
    return WorkDirectory(target, path, _new_parts(path), journal)


def _new_parts(path: Path) -> Path:
    parts = path / f"{_PARTS}{secrets.token_hex(4)}"
    parts.mkdir()
    return parts


def parts_of(journal: Journal) -> dict[str, dict[str, Any]]:
    """Return what is finished, by the name of the part."""
    return {e[PART]: e for e in journal.entries if isinstance(e.get(PART), str)}


def _check_same(target: Path, journal: Journal, head: Mapping[str, Any] | None) -> None:
    before, now = journal.head.get(IDENTITY), (head or {}).get(IDENTITY)
    if before == now:
        return
    names: list[str] = []
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        names = [str(name) for name in now if before.get(name) != now[name]]
    raise UsageError(
        "an interrupted run of another kind has begun to write the target",
        file=target,
        found="another " + ", another ".join(names) if names else "another kind of run",
        expected="the same source, config and options as before",
        hint=f"run it as before to go on, or remove what it left: qconfig doctor --remove {target}",
    )


def _remove_unfinished(work: WorkDirectory) -> None:
    for entry in sorted(work.content.iterdir()):
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        elif entry.name not in work.finished or entry.is_symlink():
            entry.unlink()


def _place(work: WorkDirectory) -> None:
    """Bring all names to the disk and give the directory its own; then remove the rest."""
    if work.is_placed:
        return
    with storage_errors(work.target):
        for folder, _, _ in os.walk(work.content, onerror=_refuse):
            sync_directory(Path(folder))
        if work.journal is not None:
            work.journal.add({PLACED: True})
            sync_directory(work.path)
        rename_directory(work.content, work.target)
        work.is_placed = True
        sync_directory(work.target.parent)
    with suppress(OSError):  # the target is there; `qconfig doctor` removes what else is
        remove(work.path)


def _refuse(error: OSError) -> None:
    raise error


def _placed_earlier(target: Path, head: Mapping[str, Any] | None) -> WorkDirectory:
    """Return the work of an earlier run that has made all of `target`, with nothing left to do.

    What it could not remove any more is removed.

    Raises:
        UsageError: the target is of another kind.
    """
    path, journal = work_path(target), None
    if path.is_dir() and not path.is_symlink() and not (path / CONTENT).exists():
        with suppress(LockedError):
            lock = RunLock.take(path / LOCK)
            try:
                journal = Journal.read(path / JOURNAL)
                remove(path)
            finally:
                lock.release()
    entries = [] if journal is None or journal.head != head else journal.entries
    if not any(PLACED in entry for entry in entries):
        raise UsageError(
            "the target exists",
            file=target,
            expected="a new or empty directory",
            hint="choose another name, or move the old one away",
        )
    return WorkDirectory(target, path, path, is_placed=True)


def _settle(work: WorkDirectory, error: BaseException) -> None:
    """Keep what another run can go on with, and say so; remove everything else."""
    _name_target(error, work)
    if work.is_placed:
        return
    if not work.is_kept(error):
        with suppress(OSError):
            remove(work.path)
        return
    count = len(work.finished)
    files = "1 finished file is" if count == 1 else f"{count} finished files are"
    advice = (
        f"{files} kept in {work.path}; run the same again to go on, or remove them with "
        f"qconfig doctor --remove {work.target}"
    )
    if not isinstance(error, QconfigError):
        error.add_note(advice)
        return
    for problem in error.problems:
        if isinstance(problem, StorageError):
            problem.hint = f"{problem.hint}; {advice}" if problem.hint else advice


def _discard(path: Path) -> None:
    """Remove a directory that could not be prepared, unless there are parts to go on with."""
    with suppress(OSError, QconfigError):
        journal = Journal.read(path / JOURNAL)
        if journal is None or not parts_of(journal):
            remove(path)


def _name_target(error: BaseException, work: WorkDirectory) -> None:
    """Let an error name the file that was wanted, not the one that is not in place yet."""
    for problem in error.problems if isinstance(error, QconfigError) else ():
        if problem.file is not None and Path(problem.file).is_relative_to(work.content):
            problem.file = str(work.target / Path(problem.file).relative_to(work.content))


def _remove_empty(folders: list[Path]) -> None:
    """Remove folders that were made for the target, innermost first, as long as they are empty."""
    with suppress(OSError):
        for folder in folders:
            folder.rmdir()
