"""Quantized state through torch.distributed.checkpoint: save and load, in one process or many.

    save_distributed({"model": model, "step": 3}, checkpoint_id="checkpoint/3")
    state = load_distributed(checkpoint_id="checkpoint/3")

torch plans, writes and reads; it sees ordinary tensors, see `plain_state`.
"""

import os
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Any

import torch
from torch import distributed, nn
from torch.distributed.checkpoint import state_dict_saver
from torch.distributed.checkpoint.filesystem import SerializationFormat
from torch.distributed.checkpoint.metadata import Metadata
from torch.distributed.checkpoint.planner import SavePlanner
from torch.distributed.checkpoint.stateful import Stateful
from torch.distributed.checkpoint.storage import StorageReader, StorageWriter
from torch.distributed.tensor import DTensor

from qconfig.checkpoints.load import load_into
from qconfig.errors import CheckpointError, QconfigError, UsageError
from qconfig.integrations.given_state import GivenState
from qconfig.integrations.load_planner import Source
from qconfig.integrations.metadata_file import FilesReader
from qconfig.integrations.new_state import NewState
from qconfig.integrations.plain_state import expanded, leaves, plain_state
from qconfig.integrations.torch_failures import Refusing, as_ours, translated

__all__ = ["load_distributed", "load_distributed_into", "plain_state", "save_distributed"]

_MOST_NAMES = 20


