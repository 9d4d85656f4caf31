"""A new directory appears whole or not at all."""

import errno
import os
from pathlib import Path

import pytest

from qconfig.codec.new_directory import new_directory
from qconfig.codec.new_files import copy_file, rename_directory, sync_directory, write_file
from qconfig.errors import StorageError, UsageError


def test_the_directory_appears_at_the_end(tmp_path: Path) -> None:
    """While it is written there is no target; afterwards there is nothing else."""
    target = tmp_path / "new"
    with new_directory(target) as work:
        write_file(work / "a", b"x")
        assert not target.exists()
    assert (target / "a").read_bytes() == b"x"
    assert [p.name for p in tmp_path.iterdir()] == ["new"]


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    """Whatever goes wrong inside, the sibling is removed and there is no target."""
    with pytest.raises(KeyboardInterrupt), new_directory(tmp_path / "a" / "new") as work:
        write_file(work / "a", b"x")
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_a_failing_rename_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the last step fails, the error is ours and the target absent."""

    def refuse(*_: object) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    monkeypatch.setattr(os, "rename", refuse)
    with (
        pytest.raises(StorageError, match="the file system refused"),
        new_directory(tmp_path / "n"),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_rename_that_says_it_failed_may_have_worked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A network file system that repeats a rename finds nothing: only the place counts."""
    rename = os.rename

    def twice(old: Path, new: Path) -> None:
        rename(old, new)
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))

    (tmp_path / "old").mkdir()
    monkeypatch.setattr(os, "rename", twice)
    rename_directory(tmp_path / "old", tmp_path / "new")
    assert [p.name for p in tmp_path.iterdir()] == ["new"]


def test_a_rename_that_finds_another_directory_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the old one is gone and something else has the new name, the error stands."""

    def stolen(old: Path, _: Path) -> None:
        old.rmdir()
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))

    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()
    monkeypatch.setattr(os, "rename", stolen)
    with pytest.raises(FileNotFoundError):
        rename_directory(tmp_path / "old", tmp_path / "new")


def test_files_and_directories_are_synced_before_the_rename(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The order on the disk is files, their directory, the new name, its directory."""
    events: list[str] = []
    sync, rename = os.fsync, os.rename

    def spy_sync(descriptor: int) -> None:
        events.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        sync(descriptor)

    def spy_rename(old: Path, new: Path) -> None:
        events.append("rename")
        rename(old, new)

    monkeypatch.setattr(os, "fsync", spy_sync)
    monkeypatch.setattr(os, "rename", spy_rename)
    with new_directory(tmp_path / "new") as work:
        write_file(work / "a", b"x")
    assert events == ["a", "content", "rename", tmp_path.name]


def test_a_directory_that_cannot_be_synced_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some network file systems refuse to sync directories; that is no failure."""

    def refuse(_: int) -> None:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr(os, "fsync", refuse)
    sync_directory(tmp_path)


def test_a_directory_that_fails_to_sync_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that fails is not taken for a file system that has no such call."""

    def refuse(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="Input/output"):
        sync_directory(tmp_path)


def test_an_empty_directory_may_be_the_target(tmp_path: Path) -> None:
    """An empty directory, as `mkdir` left it, is replaced."""
    (tmp_path / "new").mkdir()
    with new_directory(tmp_path / "new") as work:
        write_file(work / "a", b"x")
    assert (tmp_path / "new" / "a").exists()


@pytest.mark.parametrize("kind", ["file", "link", "full"])
def test_anything_else_is_not_replaced(tmp_path: Path, kind: str) -> None:
    """A file, a link or a directory with content stays as it is."""
    target = tmp_path / "new"
    if kind == "file":
        target.write_text("x")
    elif kind == "link":
        target.symlink_to(tmp_path / "elsewhere")
    else:
        target.mkdir()
        (target / "a").write_text("x")
    with pytest.raises(UsageError, match="the target exists"), new_directory(target):
        pass
    assert target.is_symlink() == (kind == "link")
    assert [p.name for p in tmp_path.iterdir()] == ["new"]


def test_a_file_is_never_written_twice(tmp_path: Path) -> None:
    """Writing where a file lies is refused and does not change it."""
    write_file(tmp_path / "a", b"x")
    with pytest.raises(StorageError):
        write_file(tmp_path / "a", b"y")
    assert (tmp_path / "a").read_bytes() == b"x"


def test_a_copy_has_the_mode_of_its_source(tmp_path: Path) -> None:
    """Executable files stay executable."""
    write_file(tmp_path / "a", b"x")
    (tmp_path / "a").chmod(0o751)
    copy_file(tmp_path / "a", tmp_path / "b" / "c")
    assert (tmp_path / "b" / "c").stat().st_mode & 0o777 == 0o751
