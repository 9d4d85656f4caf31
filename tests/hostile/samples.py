"""Makers of hostile and damaged files: one function an item, each leaves one thing to be refused.

A maker gets an empty folder and returns the path to call `qconfig` with.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from tests.checkpoints.builders import checkpoint_of, current_layout, float_checkpoint, v1_layout

INDEX = "model.safetensors.index.json"
SHARDS = tuple(f"model-0000{i}-of-00003.safetensors" for i in (1, 2, 3))
Make = Callable[[Path], Path]


def entry(dtype: str = "I8", shape: Any = (4,), start: int = 0, end: int = 4) -> dict[str, Any]:
    """Return the header entry of one tensor."""
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


def raw(folder: Path, header: Any, data: bytes = bytes(4), *, length: int | None = None) -> Path:
    """Write `model.safetensors` with a header that is a JSON value or its text."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    size = len(text) if length is None else length
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(size.to_bytes(8, "little") + text + data)
    return folder


def header(*args: Any, **kwargs: Any) -> Make:
    """Return a maker of a checkpoint of one file with a given header."""
    return lambda folder: raw(folder, *args, **kwargs)


def bare(content: bytes) -> Make:
    """Return a maker of a checkpoint of one file with given bytes."""

    def make(folder: Path) -> Path:
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(content)
        return folder

    return make


def sparse(folder: Path) -> Path:
    """Write a file whose header is one byte too long, without filling the disk."""
    raw(folder, {}, length=100_000_001)
    os.truncate(folder / "model.safetensors", 100_000_100)
    return folder


def sharded(change: Callable[[Path], object] = lambda _: None) -> Make:
    """Return a maker of a float checkpoint of three shards that is changed afterwards."""

    def make(folder: Path) -> Path:
        float_checkpoint(folder, shards=3)
        change(folder)
        return folder

    return make


def single(change: Callable[[Path], object]) -> Make:
    """Return a maker of a float checkpoint of one file that is changed afterwards."""

    def make(folder: Path) -> Path:
        float_checkpoint(folder)
        change(folder)
        return folder

    return make


def indexed(name: str, shard: str | None) -> Make:
    """Return a maker of a sharded checkpoint whose index has another file for a tensor, or none."""

    def change(folder: Path) -> None:
        index = json.loads((folder / INDEX).read_text())
        index["weight_map"] |= {name: shard}
        index["weight_map"] = {k: v for k, v in index["weight_map"].items() if v is not None}
        (folder / INDEX).write_text(json.dumps(index))

    return sharded(change)


def outside(name: str) -> Make:
    """Return a maker of a checkpoint whose index names a sound file that lies elsewhere."""

    def make(folder: Path) -> Path:
        save_file({"norm.weight": torch.zeros(32)}, folder.parent / "x.safetensors")
        path = name.format(folder.parent)
        return indexed("norm.weight", path)(folder)

    return make


def in_two_shards(folder: Path) -> None:
    """Store a tensor of the second shard in the first one too."""
    tensors = {"layers.0.up.weight": torch.zeros(64, 32), "norm.weight": torch.zeros(32)}
    save_file(tensors, folder / SHARDS[0], {"format": "pt"})
    index = json.loads((folder / INDEX).read_text())
    kept = {n: s for n, s in index["weight_map"].items() if s != SHARDS[0] or n in tensors}
    (folder / INDEX).write_text(json.dumps(index | {"weight_map": kept}))


def cut(folder: Path) -> None:
    """Take the last byte of the last shard."""
    os.truncate(folder / SHARDS[2], (folder / SHARDS[2]).stat().st_size - 1)


def replace_shard(put: Callable[[Path], object]) -> Make:
    """Return a maker of a checkpoint that has something else in the place of its second shard."""

    def change(folder: Path) -> None:
        (folder / SHARDS[1]).rename(folder.parent / "moved.safetensors")
        put(folder / SHARDS[1])

    return sharded(change)


def linked_outside(path: Path) -> None:
    """Put a link to where the shard went."""
    path.symlink_to(path.parent.parent / "moved.safetensors")


def in_the_cache(folder: Path) -> Path:
    """Make an entry of the Hugging Face cache, whose files are links into `blobs`."""
    home = folder / "models--a--b" / "snapshots" / "1"
    float_checkpoint(home, shards=3)
    blobs = folder / "models--a--b" / "blobs"
    blobs.mkdir()
    for i, path in enumerate(sorted(home.iterdir())):
        path.rename(blobs / str(i))
        path.symlink_to(Path("..") / ".." / "blobs" / str(i))
    return home


