"""Checkpoints file to file: peak memory of quantizing, throughput against `cp`.

Run: `python -m tests.benchmarks.bench_checkpoints [--gigabytes 4] [--folder DIR]`.

The checkpoint is synthetic: bf16 weights of 4096 x 4096 and 11008 x 4096 in shards of 1 GB. Peak
memory is that of a fresh process, less what the same process has after its imports and one tiny
run; the kernel's mark is reset there, because a process begins with that of its parent. `cp -r` of
the same source, right before, is the yardstick; all files are in the page cache.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

from qconfig.checkpoints.contents import ShardContents
from qconfig.checkpoints.write import write_checkpoint
from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import LazyTensor
from qconfig.migrations.int8_tensor_layout import Int8TensorLayoutV1, Int8TensorLayoutV4

RUNS = 3
SHAPES = ((4096, 4096), (11008, 4096), (4096, 11008))
SHARD_BYTES = 10**9

_CHILD = """
import json, sys, time
from pathlib import Path
import torch
from qconfig import Int8WeightOnlyConfig, quantize_checkpoint, upgrade_checkpoint
def status(key):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(key))
job, warm, source, target = sys.argv[1:]
def run(a, b):
    if job == "quantize":
        quantize_checkpoint(a, b, Int8WeightOnlyConfig())
    else:
        upgrade_checkpoint(a, b)
run(warm, target + "-warm")
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")
base = status("VmRSS")
start = time.perf_counter()
run(source, target)
print(json.dumps({"seconds": time.perf_counter() - start, "bytes": status("VmHWM") - base}))
"""


def main() -> None:
    """Print one markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=4)
    parser.add_argument("--folder", type=Path, default=None)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(dir=options.folder))
    try:
        run(folder, int(options.gigabytes * 10**9))
    finally:
        shutil.rmtree(folder)


def run(folder: Path, size: int) -> None:
    """Make the checkpoints, time each job beside `cp`, print the rows."""
    print("| job | source | largest tensor + output | peak above baseline | seconds | cp | ratio |")
    print("|---|---|---|---|---|---|---|")
    for job, make, outputs in (
        ("quantize", _bf16, 11008 * 4096 * 3),
        ("upgrade v4 -> v5 (metadata)", _v4, 11008 * 4096 * 2),
        ("upgrade v1 -> v5 (zero points computed)", _v1, 11008 * 4096 * 2),
    ):
        source, warm = folder / "source", folder / "warm"
        make(source, size)
        make(warm, 1)
        pairs = []
        peak = 0.0
        for i in range(RUNS):
            copy = _timed_copy(source, folder / f"cp{i}")
            child = _child(job.split()[0], warm, source, folder / f"new{i}")
            shutil.rmtree(folder / f"new{i}-warm")
            shutil.rmtree(folder / f"new{i}")
            pairs.append((child["seconds"] / copy, child["seconds"], copy))
            peak = max(peak, child["bytes"])
        ratio, seconds, copy = sorted(pairs)[len(pairs) // 2]
        total = sum(p.stat().st_size for p in source.iterdir())
        print(
            f"| {job} | {total / 1e9:.2f} GB | {outputs / 1e6:.0f} MB | {peak / 1e6:.0f} MB "
            f"({peak / outputs:.2f}x) | {seconds:.2f} | {copy:.2f} | cp is {1 / ratio:.2f} of it |",
            flush=True,
        )
        shutil.rmtree(source)
        shutil.rmtree(warm)


def _timed_copy(source: Path, target: Path) -> float:
    start = time.perf_counter()
    subprocess.run(["cp", "-r", str(source), str(target)], check=True)
    seconds = time.perf_counter() - start
    shutil.rmtree(target)
    return seconds


def _child(job: str, warm: Path, source: Path, target: Path) -> dict[str, float]:
    arguments = [sys.executable, "-c", _CHILD, job, str(warm), str(source), str(target)]
    done = subprocess.run(arguments, check=True, capture_output=True, text=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def _weights(size: int) -> "list[tuple[str, tuple[int, int]]]":
    names, used = [], 0
    while used < size:
        shape = SHAPES[len(names) % len(SHAPES)]
        names.append((f"layers.{len(names)}.proj.weight", shape))
        used += 2 * shape[0] * shape[1]
    return names


def _shards(weights: "list[tuple[str, tuple[int, int]]]", put: object) -> dict[str, ShardContents]:
    shards: list[ShardContents] = []
    used = SHARD_BYTES
    for name, shape in weights:
        if used >= SHARD_BYTES:
            shards.append(ShardContents())
            used = 0
        put(shards[-1], name, shape)
        used += 2 * shape[0] * shape[1]
    if len(shards) == 1:
        return {"model.safetensors": shards[0]}
    return {f"model-{i:05d}.safetensors": contents for i, contents in enumerate(shards)}


def _bf16(target: Path, size: int) -> None:
    def put(contents: ShardContents, name: str, shape: tuple[int, int]) -> None:
        contents.plain[name] = LazyTensor(
            DType.BFLOAT16, shape, lambda: torch.randn(shape, dtype=torch.bfloat16)
        )

    write_checkpoint(target, _shards(_weights(size), put), {})


def _int8(shape: tuple[int, int]) -> LazyTensor:
    return LazyTensor(DType.INT8, shape, lambda: torch.randint(-128, 128, shape, dtype=torch.int8))


def _v4(target: Path, size: int) -> None:
    def put(contents: ShardContents, name: str, shape: tuple[int, int]) -> None:
        scale = LazyTensor.of(torch.rand(shape[0], 1, dtype=torch.bfloat16))
        block = (1, shape[1])
        contents.layouts[name] = Int8TensorLayoutV4(_int8(shape), scale, block, "bfloat16")

    write_checkpoint(target, _shards(_weights(2 * size), put), {})


def _v1(target: Path, size: int) -> None:
    def put(contents: ShardContents, name: str, shape: tuple[int, int]) -> None:
        contents.layouts[name] = Int8TensorLayoutV1(
            _int8(shape),
            LazyTensor.of(torch.rand(shape[0], dtype=torch.bfloat16)),
            (1, shape[1]),
            "bfloat16",
            zero_point=LazyTensor.of(torch.zeros(shape[0], dtype=torch.int64)),
        )

    write_checkpoint(target, _shards(_weights(2 * size), put), {})


if __name__ == "__main__":
    main()
