"""Save a model or state_dict as a checkpoint directory."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qconfig.checkpoints.config_json import with_config
from qconfig.checkpoints.contents import ShardContents
from qconfig.checkpoints.contradictions import quantized_otherwise
from qconfig.checkpoints.events import Listener, Progress, joined
from qconfig.checkpoints.job import Job
from qconfig.checkpoints.resharding import check_shard_size, packed
from qconfig.checkpoints.write import write_checkpoint
from qconfig.codec.layout_values import wrapped
from qconfig.codec.tensor_values import LazyTensor
from qconfig.errors import CheckpointError, QconfigError, raise_problems
from qconfig.versioning import Config, registry

if TYPE_CHECKING:
    import torch
    from torch import nn

_DEFAULT_SHARD_BYTES = 5 * 10**9


def save_checkpoint(
    model: "nn.Module | Mapping[str, torch.Tensor]",
    target: Path | str,
    *,
    config: Config | None = None,
    config_json: Mapping[str, Any] | None = None,
    max_shard_bytes: int = _DEFAULT_SHARD_BYTES,
    progress: Progress | None = None,
    listener: Listener | None = None,
) -> None:
    """Write a model or its state_dict into a new directory, whole or not at all.

    Tensors that are one object under several names are stored once, and are one object again when
    they are loaded.

    Args:
        model: the model or its state_dict; packed and plain tensors.
        target: the directory to make.
        config: the config it was quantized with; it goes into config.json.
        config_json: other content of config.json.
        max_shard_bytes: size at which a new shard begins; one tensor is never split.
        progress: called with the name and the bytes of each stored tensor, and the bytes of all.
        listener: called with every event, see `Event`.

    Raises:
        CheckpointError: a tensor cannot be stored, or is quantized otherwise than `config` says.
        QconfigError: of whatever kind; `target` is then absent.
    """
    job = Job("save", joined(listener, progress))
    check_shard_size(max_shard_bytes)
    state_dict = model if isinstance(model, Mapping) else model.state_dict()
    _check_entries(state_dict)
    stored, ties = _split_ties(state_dict)
    aliases: dict[str, list[str]] = {}
    for alias, name in ties.items():
        aliases.setdefault(name, []).append(alias)
    units = [("", _alone(name, t, aliases.get(name, ()))) for name, t in stored.items()]
    if config is not None:
        _check_config([unit for _, unit in units], config)
    shards = packed(units, max_shard_bytes)
    write_checkpoint(target, shards, with_config(config_json, config), job=job)
    job.done()


def _check_config(shards: list[ShardContents], config: Config) -> None:
    layouts = {name: layout for shard in shards for name, layout in shard.layouts.items()}
    plain = {name: tensor for shard in shards for name, tensor in shard.plain.items()}
    raise_problems(quantized_otherwise(layouts, plain, registry.convert(config)))


def _check_entries(state_dict: "Mapping[str, Any]") -> None:
    problems: list[QconfigError] = []
    for name, value in state_dict.items():
        if not isinstance(name, str):
            problems.append(CheckpointError("a name is no string", found=name, expected="a string"))
        elif problem := _unstorable(value):
            problems.append(problem.at(fqn=name))
    raise_problems(problems)


def _unstorable(value: Any) -> QconfigError | None:
    import torch

    from qconfig.tensors.classes import has_layout

    kind = type(value).__name__
    if not isinstance(value, torch.Tensor):
        return CheckpointError(
            "not a tensor",
            found=kind,
            expected="a torch.Tensor",
            hint="store it in a file of its own beside the checkpoint",
        )
    if has_layout(value):
        return _layout_problem(value)
    if value.is_meta:
        return CheckpointError(
            "a meta tensor has no values", found=kind, expected="a tensor with its values in memory"
        )
    if value.layout is not torch.strided or value.is_nested:
        return CheckpointError(
            "not a dense tensor",
            found=f"{kind} of layout {value.layout}",
            expected="a tensor of layout torch.strided",
            hint="make it dense first, with to_dense() or to_padded_tensor()",
        )
    if hasattr(value, "__tensor_flatten__"):
        return CheckpointError(
            "a tensor subclass that no layout describes",
            found=kind,
            expected="a plain tensor, or one that qconfig made",
            hint="dequantize it, or save it with the library that made it",
        )
    return None


def _layout_problem(value: Any) -> QconfigError | None:
    try:
        value.to_layout()
    except QconfigError as problem:
        return problem
    return None


def _alone(name: str, tensor: Any, aliases: Iterable[str]) -> ShardContents:
    from qconfig.tensors.classes import has_layout

    ties = dict.fromkeys(aliases, name)
    if has_layout(tensor):
        return ShardContents(layouts={name: wrapped(tensor.to_layout())}, ties=ties)
    return ShardContents({name: LazyTensor.of(tensor.detach())}, ties=ties)


def _split_ties(
    state_dict: "Mapping[str, torch.Tensor]",
) -> "tuple[dict[str, torch.Tensor], dict[str, str]]":
    from qconfig.tensors.identity import identity

    first: dict[tuple[Any, ...], str] = {}
    stored: dict[str, torch.Tensor] = {}
    ties: dict[str, str] = {}
    for name, tensor in state_dict.items():
        key = identity(tensor)
        if key in first:
            ties[name] = first[key]
        else:
            first[key] = name
            stored[name] = tensor
    return stored, ties