def dangling(name: str) -> Callable[[Path], None]:
    """Return a change that puts a link that leads nowhere in the place of a file."""

    def change(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to("nowhere")

    return change


def named(*names: str) -> Make:
    """Return a maker of a checkpoint of 2-D tensors with given names."""

    def make(folder: Path) -> Path:
        folder.mkdir()
        save_file({n: torch.ones(8, 16) for n in names}, folder / "model.safetensors")
        return folder

    return make


def text(name: str, content: str) -> Make:
    """Return a maker of a float checkpoint with another config.json or index."""
    return sharded(lambda folder: (folder / name).write_text(content))


def document(content: str) -> Make:
    """Return a maker of a config file."""

    def make(folder: Path) -> Path:
        folder.mkdir()
        (folder / "quant.json").write_text(content)
        return folder / "quant.json"

    return make


def group_size(literal: str) -> Make:
    """Return a maker of a config with a group size that is given as a JSON literal."""
    return document(f'{{"type": "Int8WeightOnlyConfig", "version": 1,\n "group_size": {literal}}}')


def scaled(value: float) -> Make:
    """Return a maker of a quantized checkpoint with one bad scale, in row 3."""

    def make(folder: Path) -> Path:
        layout = current_layout()
        layout.scale[3] = value
        return checkpoint_of(folder, {"a.weight": layout})

    return make


def old(*, zero_point: int | None = None, **changes: Any) -> Make:
    """Return a maker of a quantized checkpoint of the first version with other fields."""

    def make(folder: Path) -> Path:
        layout = v1_layout()
        if zero_point is not None:
            layout.zero_point[3] = zero_point
        checkpoint_of(folder, {"a.weight": layout})
        edit(folder, lambda _, record: record["layouts"][0].update(changes))
        return folder

    return make


def edit(folder: Path, change: Callable[[dict[str, Any], dict[str, Any]], object]) -> Path:
    """Let `change` work on the header and on our record in it; the data stays.

    Digests would give it away, so that they are left out, as whoever forges a file would do.
    """
    path = folder / "model.safetensors"
    content = path.read_bytes()
    end = 8 + int.from_bytes(content[:8], "little")
    head = json.loads(content[8:end])
    record = json.loads(head["__metadata__"]["qconfig"])
    del record["digests"]
    change(head, record)
    head["__metadata__"]["qconfig"] = json.dumps(record)
    path.unlink()
    folder.rename(folder.with_name("before"))
    raw(folder, head, content[end:])
    return folder


def quantized(change: Callable[[dict[str, Any], dict[str, Any]], object]) -> Make:
    """Return a maker of a quantized checkpoint whose header is changed afterwards."""

    def make(folder: Path) -> Path:
        return edit(checkpoint_of(folder, {"a.weight": current_layout()}), change)

    return make


def transposed_scale(head: dict[str, Any], record: dict[str, Any]) -> None:
    """Turn a scale of (8, 1) into one of (1, 8), in header and record."""
    head["a.weight.scale"]["shape"] = [1, 8]
    record["layouts"][0]["scale"]["shape"] = [1, 8]


def renamed(before: str, after: str) -> Make:
    """Return a maker of a quantized checkpoint with another name for an inner tensor."""
    return quantized(lambda head, _: head.update({after: head.pop(before)}))


def scale_elsewhere(folder: Path) -> Path:
    """Store the scale of an old quantized tensor in a shard of its own."""
    checkpoint_of(folder, {"a.weight": v1_layout()}, {"a.bias": torch.zeros(8)})
    content = (folder / "model.safetensors").read_bytes()
    end = 8 + int.from_bytes(content[:8], "little")
    record = json.loads(json.loads(content[8:end])["__metadata__"]["qconfig"])
    del record["digests"]
    metadata = {"qconfig": json.dumps(record)}
    layout = v1_layout()
    first = {"a.weight.int_data": layout.int_data, "a.weight.zero_point": layout.zero_point}
    save_file(first | {"a.bias": torch.zeros(8)}, folder / SHARDS[0], metadata)
    save_file({"a.weight.scale": layout.scale}, folder / SHARDS[1], {"format": "pt"})
    weight_map = dict.fromkeys([*first, "a.bias"], SHARDS[0]) | {"a.weight.scale": SHARDS[1]}
    (folder / INDEX).write_text(json.dumps({"weight_map": weight_map}))
    (folder / "model.safetensors").unlink()
    return folder
