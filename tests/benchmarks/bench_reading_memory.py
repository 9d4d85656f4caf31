"""Peak memory of `inspect` and `verify` over several shards, against the largest tensor.

Run: `python -m tests.benchmarks.bench_reading_memory [--folder DIR]`. Linux only.

Three shards, each with one quantized weight of 8192 x 8192. The peak is that of a fresh process
from a point on where it has read a tiny checkpoint: the kernel's mark is reset there, because a new
process takes over that of its parent.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

import qconfig
from qconfig import (
    Float8WeightOnlyConfig,
    Int4WeightOnlyConfig,
    Int8WeightOnlyConfig,
    IntxWeightOnlyConfig,
    NVFP4DynamicActivationNVFP4WeightConfig,
    PerGroup,
)

CONFIGS = {
    "int8": Int8WeightOnlyConfig(),
    "int8, groups of 32": Int8WeightOnlyConfig(granularity=PerGroup(32)),
    "int4 codes in int8": IntxWeightOnlyConfig(
        weight_dtype=qconfig.DType.INT4, granularity=PerGroup(32)
    ),
    "float8": Float8WeightOnlyConfig(),
    "int4": Int4WeightOnlyConfig(),
    "nvfp4": NVFP4DynamicActivationNVFP4WeightConfig(),
}
JOBS = ("inspect", "verify", "verify -j 2")

_CHILD = """
import sys
from concurrent.futures import ThreadPoolExecutor
from qconfig import inspect_checkpoint, verify_checkpoint
def status(key):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(key))
job, warm, source = sys.argv[1:]
def run(path):
    if job == "inspect":
        inspect_checkpoint(path)
        return
    with ThreadPoolExecutor(2) as pool:
        assert verify_checkpoint(path, executor=pool if "-j" in job else None).ok
run(warm)
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")
before = status("VmRSS")
run(source)
print(status("VmHWM") - before)
"""


def main() -> None:
    """Print one markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=None)
    folder = Path(tempfile.mkdtemp(dir=parser.parse_args().folder))
    print("| weights | largest tensor | " + " | ".join(JOBS) + " |")
    print("|---|---:|" + "---:|" * len(JOBS))
    try:
        for name in CONFIGS:
            warm, source = folder / "warm", folder / "source"
            saved(warm, name, 256)
            largest = saved(source, name, 8192)
            peaks = [peak(job, warm, source) for job in JOBS]
            cells = [f"{p / 1e6:.0f} MB ({p / largest:.2f} ×)" for p in peaks]
            print(f"| {name} | {largest / 1e6:.0f} MB | {' | '.join(cells)} |", flush=True)
            shutil.rmtree(warm)
            shutil.rmtree(source)
    finally:
        shutil.rmtree(folder)


def saved(directory: Path, name: str, size: int) -> int:
    """Save a quantized model of three weights, each in its shard; return the bytes of one."""
    layers = [torch.nn.Linear(size, size, bias=False, dtype=torch.bfloat16) for _ in range(3)]
    model = torch.nn.Sequential(*layers)
    qconfig.quantize_(model, CONFIGS[name])
    qconfig.save_checkpoint(model, directory, config=CONFIGS[name], max_shard_bytes=1)
    return max(
        sum(t.bytes for t in qconfig.inspect_checkpoint(directory).tensors if t.fqn == fqn)
        for fqn in model.state_dict()
    )


def peak(job: str, warm: Path, source: Path) -> int:
    """Return what a fresh process needs for a job above what it had, in bytes."""
    arguments = [sys.executable, "-c", _CHILD, job, str(warm), str(source)]
    done = subprocess.run(arguments, check=True, capture_output=True, text=True)
    return int(done.stdout)


if __name__ == "__main__":
    main()
