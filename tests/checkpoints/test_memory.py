"""Work keeps to the memory that it is given; what cannot is refused before anything is written."""

import json
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from qconfig import (
    Int8WeightOnlyConfig,
    PerTensor,
    convert_checkpoint,
    quantize_checkpoint,
    upgrade_checkpoint,
)
from qconfig.checkpoints import stored_bytes
from qconfig.checkpoints.memory import MemoryBudget
from qconfig.errors import UsageError
from qconfig.versioning import Layout

_CHILD = """
import sys
from concurrent.futures import ThreadPoolExecutor
import torch
import qconfig
config = qconfig.Int8WeightOnlyConfig(getattr(qconfig, sys.argv[1])())
def peak():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) * 1024
def run(source, target):
    budget = int(sys.argv[2])
    with ThreadPoolExecutor(4) as pool:
        qconfig.quantize_checkpoint(source, target, config, executor=pool, max_memory=budget)
run(sys.argv[3], sys.argv[5] + "-warm")
base = peak()
run(sys.argv[4], sys.argv[5])
print(peak() - base)
"""


def checkpoint(folder: Path, shape: tuple[int, int], shards: int) -> Path:
    """Make a checkpoint of one bf16 weight a shard."""
    folder.mkdir()
    names = [f"m-{i}.safetensors" for i in range(shards)]
    for i, name in enumerate(names):
        save_file({f"l{i}.weight": torch.ones(shape, dtype=torch.bfloat16)}, folder / name)
    index = {"metadata": {}, "weight_map": {f"l{i}.weight": n for i, n in enumerate(names)}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "config.json").write_text("{}")
    return folder


@pytest.mark.skipif(sys.platform != "linux", reason="peaks are read from /proc")
@pytest.mark.parametrize("granularity", ["PerRow", "PerTensor"])
def test_four_jobs_keep_to_the_budget(tmp_path: Path, granularity: str) -> None:
    """Peak memory above that of a process that is warm is what was allowed, or less."""
    budget = (90 if granularity == "PerTensor" else 100) * 2**20
    warm = checkpoint(tmp_path / "warm", (64, 64), 4)
    source = checkpoint(tmp_path / "source", (2048, 4096), 4)
    arguments = [granularity, str(budget), str(warm), str(source), str(tmp_path / "out")]
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, *arguments], capture_output=True, text=True, check=True
    )
    assert 0 < int(done.stdout) <= budget


def test_a_tensor_that_needs_more_is_refused(tmp_path: Path) -> None:
    """The error names the tensor and what it needs; nothing is written."""
    source = checkpoint(tmp_path / "source", (256, 256), 1)
    config = Int8WeightOnlyConfig(PerTensor())
    with pytest.raises(UsageError, match="more memory than max_memory") as caught:
        quantize_checkpoint(source, tmp_path / "new", config, max_memory=2**20)
    need = 3 * (256 * 256 * 3 + 4) + 16 * 2**20
    assert caught.value.fqn == "l0.weight.qdata"
    assert caught.value.expected == f"at least {need} bytes"
    assert [p.name for p in tmp_path.iterdir()] == ["source"]
    quantize_checkpoint(source, tmp_path / "new", config, max_memory=need)


def test_who_comes_later_waits() -> None:
    """Memory is given when there is enough of it, and comes back."""
    budget, order = MemoryBudget(10), list[str]()
    begun = threading.Event()

    def second() -> None:
        begun.set()
        with budget.taken(5):
            order.append("second")

    thread = threading.Thread(target=second)
    with budget.taken(6):
        thread.start()
        begun.wait()
        with budget.taken(4):
            order.append("first")
    thread.join()
    assert order == ["first", "second"]


def test_memory_comes_back_after_errors() -> None:
    """An error in the block gives the memory back, and too much is all there is."""
    budget = MemoryBudget(10)
    for _ in range(3):
        with pytest.raises(LookupError), budget.taken(99):
            raise LookupError


def test_checks_keep_to_the_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that check an upgrade's result read one tensor at a time where two are too much."""
    config = Int8WeightOnlyConfig()
    quantize_checkpoint(checkpoint(tmp_path / "source", (512, 512), 4), tmp_path / "int8", config)
    convert_checkpoint(tmp_path / "int8", tmp_path / "torchao")
    most, now, lock = 0, 0, threading.Lock()
    usual = stored_bytes.check_stored_values

    def counted(layout: Layout) -> None:
        nonlocal most, now
        with lock:
            now += 1
            most = max(most, now)
        usual(layout)
        with lock:
            now -= 1

    monkeypatch.setattr(stored_bytes, "check_stored_values", counted)
    monkeypatch.setattr(stored_bytes, "_BATCH_BYTES", 1)
    with ThreadPoolExecutor(4) as pool:
        report = upgrade_checkpoint(
            tmp_path / "torchao",
            tmp_path / "new",
            executor=pool,
            verify=True,
            max_memory=20 * 2**20,
        )
    assert report.problems == ()
    assert most == 1
