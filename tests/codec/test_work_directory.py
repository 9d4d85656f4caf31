"""A directory that is made step by step, by one run at a time, and that another run finishes."""

import errno
import fcntl
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from qconfig.codec.new_files import write_file
from qconfig.codec.run_lock import Holder, LockedError, RunLock, duration, holder_of
from qconfig.codec.work_directory import (
    IDENTITY,
    WorkDirectory,
    new_part,
    work_directory,
    work_path,
)
from qconfig.errors import CheckpointError, NewerVersionError, StorageError, UsageError

HEAD = {IDENTITY: {"source": "1", "config": "2"}}


def _part(work: WorkDirectory, name: str) -> None:
    write_file(work.content / name, name.encode())
    work.add(name, {"size": 1})


def _interrupted(target: Path, error: BaseException, head: Mapping[str, Any] | None = HEAD) -> None:
    with pytest.raises(type(error)), work_directory(target, head=head) as work:
        _part(work, "a")
        write_file(work.content / "half", b"")
        raise error


def _names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


@pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError(), StorageError("full")])
def test_what_is_finished_stays_after_an_interruption(tmp_path: Path, error: BaseException) -> None:
    """The next run of the same kind finds the parts that are finished, and no others."""
    target = tmp_path / "new"
    _interrupted(target, error)
    with work_directory(target, head=HEAD) as work:
        assert list(work.finished) == ["a"]
        assert _names(work.content) == ["a"]
        _part(work, "b")
    assert _names(target) == ["a", "b"]
    assert _names(tmp_path) == ["new"]


def test_an_error_says_what_was_kept(tmp_path: Path) -> None:
    """Who reads that the disk is full reads what to do then, too."""
    target = tmp_path / "new"
    error = StorageError("full", hint="free some space")
    _interrupted(target, error)
    assert error.hint == (
        f"free some space; 1 finished file is kept in {work_path(target)}; run the same again to "
        f"go on, or remove them with qconfig doctor --remove {target}"
    )


def test_an_interruption_says_what_was_kept(tmp_path: Path) -> None:
    """An exception that is not ours gets a note, which tracebacks show."""
    error = KeyboardInterrupt()
    _interrupted(tmp_path / "new", error)
    assert "run the same again to go on" in error.__notes__[0]


def test_an_error_of_the_data_leaves_nothing(tmp_path: Path) -> None:
    """It would come again, so that there is nothing to go on with."""
    _interrupted(tmp_path / "new", CheckpointError("wrong"))
    assert _names(tmp_path) == []


def test_a_run_that_has_finished_nothing_leaves_nothing(tmp_path: Path) -> None:
    """There is nothing that the next run would gain."""
    with pytest.raises(KeyboardInterrupt), work_directory(tmp_path / "new", head=HEAD):
        raise KeyboardInterrupt
    assert _names(tmp_path) == []


def test_a_run_that_cannot_be_resumed_leaves_nothing(tmp_path: Path) -> None:
    """Without a head nobody can tell what the parts are of."""
    _interrupted(tmp_path / "new", KeyboardInterrupt(), head=None)
    assert _names(tmp_path) == []


@pytest.mark.parametrize("head", [{IDENTITY: {"source": "1", "config": "3"}}, None])
def test_another_run_does_not_go_on(tmp_path: Path, head: dict[str, Any] | None) -> None:
    """What differs is said, and what was kept stays."""
    target = tmp_path / "new"
    _interrupted(target, KeyboardInterrupt())
    with pytest.raises(UsageError) as caught, work_directory(target, head=head):
        pass
    found = "another config" if head else "another kind of run"
    assert str(caught.value) == (
        f"{target}: an interrupted run of another kind has begun to write the target\n"
        f"  found: '{found}'\n"
        "  expected: the same source, config and options as before\n"
        "  hint: run it as before to go on, or remove what it left: qconfig doctor --remove "
        f"{target}"
    )
    assert _names(work_path(target) / "content") == ["a", "half"]


def test_a_torn_line_of_the_journal_does_not_count(tmp_path: Path) -> None:
    """A part whose line was not written whole is made again."""
    target = tmp_path / "new"
    _interrupted(target, KeyboardInterrupt())
    with (work_path(target) / "journal").open("ab") as file:
        file.write(b'{"part":"half","si')
    with work_directory(target, head=HEAD) as work:
        assert list(work.finished) == ["a"]
        _part(work, "half")
    assert _names(target) == ["a", "half"]