def save_distributed(
    state_dict: nn.Module | Mapping[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_writer: StorageWriter | None = None,
    planner: SavePlanner | None = None,
    process_group: distributed.ProcessGroup | None = None,
    no_dist: bool = False,
) -> Metadata:
    """Save a state that may hold quantized tensors, as `torch.distributed.checkpoint.save` does.

    All processes of the group call it, each with the same state or with parts of its own. What has
    one name in several processes is one tensor: the same one, or a `DTensor`.

    Args:
        state_dict: a model, or a state dict, which may be nested and hold other values, and
            objects with a state dict such as models and optimizers.
        checkpoint_id: where it goes, as torch takes it: a directory, or what the writer knows.
        storage_writer: torch's or another one; None writes files.
        planner: torch's or one that derives from it, for what it is set to.
        process_group: processes that save together, all by default.
        no_dist: save this process's state alone.

    Returns:
        What torch says of the checkpoint.

    Raises:
        UsageError: neither a place nor a writer, or values that the writer would lose.
        CheckpointError: a quantized tensor cannot be stored, or torch failed.
        StorageError: the file system refused.
    """
    place = _place(checkpoint_id, storage_writer, "storage_writer")
    plain: dict[str, Any] = {}
    try:
        plain = plain_state(state_dict)
        _check_writer(plain, storage_writer)
    except Exception as error:  # also of a state_dict() that is not ours
        if no_dist or not (distributed.is_available() and distributed.is_initialized()):
            raise
        # The other processes are on their way into a collective, and learn of it there.
        planner = Refusing(as_ours(error, place))
    with translated(place):
        saved: Metadata = state_dict_saver.save(
            plain,
            checkpoint_id=checkpoint_id,
            storage_writer=storage_writer,
            planner=planner,
            process_group=process_group,
            no_dist=no_dist,
        )
    return saved


def load_distributed(
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_reader: StorageReader | None = None,
    process_group: distributed.ProcessGroup | None = None,
    no_dist: bool = False,
    device: torch.device | str | None = None,
    key: str | None = None,
) -> dict[str, Any]:
    """Return what a checkpoint holds, whole in each process; layouts are brought up to date.

    Args:
        checkpoint_id: where it lies, as torch takes it.
        storage_reader: torch's or another one; None reads files.
        process_group: processes that load together, all by default.
        no_dist: load in this process alone.
        device: where tensors go; None leaves them on the CPU.
        key: return only what lies under this key of the state.

    Returns:
        The state, nested as it was where the storage keeps that; torch's for Hugging Face gives
        names with dots.

    Raises:
        UsageError: neither a place nor a reader.
        StorageError: there is no checkpoint, or the file system refused.
        NewerVersionError: records or layouts are newer than this release.
        CheckpointError, ContainerError, DocumentError, LayoutError, MigrationError: the checkpoint
            is damaged, contradicts itself, or cannot be brought up to date.
    """
    target = NewState(device, key)
    source = _source(checkpoint_id, storage_reader, process_group, no_dist=no_dist)
    return target.state(*source.load(target))


def load_distributed_into(
    state_dict: nn.Module | MutableMapping[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_reader: StorageReader | None = None,
    process_group: distributed.ProcessGroup | None = None,
    no_dist: bool = False,
    key: str | None = None,
) -> None:
    """Load a checkpoint into a state or a model, as `torch.distributed.checkpoint.load` does.

    - Of a state, ordinary tensors are filled in place, and quantized ones whose form is that of
      what is stored; others are replaced, as are values, and None. `DTensor`s get their
      rows. What the state lacks is not read. Objects with a state dict get it.
    - A model need not be quantized: its parameters are replaced, names and shapes being compared
      as by `load_checkpoint`. One with `DTensor`s has to be, and is filled in place.

    Args:
        state_dict: what is loaded into.
        checkpoint_id: where it lies, as torch takes it.
        storage_reader: torch's or another one; None reads files.
        process_group: processes that load together, all by default.
        no_dist: load in this process alone.
        key: for a model, the key of the state that it was saved under.

    Raises:
        QconfigError: as `load_distributed`.
        CheckpointError: names, shapes or forms do not fit; all at once, before tensors are read.
        UsageError: a key for something else than a model.
    """
    source = _source(checkpoint_id, storage_reader, process_group, no_dist=no_dist)
    if isinstance(state_dict, nn.Module):
        _load_module(state_dict, key, source)
        return
    if key is not None:
        raise UsageError("a key is for a model", found=key, hint="give {key: state} as the state")
    state = expanded(state_dict)
    target = GivenState(state)
    target.complete(*source.load(target))
    for name, value in list(state_dict.items()):
        if isinstance(value, Stateful):
            value.load_state_dict(state[name])
        else:
            state_dict[name] = state[name]


def _load_module(model: nn.Module, key: str | None, source: Source) -> None:
    own = model.state_dict()
    if any(isinstance(value, DTensor) for value in own.values()):
        state = own if key is None else {key: own}
        target = GivenState(state, exact="" if key is None else f"{key}.")
        target.complete(*source.load(target))
        return
    new = NewState(key=key)
    found = new.state(*source.load(new))
    others = [name for name, value in found.items() if not isinstance(value, torch.Tensor)]
    if others:
        raise CheckpointError(
            "the checkpoint is not the state of one model",
            file=source.place,
            found=", ".join(others),
            expected="tensors by name",
            hint="say under which key the model was saved: key=...",
        )
    try:
        load_into(model, found)
    except QconfigError as error:
        raise error.at(file=source.place) from None


def _source(
    checkpoint_id: str | os.PathLike[str] | None,
    reader: StorageReader | None,
    process_group: distributed.ProcessGroup | None,
    *,
    no_dist: bool,
) -> Source:
    place = _place(checkpoint_id, reader, "storage_reader")
    if reader is None:
        if "://" in str(checkpoint_id):
            raise UsageError(
                "not a path", found=str(checkpoint_id), hint="give a storage_reader for it"
            )
        reader = FilesReader(place)
    return Source(place, reader, checkpoint_id, process_group, no_dist)


def _place(
    checkpoint_id: str | os.PathLike[str] | None,
    storage: StorageReader | StorageWriter | None,
    name: str,
) -> Path:
    if checkpoint_id is None and storage is None:
        raise UsageError("no place is given", expected=f"checkpoint_id or {name}")
    known = getattr(storage, "checkpoint_id", None) if checkpoint_id is None else checkpoint_id
    return Path(str(known) if known is not None else type(storage).__name__)


def _check_writer(plain: dict[str, Any], writer: StorageWriter | None) -> None:
    form = getattr(writer, "serialization_format", None)
    if form is not SerializationFormat.SAFETENSORS:
        return
    lost = [name for _, _, name, value in leaves(plain) if not isinstance(value, torch.Tensor)]
    if lost:
        raise UsageError(
            "a value that is no tensor would make files of safetensors that cannot be read",
            found=", ".join(lost[:_MOST_NAMES]),
            expected="tensors alone for this writer",
            hint="save other values by themselves, or as tensors",
        )
