"""What digests cost: writing, copying and verifying with and without them, in GB/s.

Run: `python -m tests.benchmarks.bench_digests [--megabytes 400] [--folder DIR]`.

One file of int8 weights of 4096 x 4096, written from memory, copied as byte ranges from a file
whose digests are known and from one without, and verified. Name a folder in memory, such as
/dev/shm, or the disk is measured: each file is flushed to it.
"""

import argparse
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

from qconfig import verify_checkpoint
from qconfig.checkpoints.contents import ShardContents
from qconfig.checkpoints.write import write_checkpoint
from qconfig.codec.safetensors_header import read_header
from qconfig.codec.safetensors_reader import lazy_tensors
from qconfig.codec.safetensors_writer import Metadata, write_safetensors
from qconfig.codec.tensor_values import LazyTensor
from qconfig.layouts import Int8TensorLayout
from tests.benchmarks.timing import row, side_by_side

FILE = "model.safetensors"
SIDE = 4096


def main() -> None:
    """Print one markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=400)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(dir=options.folder))
    try:
        run(folder, max(1, options.megabytes * 10**6 // SIDE**2), options.rounds)
    finally:
        shutil.rmtree(folder)


def run(folder: Path, count: int, rounds: int) -> None:
    """Make the checkpoints and time each way beside the others."""
    contents = ShardContents(layouts={f"layers.{i}.weight": layout() for i in range(count)})
    for name, digests in (("with", True), ("without", False)):
        write_checkpoint(folder / name, {FILE: contents}, {}, digests=digests)
    stored = lazy_tensors(read_header(folder / "without" / FILE))
    copies = ShardContents(stored)
    known = {t.source: "0" * 16 for t in stored.values() if t.source is not None}
    size = sum(t.source.length for t in stored.values() if t.source is not None)

    def write(tensors: dict[str, LazyTensor], metadata: Metadata, **options: object) -> None:
        (folder / "target").unlink(missing_ok=True)
        write_safetensors(folder / "target", tensors, metadata, **options)

    memory = contents.tensors()
    with ThreadPoolExecutor(2) as pool:
        calls = {
            "write, without": lambda: write(memory, contents.header_metadata()),
            "write, with": lambda: write(memory, contents.digested_metadata()),
            "copy, without": lambda: write(stored, copies.header_metadata()),
            "copy, digests known": lambda: write(stored, copies.digested_metadata(), known=known),
            "copy, digests made": lambda: write(stored, copies.digested_metadata()),
            "verify, without": lambda: verify_checkpoint(folder / "without"),
            "verify, with": lambda: verify_checkpoint(folder / "with"),
            "verify, with, 2 threads": lambda: verify_checkpoint(folder / "with", executor=pool),
        }
        times = side_by_side(calls, rounds)
    row(f"{size / 1e6:.0f} MB", "GB/s")
    row("---", "---:")
    for name, milliseconds in times.items():
        row(name, size / milliseconds / 1e6)


def layout() -> Int8TensorLayout:
    """Return random codes with a scale per row."""
    codes = torch.randint(-128, 128, (SIDE, SIDE), dtype=torch.int8)
    scale = torch.rand(SIDE, 1) + 0.1
    return Int8TensorLayout(LazyTensor.of(codes), LazyTensor.of(scale), (1, SIDE), "float32")


if __name__ == "__main__":
    main()