@pytest.mark.parametrize("text", [b"", b"\xff\n", b"[]\n", b"{}\n", b"[" * 10**5 + b"\n"])
def test_a_journal_that_is_damaged_is_of_no_use(tmp_path: Path, text: bytes) -> None:
    """Everything is made again then."""
    target = tmp_path / "new"
    _interrupted(target, KeyboardInterrupt())
    (work_path(target) / "journal").write_bytes(text)
    with work_directory(target, head=HEAD) as work:
        assert _names(work.content) == []
    assert _names(tmp_path) == ["new"]


def test_a_second_run_is_refused_with_the_first_one_s_pid_and_age(tmp_path: Path) -> None:
    """One run at a time writes a target."""
    target = tmp_path / "new"
    with work_directory(target, head=HEAD) as work:
        _part(work, "a")
        with pytest.raises(UsageError) as caught, work_directory(target, head=HEAD):
            pass
        assert f"it is written by process {os.getpid()} on " in str(caught.value)
        assert caught.value.found is not None
        assert caught.value.found.endswith(" s'")
        # Who is refused leaves the lock as it is.
        held = holder_of(work.path / "lock")
        assert held is not None
        assert held.pid == os.getpid()
    assert _names(target) == ["a"]


def test_a_run_that_was_killed_after_the_rename_is_finished_by_the_same_run(
    tmp_path: Path,
) -> None:
    """The target is complete then; the run has nothing to do but to remove the rest."""
    target = tmp_path / "new"
    with work_directory(target, head=HEAD) as work:
        _part(work, "a")
        journal = (work.path / "journal").read_bytes()
    work.path.mkdir()
    (work.path / "journal").write_bytes(journal + b'{"placed":true}\n')
    with work_directory(target, head=HEAD) as again:
        assert again.is_placed
    assert _names(tmp_path) == ["new"]


def test_a_run_that_was_killed_after_the_rename_does_not_hide_the_target_from_others(
    tmp_path: Path,
) -> None:
    """For another run the target exists, as for every run that comes late."""
    target = tmp_path / "new"
    with work_directory(target, head=HEAD) as work:
        _part(work, "a")
    work.path.mkdir()
    with pytest.raises(UsageError, match="the target exists"), work_directory(target, head=HEAD):
        pass
    assert _names(tmp_path) == ["new"]


@pytest.mark.parametrize("kind", ["link", "file"])
def test_what_is_no_directory_of_ours_is_not_touched(tmp_path: Path, kind: str) -> None:
    """A link could lead our files to anywhere."""
    target, other = tmp_path / "new", tmp_path / "other"
    other.mkdir()
    if kind == "link":
        work_path(target).symlink_to(other)
    else:
        work_path(target).write_text("x")
    with pytest.raises(UsageError, match="something else has the name"), work_directory(target):
        pass
    assert _names(other) == []


