"""The harness itself: it counts, it lets calls fail, and it sees what goes past it."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.calls import Call, Calls, Fault, Kind
from tests.repository.sources import ROOT


def write(path: Path, text: bytes = b"abcd") -> int:
    """Write a file as the library does and return the bytes that were taken."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
    try:
        return os.write(descriptor, text)
    finally:
        os.close(descriptor)


def test_calls_are_counted_below_the_folder(tmp_path):
    """Only what changes files below the folder counts."""
    folder = tmp_path / "in"
    folder.mkdir()
    with Calls(folder) as calls:
        write(tmp_path / "outside")
        write(folder / "a")
        (folder / "a").rename(folder / "b")
        (folder / "b").read_bytes()
    assert [(c.name, c.path, c.size) for c in calls.made] == [
        ("open", "a", 0),
        ("write", "a", 4),
        ("close", "a", 0),
        ("rename", "b", 0),
    ]
    assert os.write.__module__ == "posix"


@pytest.mark.parametrize(
    ("kind", "number"),
    [
        (Kind.NO_SPACE, errno.ENOSPC),
        (Kind.QUOTA, errno.EDQUOT),
        (Kind.IO, errno.EIO),
        (Kind.INTERRUPTED, errno.EINTR),
        (Kind.FULL, errno.ENOSPC),
        (Kind.DEAD, errno.EIO),
    ],
)
def test_a_call_fails(tmp_path, kind, number):
    """The call with the number of the fault raises what the system would."""
    with (
        Calls(tmp_path, Fault(2, kind)) as calls,
        pytest.raises(OSError, match=r"\[Errno") as caught,
    ):
        write(tmp_path / "a")
    assert caught.value.errno == number
    assert calls.struck
    assert (tmp_path / "a").read_bytes() == b""


def test_a_short_write(tmp_path):
    """Half is written, and the call says so."""
    with Calls(tmp_path, Fault(2, Kind.SHORT)):
        assert write(tmp_path / "a") == 2
    assert (tmp_path / "a").read_bytes() == b"ab"


def test_an_error_after_the_fact(tmp_path):
    """What is done although it is said to have failed, is done."""
    write(tmp_path / "a")
    with Calls(tmp_path, Fault(1, Kind.LATE)), pytest.raises(OSError, match="Input/output"):
        (tmp_path / "a").unlink()
    assert not (tmp_path / "a").exists()


def test_a_kind_that_a_call_cannot_have():
    """A file that is renamed is not renamed half."""
    assert not Call("rename", "a").may_fail(Kind.SHORT)
    assert Call("write", "a", 2).may_fail(Kind.SHORT)
    assert not Call("write", "a", 1).may_fail(Kind.SHORT)


def test_other_ways_are_seen(tmp_path):
    """A file that is written past the harness is noticed."""
    code = f"""
import sys
from tests.faults.calls import Calls, tell_watchers
sys.addaudithook(tell_watchers)
with Calls({str(tmp_path)!r}) as calls:
    open({str(tmp_path / "a")!r}, "w").close()
    open({str(tmp_path / "a")!r}).close()
print(calls.unseen)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True)
    assert done.stdout.decode().strip() == str([f"open {tmp_path / 'a'}"])
