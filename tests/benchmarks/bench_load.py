"""`load_checkpoint` beside safetensors' `load_file` on the same bytes.

Run: `python -m tests.benchmarks.bench_load [--folder DIR]`.

Each file is loaded as a whole, mapped: without a look at the bytes, with one byte of each page
read, and with all of them read. `load_file` reads a quantized file as the plain tensors in it.
Milliseconds are medians of processor time, calls in turn; all files are in the page cache.
`directory` has a config, which is compared with its tensors; `file` is the file alone.
"""

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from qconfig import Int8WeightOnlyConfig, load_checkpoint, quantize_checkpoint
from qconfig.checkpoints.checkpoint import SINGLE_FILE
from tests.benchmarks.timing import row, side_by_side

REPEATS = 15
PAGE = 4096


def main() -> None:
    """Print one Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=None)
    options = parser.parse_args()
    torch.set_num_threads(1)
    folder = Path(tempfile.mkdtemp(dir=options.folder))
    row(
        "file", "bytes", "of them read", "load_file ms", "file ms", "ratio", "directory ms", "ratio"
    )
    row("---", *["---:"] * 7)
    try:
        for words, shape, count, quantized in (
            ("200 bf16 weights", (1024, 2500), 200, False),
            ("200 int8 weights", (2048, 2500), 200, True),
            ("2,000 int8 weights", (512, 1000), 2000, True),
            ("20,000 bf16 weights", (4, 8), 20_000, False),
            ("2,000 int8 weights", (64, 64), 2000, True),
        ):
            run(folder / "x", words, shape, count, quantized=quantized)
            shutil.rmtree(folder / "x")
    finally:
        shutil.rmtree(folder)


def run(folder: Path, words: str, shape: tuple[int, int], count: int, *, quantized: bool) -> None:
    """Make one checkpoint and print its rows."""
    source = folder / "source"
    source.mkdir(parents=True)
    weight = torch.randn(shape).to(torch.bfloat16)
    names = [f"model.layers.{i // 4}.{'qkvo'[i % 4]}_proj.weight" for i in range(count)]
    save_file({name: weight.clone() for name in names}, source / SINGLE_FILE, {"format": "pt"})
    if quantized:
        quantize_checkpoint(source, folder / "new", Int8WeightOnlyConfig())
        shutil.rmtree(source)
        source = folder / "new"
    file = source / SINGLE_FILE
    size = f"{file.stat().st_size / 1e6:,.0f} MB"
    loaders: dict[str, Callable[[], Any]] = {
        "load_file": partial(load_file, file),
        "file": partial(load_checkpoint, file),
        "directory": partial(load_checkpoint, source),
    }
    for read, look in (("none", _nothing), ("pages", _touch), ("all", _sum)):
        calls = {name: partial(_looked_at, load, look) for name, load in loaders.items()}
        ms = side_by_side(calls, REPEATS, time.process_time)
        theirs = ms["load_file"]
        ratios = (ms["file"], ms["file"] / theirs, ms["directory"], ms["directory"] / theirs)
        row(words, size, read, theirs, *ratios)


def _looked_at(load: Callable[[], Any], look: Callable[[Any], None]) -> None:
    look(load())


def _nothing(tensors: Mapping[str, torch.Tensor]) -> None:
    del tensors


def _touch(tensors: Mapping[str, torch.Tensor]) -> None:
    """Read a byte of every page."""
    for part in _parts(tensors):
        part.view(torch.uint8)[::PAGE].sum()


def _sum(tensors: Mapping[str, torch.Tensor]) -> None:
    """Read every byte."""
    for part in _parts(tensors):
        part.view(torch.int64).sum()


def _parts(tensors: Mapping[str, torch.Tensor]) -> Iterator[torch.Tensor]:
    for tensor in tensors.values():
        inner = getattr(tensor, "inner_tensors", {"": tensor}).values()
        yield from (part.view(-1) for part in inner if part is not None)


if __name__ == "__main__":
    main()
