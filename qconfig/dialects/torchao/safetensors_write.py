"""Checkpoints in the flattened form that torchao 0.18, and transformers with it, loads."""

import json
from bisect import bisect_left
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import Any

from attrs import field, frozen

from qconfig.builders.training import training_weights
from qconfig.checkpoints.checkpoint import CONFIG_FILE, CONFIG_KEY, Checkpoint
from qconfig.checkpoints.config_json import stored_config
from qconfig.checkpoints.contents import ShardContents
from qconfig.checkpoints.job import Job
from qconfig.checkpoints.planned import Planned
from qconfig.checkpoints.resharding import packed
from qconfig.checkpoints.write import write_checkpoint
from qconfig.codec.tensor_values import LazyTensor
from qconfig.dialects.torchao.safetensors_forms import TorchaoTensor, to_torchao
from qconfig.dialects.torchao.safetensors_names import TENSOR_NAMES, part_key, part_prefix
from qconfig.dialects.torchao.write import to_envelope
from qconfig.errors import MOST_PROBLEMS, MigrationError, QconfigError, raise_problems
from qconfig.versioning import Config

_PLAIN = json.dumps({"_type": "Tensor"})
_STATIC = ("act_quant_scale", "act_quant_zero_point", "act_per_tensor_scale")


@frozen
class TorchaoCheckpoint:
    """What a checkpoint becomes in torchao's form, before anything is written.

    Args:
        tensors: quantized tensors by name, each name of a tied one included.
        shards: contents by file name.
        config_json: content of config.json.
        notes: what changes and is harmless.
    """

    tensors: dict[str, TorchaoTensor]
    shards: dict[str, ShardContents] = field(repr=False)
    config_json: dict[str, Any] = field(repr=False)
    notes: tuple[str, ...] = ()


def as_torchao(checkpoint: Checkpoint, max_shard_bytes: int | None = None) -> TorchaoCheckpoint:
    """Return what a checkpoint becomes in torchao's form; no data is read.

    Shards keep their names and tensors their shards, unless a size is given. The
    metadata of all tensors stands in every shard, because transformers keeps that of the last one
    only. A tied tensor is stored under each of its names: torchao has no ties, and transformers
    makes them again by itself.

    Args:
        checkpoint: an open one.
        max_shard_bytes: size at which a new shard begins; None keeps the shards.

    Raises:
        MigrationError: torchao has no such tensor, no words for a field or for the config, or its
            loader would lose a tensor because of its name; SeveralErrors for several of them.
        UsageError: the size of shards is not positive.
        CheckpointError: the header metadata of shards that become one contradicts itself, or two
            tensors would have one name.
    """
    problems: list[QconfigError] = [
        MigrationError(
            "the weight still trains, and torchao has no quantizers of modules",
            fqn=name,
            found="a float weight with its quantizer beside it",
            expected="a packed weight, or a plain one",
            hint="load it into a model of its config, call qconfig.freeze(model) and "
            "qconfig.pack(model), and save that",
        )
        for name in training_weights(checkpoint.plain)
    ]
    tensors: dict[str, TorchaoTensor] = {}
    for name, layout in checkpoint.layouts.items():
        try:
            tensors[name] = to_torchao(layout)
        except QconfigError as error:
            problems += [p.at(fqn=name) for p in error.problems]
    config_json: dict[str, Any] = {}
    try:
        config_json = with_torchao_config(checkpoint.config_json, stored_config(checkpoint))
    except QconfigError as error:
        problems += [p.at(file=checkpoint.directory / CONFIG_FILE) for p in error.problems]
    plain = dict(checkpoint.plain)
    shard_of = dict(checkpoint.shard_of)
    for alias, name in checkpoint.ties.items():
        shard_of[alias] = shard_of[name]
        if name in plain:
            plain[alias] = plain[name]
        elif name in tensors:
            tensors[alias] = tensors[name]
    names = sorted(name for name in shard_of if name in plain or name in tensors)
    metadata = {n: json.dumps(tensors[n].description()) if n in tensors else _PLAIN for n in names}
    problems += _lost_names(tensors, plain, metadata)
    raise_problems(problems[:MOST_PROBLEMS], file=checkpoint.place)
    # torchao cannot load a listing with a name that has no dot; what is not listed it leaves alone.
    listed = [name for name in names if "." in name]
    record = {n: metadata[n] for n in listed} | {TENSOR_NAMES: json.dumps(listed)}
    shards = {s: ShardContents(metadata=m | record) for s, m in checkpoint.metadata.items()}
    stored = {name: _stored(name, tensors.get(name), plain.get(name)) for name in names}
    if max_shard_bytes is None:
        for name in names:
            shards[shard_of[name]].plain.update(stored[name])
    else:
        of_shard: dict[str, list[str]] = {shard: [] for shard in shards}
        for name in names:
            of_shard[shard_of[name]].append(name)
        units = [
            (shard, ShardContents(stored[name], metadata=shards[shard].metadata))
            for shard, own in of_shard.items()
            for name in own
        ]
        units += [(shard, shards[shard]) for shard, own in of_shard.items() if not own]
        try:
            shards = packed(units, max_shard_bytes)
        except QconfigError as error:
            raise error.at(file=checkpoint.place) from None
    ties = checkpoint.ties.items()
    notes = [f"{alias} is tied to {name} and stored again" for alias, name in ties]
    if CONFIG_KEY not in config_json:
        notes.append(f"no {CONFIG_KEY} in {CONFIG_FILE}: transformers will not see torchao's form")
    notes += _unread_by_transformers(tensors)
    notes += [f"{name}: {text}" for name, packed in tensors.items() for text in packed.notes]
    return TorchaoCheckpoint(tensors, shards, config_json, tuple(notes))


