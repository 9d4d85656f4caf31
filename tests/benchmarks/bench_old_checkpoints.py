"""Checkpoints of torchao: upgrading, converting and opening them, beside `cp`, torch and torchao.

Run: `python -m tests.benchmarks.bench_old_checkpoints [--megabytes 800] [--folder DIR]`.

The checkpoints are made here by torchao 0.18: int8 weights of 4096 x 4096 and bf16 tensors. All
files are in the page cache. What writes ends with a flush to the disk, as an upgrade does.
"""

import argparse
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torchao.core.config import config_from_dict, config_to_dict
from torchao.prototype.safetensors.safetensors_support import (
    flatten_tensor_state_dict,
    unflatten_tensor_state_dict,
)
from torchao.quantization import FqnToConfig, Int8WeightOnlyConfig, quantize_

from qconfig import convert_checkpoint, load_checkpoint, upgrade_checkpoint
from qconfig.codec.torch_files import read_torch_file
from qconfig.dialects.torchao import from_envelope
from qconfig.dialects.torchao.tensors.names import NAMES
from tests.benchmarks.timing import row, side_by_side

ROUNDS = 5
SIZE = 4096


def main() -> None:
    """Print one markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=800)
    parser.add_argument("--folder", type=Path, default=None)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(dir=options.folder))
    try:
        row("what", "qconfig, ms", "compared with", "ms", "ratio")
        row("---", "---", "---", "---", "---")
        files(folder, options.megabytes)
        names(folder)
        documents()
    finally:
        shutil.rmtree(folder)


def files(folder: Path, megabytes: int) -> None:
    """Upgrade, convert and load one checkpoint as a pickle and as flattened safetensors."""
    state = weights(megabytes * 10**6)
    pickle, flat = folder / "old.pt", folder / "old.safetensors"
    torch.save(state, pickle)
    tensors, metadata = flatten_tensor_state_dict(state)
    save_file(tensors, flat, metadata=metadata)
    del state, tensors
    new, other = folder / "new", folder / "other"

    def afresh(call: Callable[[], Any]) -> Callable[[], Any]:
        def run() -> None:
            call()
            for path in (new, other):
                shutil.rmtree(path, ignore_errors=True)

        return run

    def copy(source: Path) -> Callable[[], Any]:
        return lambda: subprocess.run(
            ["sh", "-c", f"mkdir {other} && cp {source} {other} && sync -d {other}/*"], check=True
        )

    def save(state: Any) -> None:
        flattened, about = flatten_tensor_state_dict(state)
        other.mkdir()
        target = other / "model.safetensors"
        save_file(flattened, target, metadata=about)
        subprocess.run(["sync", "-d", target], check=True)

    def torch_again() -> None:
        save(torch.load(pickle, weights_only=True))

    def torchao_again() -> None:
        save(torchao_loads(flat))

    compared = (
        ("upgrade a pickle", lambda: upgrade_checkpoint(pickle, new, verify=False), copy(pickle)),
        ("the same, verified", lambda: upgrade_checkpoint(pickle, new), copy(pickle)),
        ("upgrade a pickle", lambda: upgrade_checkpoint(pickle, new, verify=False), torch_again),
        ("upgrade safetensors", lambda: upgrade_checkpoint(flat, new, verify=False), copy(flat)),
        ("convert to torchao", lambda: convert_checkpoint(flat, new, to="torchao"), torchao_again),
        (
            "load safetensors",
            lambda: load_checkpoint(flat, mmap=False),
            lambda: torchao_loads(flat),
        ),
    )
    titles = ("cp", "cp", "torch.load, save_file", "cp", "torchao, save_file", "torchao")
    for (what, ours, theirs), title in zip(compared, titles, strict=True):
        show(what, ours=afresh(ours), theirs=afresh(theirs), title=title)


def torchao_loads(path: Path) -> Any:
    """Return what torchao makes of a flattened file; its metadata is read with the tensors."""
    from safetensors import safe_open

    with safe_open(path, "pt") as file:
        metadata = file.metadata()
    loaded, _ = unflatten_tensor_state_dict(load_file(path), metadata)
    return loaded


def names(folder: Path) -> None:
    """Open a pickle of many small tensors."""
    many = folder / "many.pt"
    torch.save({f"layers.{i}.bias": torch.zeros(4) for i in range(20_000)}, many)

    def load() -> Any:
        return torch.load(many, weights_only=True, mmap=True)

    ours = lambda: read_torch_file(many, NAMES)  # noqa: E731
    show("open a pickle of 20,000 tensors", ours=ours, theirs=load, title="torch.load, mmap")


def documents() -> None:
    """Read a config with many entries."""
    entries = {f"model.layers.{i}.q_proj": Int8WeightOnlyConfig(version=2) for i in range(5_000)}
    document = config_to_dict(FqnToConfig(entries))
    show(
        "read an FqnToConfig of 5,000 entries",
        ours=lambda: from_envelope(document),
        theirs=lambda: config_from_dict(document),
        title="torchao",
    )


def weights(size: int) -> dict[str, Any]:
    """Return a state dict of int8 weights and bf16 tensors, half of the bytes each."""
    state: dict[str, Any] = {}
    for i in range(max(1, size // (2 * SIZE * SIZE))):
        linear = torch.nn.Linear(SIZE, SIZE, bias=False, dtype=torch.bfloat16)
        quantize_(linear, Int8WeightOnlyConfig(version=2))
        state[f"layers.{i}.proj.weight"] = linear.weight.detach()
        state[f"layers.{i}.norm.weight"] = torch.ones(SIZE * SIZE // 2, dtype=torch.bfloat16)
    return state


def show(what: str, *, ours: Callable[[], Any], theirs: Callable[[], Any], title: str) -> None:
    """Measure both and print a line."""
    times = side_by_side({"ours": ours, "theirs": theirs}, ROUNDS)
    ratio = times["theirs"] / times["ours"]
    row(what, times["ours"], title, times["theirs"], f"{ratio:.2g} times as fast")


if __name__ == "__main__":
    main()
