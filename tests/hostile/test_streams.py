"""Streams that are closed or full, and Ctrl-C, for the command in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from tests.cli.calls import ROW, write
from tests.hostile.calls import state

MAIN = "from qconfig.cli.main import main; main()"
FULL = Path("/dev/full")


def shell(redirection: str, *words: str, unbuffered: str = "") -> subprocess.CompletedProcess[str]:
    """Run `qconfig` with words, through a shell that closes or replaces its streams."""
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {redirection}', "sh", sys.executable, "-c", MAIN, *words],
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        text=True,
        capture_output=True,
        check=False,
    )


@pytest.mark.parametrize("words", [["history"], ["history", "--json"], ["--help"]])
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
def test_a_closed_stream_is_nothing(closed, words):
    """Who closes a stream wants nothing from it: the call goes on without it."""
    run = shell(closed, *words)
    assert (run.returncode, run.stderr) == (0, "")


@pytest.mark.skipif(not FULL.exists(), reason="/dev/full is Linux's")
@pytest.mark.parametrize("words", [["history"], ["history", "--json"], ["--help"]])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_stdout_is_a_failure_of_storage(unbuffered, words):
    """Output that cannot be written is exit code 5 with one line, and no traceback."""
    run = shell(f">{FULL}", *words, unbuffered=unbuffered)
    assert run.returncode == 5
    assert run.stderr.startswith("error: ")
    assert run.stderr.count("\n") == 1
    assert "No space left on device" in run.stderr


@pytest.mark.skipif(not FULL.exists(), reason="/dev/full is Linux's")
@pytest.mark.parametrize("words", [["nope"], ["inspect", "nowhere"]])
def test_a_full_stderr_is_a_failure_of_storage(words):
    """An error that cannot be told is exit code 5."""
    assert shell(f"2>{FULL}", *words).returncode == 5


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("jobs", ["1", "3"])
def test_an_interrupt_leaves_nothing(tmp_path, jobs):
    """Ctrl-C in the middle is 130; the source is as it was, and nothing else is there."""
    source = tmp_path / "m"
    source.mkdir()
    tensors = {f"l.{i}.weight": torch.ones(256, 256) for i in range(300)}
    names = [f"model-{i}.safetensors" for i in range(3)]
    for i, name in enumerate(names):
        part = dict(list(tensors.items())[i::3])
        save_file(part, source / name)
    weight_map = {n: names[i % 3] for i, n in enumerate(tensors)}
    write(source / "model.safetensors.index.json", {"weight_map": weight_map})
    config = write(tmp_path / "c.json", ROW)
    before = state(tmp_path)
    code = f"""
import os, signal
import qconfig.checkpoints.shard_task as w
signal.signal(signal.SIGINT, signal.default_int_handler)
work, count = w.write_safetensors, 0
def interrupted(path, tensors, metadata, *, known, progress):
    def report(*words):
        global count
        count += 1
        if count == 20:
            os.kill(os.getpid(), signal.SIGINT)
        progress(*words)
    work(path, tensors, metadata, known=known, progress=report)
w.write_safetensors = interrupted
{MAIN}
"""
    words = ["quantize", str(source), str(tmp_path / "t"), "-c", str(config), "-j", jobs]
    run = subprocess.run(
        [sys.executable, "-c", code, *words],
        text=True,
        capture_output=True,
        check=False,
    )
    assert run.returncode == 130, run.stderr
    assert run.stderr.strip() == "interrupted; what was begun is removed"
    assert state(tmp_path) == before