def test_a_mount_point_is_no_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No directory can get the name of one."""
    (tmp_path / "new").mkdir()
    monkeypatch.setattr(Path, "is_mount", lambda _: True)
    with (
        pytest.raises(UsageError, match="where a file system is mounted"),
        work_directory(tmp_path / "new"),
    ):
        pass


def test_a_lock_without_its_process_is_nobody_s(tmp_path: Path) -> None:
    """A file that a killed run left does not hinder the next one."""
    path = tmp_path / "lock"
    path.write_bytes(json.dumps({"pid": 1, "host": "h", "started": 0}).encode())
    assert holder_of(path) is None
    lock = RunLock.take(path)
    assert holder_of(path) == Holder.from_bytes(path.read_bytes())
    lock.release()


def test_times_are_said_in_their_two_greatest_units() -> None:
    """Nobody needs the seconds of an hour."""
    assert [duration(x) for x in (0, 59, 61, 3600, 90061)] == [
        "0 s",
        "59 s",
        "1 min 1 s",
        "1 h 0 min",
        "1 d 1 h",
    ]


@pytest.mark.parametrize("name", ["a\0b", "a\udc00b\ud800"])
def test_a_target_that_no_file_system_can_hold_is_refused(tmp_path: Path, name: str) -> None:
    """It is the caller's mistake, and not the file system's."""
    with pytest.raises(UsageError, match="not a path"), work_directory(tmp_path / name):
        pass


def test_content_that_is_no_directory_is_removed(tmp_path: Path) -> None:
    """A FIFO is not waited for."""
    path = work_path(tmp_path / "new")
    path.mkdir()
    os.mkfifo(path / "content")
    with work_directory(tmp_path / "new") as work:
        write_file(work.content / "a", b"x")
    assert _names(tmp_path) == ["new"]


@pytest.mark.parametrize("started", ["NaN", "-Infinity", "1e999", '"x"', "null"])
def test_a_lock_with_no_start_names_nobody(tmp_path: Path, started: str) -> None:
    """It is held all the same."""
    target = tmp_path / "new"
    with work_directory(target, head=HEAD) as work:
        (work.path / "lock").write_text(f'{{"pid": 1, "host": "h", "started": {started}}}')
        with pytest.raises(UsageError, match="its lock is held"), work_directory(target, head=HEAD):
            pass
        held = holder_of(work.path / "lock")
        assert held is not None
        assert "an unknown host" in str(held)


def test_a_journal_that_cannot_be_read_keeps_what_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too many open files are no reason to throw work away."""
    target = tmp_path / "new"
    _interrupted(target, KeyboardInterrupt())
    opened = os.open

    def refuse(path: Any, *arguments: Any, **options: Any) -> int:
        if Path(path).name == "journal":
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return opened(path, *arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", refuse)
        with pytest.raises(StorageError, match="Too many open files"), work_directory(target):
            pass
    with work_directory(target, head=HEAD) as work:
        assert list(work.finished) == ["a"]


def test_a_journal_of_a_newer_release_is_left(tmp_path: Path) -> None:
    """What it says of its parts is not known here."""
    target = tmp_path / "new"
    _interrupted(target, KeyboardInterrupt())
    journal = work_path(target) / "journal"
    text = journal.read_text().replace('"qconfig_journal":1', '"qconfig_journal":2')
    journal.write_text(text)
    with pytest.raises(NewerVersionError, match="newer release"), work_directory(target, head=HEAD):
        pass
    assert journal.read_text() == text
    assert _names(work_path(target) / "content") == ["a", "half"]


def test_what_an_earlier_run_still_writes_is_not_taken(tmp_path: Path) -> None:
    """A worker that outlives its run cannot put a file into the next one."""
    target = tmp_path / "new"
    with pytest.raises(KeyboardInterrupt), work_directory(target, head=HEAD) as work:
        _part(work, "a")
        late = new_part(work.parts)
        write_file(late, b"late")
        raise KeyboardInterrupt
    with work_directory(target, head=HEAD) as again:
        assert again.parts != work.parts
        with pytest.raises(FileNotFoundError):
            late.rename(again.content / "b")
    assert _names(target) == ["a"]


def test_looking_at_a_lock_does_not_hinder_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who only asks holds it for a moment, which a run waits for."""
    path = tmp_path / "lock"
    path.touch()
    looking = os.open(path, os.O_RDONLY)
    fcntl.flock(looking, fcntl.LOCK_SH)
    monkeypatch.setattr(time, "sleep", lambda _: fcntl.flock(looking, fcntl.LOCK_UN))
    RunLock.take(path).release()
    os.close(looking)


def test_without_locks_a_process_may_try_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own name in a file that it has let go of does not count."""

    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    path = tmp_path / "lock"
    lock = RunLock.take(path)
    for _ in range(2):
        with pytest.raises(LockedError):
            RunLock.take(path)
    lock.release()
    RunLock.take(path).release()


def test_a_signal_while_the_journal_is_written_keeps_the_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its line is on the disk then, or will be written again."""
    target, sync = tmp_path / "new", os.fsync

    def interrupted(descriptor: int) -> None:
        sync(descriptor)
        if Path(f"/proc/self/fd/{descriptor}").readlink().name == "journal":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), work_directory(target, head=HEAD) as work:
        monkeypatch.setattr(os, "fsync", interrupted)
        _part(work, "a")
    monkeypatch.setattr(os, "fsync", sync)
    with work_directory(target, head=HEAD) as again:
        assert list(again.finished) == ["a"]
