"""Verifying and inspecting read tensor by tensor: memory is that of one, not of the checkpoint."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from qconfig.checkpoints.contents import ShardContents
from qconfig.checkpoints.write import write_checkpoint
from qconfig.codec.layout_values import wrapped
from qconfig.codec.tensor_values import LazyTensor
from qconfig.layouts import Float8TensorLayout

SIZE = 4096 * 4096

# The peak of a new process counts that of its parent: only what is reset by itself is its own.
_CHILD = """
import sys
from qconfig import inspect_checkpoint, verify_checkpoint
def status(key):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(key))
job, warm, source = sys.argv[1:]
def run(path):
    if job == "inspect":
        return inspect_checkpoint(path).tensors
    return verify_checkpoint(path).ok
run(warm)
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")
before = status("VmRSS")
assert run(source)
print(status("VmHWM") - before)
"""


def checkpoint(directory: Path, rows: int, columns: int) -> Path:
    """Write three shards, each with a quantized and a plain tensor of `rows * columns` bytes."""

    def contents(i: int) -> ShardContents:
        codes = torch.full((rows, columns), 0.5).to(torch.float8_e4m3fn)
        layout = Float8TensorLayout(codes, torch.ones(rows, 1), (1, columns), torch.bfloat16)
        norm = LazyTensor.of(torch.ones(rows, columns // 4))
        return ShardContents({f"{i}.norm": norm}, {f"{i}.weight": wrapped(layout)})

    write_checkpoint(directory, {f"model-{i}.safetensors": contents(i) for i in range(3)}, {})
    return directory


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux' /proc")
@pytest.mark.parametrize(("job", "most"), [("inspect", 0.25), ("verify", 1.75)])
def test_memory_is_that_of_one_tensor(job: str, most: float, tmp_path: Path) -> None:
    """Float8 codes, whose check once took three times their size, in three shards."""
    warm = checkpoint(tmp_path / "warm", 64, 64)
    source = checkpoint(tmp_path / "source", 4096, 4096)
    arguments = [sys.executable, "-c", _CHILD, job, str(warm), str(source)]
    done = subprocess.run(arguments, check=True, capture_output=True, text=True)
    assert int(done.stdout) < most * SIZE
