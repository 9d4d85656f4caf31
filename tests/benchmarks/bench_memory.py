"""Peak memory of quantizing file to file, by config, beside the largest tensor and its output.

Run: `python -m tests.benchmarks.bench_memory [--folder DIR]`.

Each config that needs no arguments quantizes one bf16 weight of 4096 x 8192 in a fresh process. The
baseline is what that process has after its imports and one tiny run.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import save_file

from qconfig.builders.base import Target, builder_of, builders
from qconfig.codec.dtypes import DType
from qconfig.codec.layout_values import layout_nbytes
from qconfig.errors import QconfigError
from tests.benchmarks.timing import row

SHAPE = (4096, 8192)
_CHILD = """
import sys
import qconfig
def status(name):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(name)) * 1024
def run(source, target):
    qconfig.quantize_checkpoint(source, target, getattr(qconfig, sys.argv[1])())
run(sys.argv[2], sys.argv[4] + "-warm")
base = status("VmRSS")
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")
run(sys.argv[3], sys.argv[4])
print(status("VmHWM") - base)
"""


def main() -> None:
    """Print one markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=None)
    folder = Path(tempfile.mkdtemp(dir=parser.parse_args().folder))
    try:
        for name, shape in (("warm", (256, 512)), ("one", SHAPE)):
            tensors = {"l.weight": torch.randn(shape, dtype=torch.bfloat16)}
            save_file(tensors, folder / f"{name}.safetensors")
        row("config", "weight + output, MB", "peak, MB", "ratio")
        row("---", "---:", "---:", "---:")
        for config in builders():
            measure(folder, config)
    finally:
        shutil.rmtree(folder)


def measure(folder: Path, config: type) -> None:
    """Print the row of a config; none where it needs arguments or a calibration."""
    try:
        made = config()
        target = Target("l.weight", SHAPE, DType.BFLOAT16, ("Linear",))
        size = layout_nbytes(builder_of(made).layout(made, target)) + 2 * SHAPE[0] * SHAPE[1]
    except (TypeError, QconfigError):
        return
    files = [str(folder / name) for name in ("warm.safetensors", "one.safetensors", "new")]
    arguments = [sys.executable, "-c", _CHILD, config.__name__, *files]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    for name in ("new", "new-warm"):
        shutil.rmtree(folder / name, ignore_errors=True)
    if done.returncode == 0:
        peak = int(done.stdout)
        row(config.__name__, size / 1e6, peak / 1e6, f"{peak / size:.2f}")


if __name__ == "__main__":
    main()