def write_torchao_checkpoint(
    checkpoint: Checkpoint,
    target: Path | str,
    *,
    follow_symlinks: bool = False,
    executor: Executor | None = None,
    job: Job | None = None,
    opened: Callable[[], Checkpoint] | None = None,
    max_shard_bytes: int | None = None,
    sha256: bool = False,
    max_memory: int | None = None,
) -> TorchaoCheckpoint:
    """Write a checkpoint in torchao's form into a new directory, whole or not at all.

    Args:
        checkpoint: what to write; its files are not touched and must not change meanwhile.
        target: the directory to make.
        follow_symlinks: copy other files of the checkpoint that are links to files elsewhere.
        executor: runs one job a shard; None writes one shard after the other.
        job: is told of the start, and of each stored tensor and shard.
        opened: opens `checkpoint` again, in another process or after an interruption; see
            `write_checkpoint`.
        max_shard_bytes: size at which a new shard begins; None keeps the shards.
        sha256: also write `SHA256SUMS`, see `write_checkpoint`.
        max_memory: bytes of memory that the work may take, beside what the process has already;
            shards wait for each other if need be. With an executor of processes, for each process.

    Raises:
        MigrationError: see `as_torchao`; nothing is written then.
        QconfigError: of other kinds, while writing; `target` is then absent.
    """
    content = as_torchao(checkpoint, max_shard_bytes)
    write_checkpoint(
        target,
        content.shards,
        content.config_json,
        origin=checkpoint,
        follow_symlinks=follow_symlinks,
        executor=executor,
        job=job,
        digests=False,  # torchao's form has no place for them
        replan=None if opened is None else partial(_replanned, opened, max_shard_bytes),
        sha256=sha256,
        max_memory=max_memory,
        options={"form": "torchao"},
    )
    return content


def _replanned(opened: Callable[[], Checkpoint], max_shard_bytes: int | None) -> Planned:
    checkpoint = opened()
    return Planned(as_torchao(checkpoint, max_shard_bytes).shards, checkpoint, digests=False)


def with_torchao_config(
    config_json: Mapping[str, Any] | None, config: Config | None
) -> dict[str, Any]:
    """Return config.json with a quantization config as transformers' TorchAoConfig writes it.

    Args:
        config_json: what there is.
        config: the config in torchao's words; None where there is none.

    Raises:
        MigrationError: torchao has no such config, or no words for what it says.
    """
    rest = dict(config_json or {})
    if config is None:
        rest.pop(CONFIG_KEY, None)
        return rest
    rest[CONFIG_KEY] = {
        "quant_method": "torchao",
        "quant_type": {"default": to_envelope(config)},
        "modules_to_not_convert": None,
        "include_input_output_embeddings": False,
        "untie_embedding_weights": False,
    }
    return rest


def _unread_by_transformers(tensors: Mapping[str, TorchaoTensor]) -> list[str]:
    """Return a note where there are parts that torchao loads and transformers 5 does not know."""
    static = [n for n, packed in tensors.items() if any(p in packed.fields for p in _STATIC)]
    if not static:
        return []
    return [f"{static[0]} has static scales: torchao loads them, transformers 5.24 does not"]


def _stored(
    name: str, packed: TorchaoTensor | None, plain: LazyTensor | None
) -> dict[str, LazyTensor]:
    if packed is not None:
        return {part_key(name, part): value for part, value in packed.fields.items()}
    return {} if plain is None else {name: plain}


def _lost_names(
    tensors: Mapping[str, TorchaoTensor],
    plain: Mapping[str, LazyTensor],
    metadata: Mapping[str, str],
) -> list[QconfigError]:
    """Return a problem for each quantized tensor that torchao's loader would not give back.

    It takes all keys, of tensors and of metadata, that begin like the parts of a tensor, and drops
    the tensor where these are more than its parts.
    """
    problems: list[QconfigError] = []
    own = {n: {part_key(n, part) for part in packed.fields} for n, packed in tensors.items()}
    keys = sorted({*plain, *metadata}.union(*own.values()))
    for name in tensors:
        if "." not in name:
            problems.append(
                MigrationError(
                    "torchao loads no quantized tensor whose name has no dot",
                    fqn=name,
                    expected="the name of a module, a dot and the name of a parameter",
                )
            )
            continue
        prefix = part_prefix(name)
        for index in range(bisect_left(keys, prefix), len(keys)):
            key = keys[index]
            if not key.startswith(prefix):
                break
            if key not in own[name] or key in plain or key in metadata:
                problems.append(
                    MigrationError(
                        "torchao would lose the tensor: it takes another for its part",
                        fqn=name,
                        found=key,
                        expected=f"no other name that begins with {prefix}",
                        hint="rename one of the two",
                    )
                )
                break
    return problems
