"""How soon the commands that need no torch answer: whole processes, median wall time.

Run: `python -m tests.benchmarks.bench_cli_start`.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from qconfig.checkpoints.contents import ShardContents
from qconfig.checkpoints.write import write_checkpoint
from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_documents import tensor_of_bytes
from qconfig.codec.tensor_values import LazyTensor

RUNS = 9


def main() -> None:
    """Print one markdown table."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config = folder / "quant.json"
        config.write_text(json.dumps({"type": "Int8WeightOnlyConfig", "version": 3}))
        zeros = LazyTensor(DType.INT8, (4,), lambda: tensor_of_bytes(bytes(4), DType.INT8, (4,)))
        shards = {"model.safetensors": ShardContents({"a": zeros})}
        write_checkpoint(folder / "model", shards, {})
        print("| command | median of 9 | slowest |")
        print("|---|---|---|")
        for arguments in (
            ["--help"],
            ["validate", str(config)],
            ["inspect", str(folder / "model")],
            ["schema", "show", "FqnToConfig"],
            ["history"],
            ["plan", str(folder / "model"), str(config), "--allow-unmatched"],
        ):
            times = [_seconds(arguments) for _ in range(RUNS + 1)][1:]
            label = " ".join(a for a in arguments if not a.startswith(name))
            print(f"| `qconfig {label}` | {median(times):.2f} s | {max(times):.2f} s |", flush=True)


def _seconds(arguments: list[str]) -> float:
    code = "from qconfig.cli.main import main; main()"
    command = [sys.executable, "-c", code, *arguments]
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
