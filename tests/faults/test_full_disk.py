"""A disk that is really full, or really read-only."""

import os
import shutil
from pathlib import Path

import pytest

from qconfig.errors import StorageError
from tests.cli.calls import ROW, call, write
from tests.faults.expectations import leftover_of
from tests.faults.operations import NAMES, OPERATIONS, Operation, digest_of

PAGE = os.sysconf("SC_PAGE_SIZE")


def fill(disk: Path, free: int) -> Path:
    """Write a file that leaves only so many pages of a disk free."""
    status = os.statvfs(disk)
    ballast = disk / "ballast"
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, status.f_bavail * status.f_bsize - free * PAGE)
    return ballast


def refused(operation: Operation, source: Path, target: Path) -> str:
    """Run, and return why the file system refused, or nothing."""
    try:
        operation.run(source, target)
    except StorageError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_full_disk(mounted, tmp_path, operation):
    """However much is free: the target is absent, and with some more space the run goes through."""
    made = OPERATIONS[operation]
    made.make(tmp_path / "source")
    made.run(tmp_path / "source", tmp_path / "target")
    final, before = digest_of(tmp_path / "target"), digest_of(tmp_path / "source")
    disk = mounted("size=1m")
    kept, free, refusal = 0, 0, "first"
    while refusal:
        ballast = fill(disk, free)
        refusal = refused(made, tmp_path / "source", disk / "target")
        assert digest_of(tmp_path / "source") == before
        assert digest_of(disk / "target") == ("" if refusal else final)
        shards = [leftover_of(disk / "target") / "content" / name for name in NAMES]
        inodes = {path.name: path.stat().st_ino for path in shards if path.exists()}
        kept = max(kept, len(inodes))
        ballast.unlink()
        if refusal:
            assert refusal.startswith(str(disk))
            assert "No space left on device" in refusal
            made.run(tmp_path / "source", disk / "target")
        assert digest_of(disk / "target") == final
        assert {path.name for path in disk.iterdir()} == {"target"}
        for name in sorted(inodes)[:-1]:
            assert (disk / "target" / name).stat().st_ino == inodes[name]
        shutil.rmtree(disk / "target")
        free += 1
    assert free > 5
    assert kept == (len(NAMES) if made.goes_on else 0)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_read_only_disk(mounted, tmp_path, operation):
    """A target on a disk that is mounted read-only is refused with its name."""
    made = OPERATIONS[operation]
    made.make(tmp_path / "source")
    disk = mounted("ro,size=1m")
    with pytest.raises(StorageError, match="Read-only file system") as caught:
        made.run(tmp_path / "source", disk / "folder" / "target")
    assert caught.value.file == str(disk / "folder" / "target")
    assert caught.value.exit_code == 5


def test_the_command_says_how_to_go_on(mounted, tmp_path):
    """A full disk is exit code 5; the same command goes on, once something was removed."""
    OPERATIONS["quantize"].make(tmp_path / "source")
    config = write(tmp_path / "quant.json", ROW)
    disk = mounted("size=1m")
    ballast = fill(disk, 8)
    arguments = ("quantize", tmp_path / "source", disk / "target", "-c", config)
    result = call(*arguments)
    assert result.exit_code == 5
    assert "No space left on device" in result.stderr
    assert "run the same again to go on" in result.stderr
    assert leftover_of(disk / "target").is_dir()
    ballast.unlink()
    assert call(*arguments).exit_code == 0
    assert {path.name for path in disk.iterdir()} == {"target"}


def test_a_disk_that_becomes_read_only(ask, mounted, tmp_path):
    """A run that was killed goes on when its disk can be written again."""
    disk = mounted("size=1m")
    final = ask("interrupted", operation="quantize", home=disk, shards=2)
    source, target = disk / "source", disk / "place" / "target"
    mounted("ro", disk)
    with pytest.raises(StorageError, match="Read-only file system") as caught:
        OPERATIONS["quantize"].run(source, target)
    assert caught.value.file == str(target)
    mounted("rw", disk)
    OPERATIONS["quantize"].run(source, target)
    assert digest_of(target) == final
    assert not leftover_of(target).exists()
