"""A checkpoint of one file as checkpoints of several, with parts and records where tests want."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file

from qconfig.codec.safetensors_header import read_header

INDEX = "model.safetensors.index.json"


def shard_names(count: int) -> list[str]:
    """Return the names of so many shards."""
    return [f"model-{i + 1:05d}-of-{count:05d}.safetensors" for i in range(count)]


def split(
    directory: Path,
    count: int,
    place: Callable[[str], int],
    records: Mapping[int, Callable[[dict[str, Any]], object]],
) -> Path:
    """Put the tensors of `model.safetensors` into shards, and its record into some of them.

    Args:
        directory: the checkpoint; it is changed.
        count: number of shards.
        place: gives the shard of a tensor, from 0.
        records: which shards get the record, and what changes it there. Digests are left out, for
            they are of the whole file.
    """
    file = directory / "model.safetensors"
    metadata = read_header(file).metadata
    tensors = load_file(file)
    file.unlink()
    weight_map = {}
    for i, name in enumerate(shard_names(count)):
        own = {key: tensor for key, tensor in tensors.items() if place(key) == i}
        said = {"format": "pt"}
        if i in records:
            record = json.loads(metadata["qconfig"])
            record.pop("digests")
            record["container"] = 1
            records[i](record)
            said["qconfig"] = json.dumps(record)
        save_file(own, directory / name, said)
        weight_map |= dict.fromkeys(own, name)
    (directory / INDEX).write_text(json.dumps({"metadata": {"kept": 1}, "weight_map": weight_map}))
    return directory


def unchanged(record: dict[str, Any]) -> None:
    """Leave a record as it is."""
