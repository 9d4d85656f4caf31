"""What is tried under faults: every operation that writes a checkpoint, on the smallest samples."""

import hashlib
import os
import stat
from collections.abc import Callable
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import torch
from attrs import frozen

from qconfig import (
    Config,
    Int8WeightOnlyConfig,
    PerGroup,
    convert_checkpoint,
    quantize_,
    quantize_checkpoint,
    save_checkpoint,
    upgrade_checkpoint,
)
from qconfig.checkpoints.contents import ShardContents
from qconfig.checkpoints.write import write_checkpoint
from qconfig.codec.layout_values import wrapped
from tests.checkpoints.builders import current_layout, float_checkpoint, v1_layout

NAMES = tuple(f"model-{i:05d}-of-00003.safetensors" for i in (1, 2, 3))
"""The shards of every sample."""


@frozen
class Operation:
    """Something that makes a checkpoint from a source.

    Args:
        make: makes the source at a path.
        run: makes a target from the source, with the settings of the call, such as `executor`.
        goes_on: whether a run keeps what an interrupted one has finished.
    """

    make: Callable[[Path], object]
    run: Callable[..., object]
    goes_on: bool = True


def _carry(source: Path) -> None:
    """Put files of a kind that is copied along into a source: one in a folder, each with a mode."""
    folder = source / "extra" / "notes"
    folder.mkdir(parents=True)
    (folder / "readme.txt").write_text("carried along\n" * 20, encoding="utf-8")
    (folder / "readme.txt").chmod(0o640)
    (source / "run.sh").write_text("#!/bin/sh\n", encoding="utf-8")
    (source / "run.sh").chmod(0o751)


def _float_source(source: Path) -> None:
    float_checkpoint(source, shards=3)
    _carry(source)


def _old_source(source: Path) -> None:
    """Write three shards of which two hold a tensor in the first version of its layout."""
    layouts = {NAMES[0]: v1_layout(), NAMES[1]: current_layout(), NAMES[2]: v1_layout(16)}
    shards = {
        name: ShardContents(layouts={f"layers.{i}.up.weight": wrapped(layout)})
        for i, (name, layout) in enumerate(layouts.items())
    }
    write_checkpoint(source, shards, {"model_type": "tiny"})
    _carry(source)


def _current_source(source: Path) -> None:
    shards = {
        name: ShardContents(layouts={f"layers.{i}.up.weight": wrapped(current_layout(8 * i + 8))})
        for i, name in enumerate(NAMES)
    }
    write_checkpoint(source, shards, {"model_type": "tiny"})
    _carry(source)


def _no_source(source: Path) -> None:
    source.mkdir(parents=True)


CONFIGS = (Int8WeightOnlyConfig(), Int8WeightOnlyConfig(PerGroup(16)))
"""Of which either can be used for the float sample."""


def _quantize(source: Path, target: Path, *, config: Config = CONFIGS[0], **settings: Any) -> None:
    quantize_checkpoint(source, target, config, **settings)


def _save(source: Path, target: Path, *, executor: Executor | None = None, **settings: Any) -> None:
    """Save a model of three layers, each of which fills a shard. The source is in memory."""
    del source, executor
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(torch.nn.Linear(16, 16, bias=False) for _ in range(3)))
    quantize_(model, Int8WeightOnlyConfig())
    save_checkpoint(model, target, config=Int8WeightOnlyConfig(), max_shard_bytes=300, **settings)


def _quantize_in_shards(source: Path, target: Path, **settings: Any) -> None:
    """Write shards that the source does not have, and a list of their sums."""
    _quantize(source, target, max_shard_bytes=3000, sha256=True, **settings)


NEW_SHARDS = "quantize-in-new-shards"
"""The operation whose shards are others than the source's, with a list of their sums."""

OPERATIONS = {
    "quantize": Operation(_float_source, _quantize),
    "upgrade": Operation(_old_source, upgrade_checkpoint),
    "convert": Operation(_current_source, convert_checkpoint),
    "save": Operation(_no_source, _save, goes_on=False),
    NEW_SHARDS: Operation(_float_source, _quantize_in_shards),
}


def digest_of(folder: Path) -> str:
    """Return a digest of all names, modes and contents in a folder, "" where it is missing."""
    if not folder.exists():
        return ""
    digest = hashlib.sha256()
    for place, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted([*folders, *files]):
            path = Path(place, name)
            status = path.lstat()
            digest.update(f"{path.relative_to(folder)}\0{status.st_mode:o}\0".encode())
            if stat.S_ISREG(status.st_mode):
                digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()
