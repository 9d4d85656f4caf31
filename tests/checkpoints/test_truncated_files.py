"""A shard that somebody cuts short during a call gives an error of ours, and never SIGBUS."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from qconfig import load_checkpoint
from tests.checkpoints.builders import checkpoint_of, current_layout, v1_layout
from tests.checkpoints.truncating import SHARD

ROWS, COLUMNS = 64, 2048


def ends(job: str, folder: Path) -> list[str]:
    """Return how the job ended, cut short before its first call to the system, its second, ..."""
    arguments = [sys.executable, "-m", "tests.checkpoints.truncating", job, str(folder)]
    done = subprocess.run(arguments, check=False, capture_output=True, text=True, timeout=300)
    assert not done.returncode, done.stderr
    assert "foreign exception" not in done.stdout, done.stderr
    return done.stdout.splitlines()


def quantized(folder: Path) -> Path:
    """Write tensors of many pages: plain, of today's layout, and one that loading computes."""
    layouts = {
        "old.weight": v1_layout(ROWS, COLUMNS, group=4),
        "new.weight": current_layout(ROWS, COLUMNS),
    }
    return checkpoint_of(folder / "m", layouts, {"norm.weight": torch.ones(ROWS, COLUMNS)})


def floats(folder: Path) -> Path:
    """Write float weights of many pages."""
    plain = {f"{i}.weight": torch.randn(ROWS, COLUMNS) for i in range(3)}
    return checkpoint_of(folder / "m", {}, plain)


@pytest.mark.parametrize("job", ["load", "load-copy", "load-model"])
def test_loading_ends_in_an_error_wherever_the_shard_is_cut(tmp_path: Path, job: str) -> None:
    """It never touches a mapped page, and gives no tensors of a file that shrank meanwhile."""
    *disturbed, last = ends(job, quantized(tmp_path))
    assert last == "done"
    assert len(disturbed) > 5
    assert set(disturbed) == {"error"}


@pytest.mark.parametrize("job", ["upgrade", "verify", "inspect"])
def test_other_verbs_end_in_an_error_or_are_through(tmp_path: Path, job: str) -> None:
    """They read: up to the last byte that they need a cut is an error, and afterwards nothing."""
    *disturbed, last = ends(job, quantized(tmp_path))
    assert last == "done"
    assert set(disturbed) <= {"error", "more"}
    assert disturbed == sorted(disturbed)
    assert disturbed[0] == "error"


def test_quantizing_ends_in_an_error_or_is_through(tmp_path: Path) -> None:
    """Weights are read, not mapped."""
    *disturbed, last = ends("quantize", floats(tmp_path))
    assert last == "done"
    assert set(disturbed) <= {"error", "more"}
    assert disturbed[0] == "error"


def test_tensors_that_were_read_outlive_their_file(tmp_path: Path) -> None:
    """`mmap=False` gives tensors that no later change of the file can reach."""
    source = floats(tmp_path)
    tensors = load_checkpoint(source, mmap=False)
    expected = {name: t.clone() for name, t in tensors.items()}
    (source / SHARD).write_bytes(b"")
    assert all(torch.equal(tensors[name], expected[name]) for name in expected)
