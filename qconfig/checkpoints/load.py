"""Load a checkpoint of any version into memory, quantized tensors as tensor subclasses."""

import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from qconfig.checkpoints.checkpoint import Checkpoint
from qconfig.checkpoints.contradictions import config_contradictions
from qconfig.checkpoints.open import open_checkpoint
from qconfig.checkpoints.placement import Placement, check_device
from qconfig.checkpoints.subset import cut, slices_of, with_names
from qconfig.checkpoints.tensor_slice import TensorSlice
from qconfig.checkpoints.writer import Writer
from qconfig.codec.collector import collector_paused
from qconfig.codec.safetensors_maps import MappedFiles
from qconfig.errors import (
    CheckpointError,
    InexactWarning,
    QconfigError,
    nearest,
    raise_problems,
)

if TYPE_CHECKING:
    import torch
    from torch import nn


_MOST_HINTS = 20


def load_checkpoint(
    path: Path | str,
    *,
    model: "nn.Module | None" = None,
    mmap: bool = True,
    device: "torch.device | str | None" = None,
    ignore: Collection[str] = (),
    follow_symlinks: bool = False,
    dialect: str | None = None,
    writer: Writer | str | None = None,
    names: Sequence[str] | str | None = None,
    slices: Mapping[str, TensorSlice] | None = None,
) -> "dict[str, torch.Tensor]":
    """Return the state_dict of a checkpoint; layouts of earlier versions are brought up to date.

    All headers are read and checked, and of tensors only what was asked for.

    Warns with an `InexactWarning` where tensors of another library are not carried exactly, or
    something about them had to be assumed; `inspect_checkpoint` says what, tensor by tensor.

    Args:
        path: a directory in Hugging Face shape, or one file; also of another library.
        model: put the tensors into this model too, all names required, none left over. Names that
            are tied in the model need to be stored under one of them only.
        mmap: map the files, so that bytes are read when they are used. A file must then keep its
            size while its tensors live: the system kills a process (SIGBUS) that looks at what was
            cut off. The call itself never does; a file that changes during it gives an error.
            False reads everything now, and nothing that happens to the files later matters.
        device: where the tensors go; None leaves them on the CPU. For `"meta"` none is read, for
            others than the CPU nothing is mapped.
        ignore: names in the checkpoint that the model need not have.
        follow_symlinks: accept shards that are links to files elsewhere.
        dialect: in whose form it is written, see `upgrade_checkpoint`; None finds it out.
        writer: the release that wrote it, such as `"torchao==0.13"`, where that matters.
        names: only tensors whose names one of these patterns matches: names, globs, or `re:` and
            a regular expression. The checkpoint must have a match for each.
        slices: which part of a tensor to take, by pattern of its name. Scales and zero points of
            quantized tensors are cut like their codes, and none is left out for being 0, so that
            all parts have the same fields.

    Raises:
        QconfigError: the checkpoint is damaged, hostile or newer.
        ContainerError: a file has changed since the call began.
        UsageError: there is no such device, or something else than slices is given.
        RuleError: not a pattern.
        CheckpointError: a pattern matches nothing.
        CheckpointError, LayoutError, UnsupportedOperationError: tensors that cannot be cut exactly,
            all at once, before anything is read.
        CheckpointError: names or shapes do not fit the model, or tensors are quantized otherwise
            than the model's, or than the config beside them says; all at once, the model unchanged.
    """
    if device is not None:
        check_device(device)
    # Many small objects are made that stay: looking for cycles among them takes most of the time.
    # A function of its own, so that what leads to the tensors is gone before the collector is back.
    with collector_paused():
        state_dict = _read(
            Path(path),
            partial(
                open_checkpoint,
                follow_symlinks=follow_symlinks,
                dialect=dialect,
                writer=Writer.of(writer),
                keep_config=False,
            ),
            partial(Placement, mmap=mmap, device=device, for_model=model is not None),
            names,
            slices or {},
        )
    if model is not None:
        ignored = set(ignore)
        load_into(model, {n: t for n, t in state_dict.items() if n not in ignored})
    return state_dict


def _read(
    path: Path,
    opened: Callable[..., Checkpoint],
    placed: Callable[[MappedFiles], Placement],
    names: Sequence[str] | str | None,
    slices: Mapping[str, TensorSlice],
) -> "dict[str, torch.Tensor]":
    """Return the tensors of a checkpoint that are asked for.

    Args:
        path: a directory, or one file.
        opened: opens it, given what reads the tensors of its files.
        placed: says how tensors come into memory.
        names: see `load_checkpoint`.
        slices: see `load_checkpoint`.
    """
    with MappedFiles() as files:
        checkpoint = opened(path, reader=files.tensors)
        pieces = slices_of(checkpoint, slices)
        if names is not None:
            checkpoint = with_names(checkpoint, names)
        _warn(path, checkpoint)
        raise_problems(config_contradictions(checkpoint))
        state_dict = _state_dict(*cut(checkpoint, pieces), placed(files))
        files.check_unchanged()
    return state_dict


def _state_dict(
    checkpoint: Checkpoint, sliced: set[str], placement: Placement
) -> "dict[str, torch.Tensor]":
    state_dict: dict[str, torch.Tensor] = {}
    for name, tensor in checkpoint.plain.items():
        state_dict[name] = placement.plain(tensor, is_part=name in sliced)
    place = checkpoint.place
    for fqn, layout in checkpoint.layouts.items():
        state_dict[fqn] = placement.quantized(fqn, layout, place, is_part=fqn in sliced)
    state_dict |= {alias: state_dict[name] for alias, name in checkpoint.ties.items()}
    return state_dict


def _warn(path: Path, checkpoint: Checkpoint) -> None:
    inexact = [origin for origin in checkpoint.origins.values() if not origin.exact]
    if not inexact:
        return
    texts = dict.fromkeys(text for o in inexact for text in (*o.changes, *o.ambiguities))
    first, *others = texts
    more = f" (and {len(others)} more)" if others else ""
    warnings.warn(
        f"{path}: {len(inexact)} of {len(checkpoint.layouts)} quantized tensors are not exactly, "
        f"or not surely, what their writer had: {first}{more}; inspect_checkpoint or "
        "`qconfig inspect` lists all of it",
        InexactWarning,
        stacklevel=4,
    )


def load_into(model: "nn.Module", state_dict: "dict[str, torch.Tensor]") -> None:
    """Assign a state_dict to a model: same names, ties kept, no gradients for packed tensors.

    Raises:
        CheckpointError: names or shapes do not fit, or quantizers have another config than is
            recorded; all at once, the model unchanged.
    """
    from torch import nn

    from qconfig.modules.recorded_config import check_records

    targets = dict(model.named_parameters(remove_duplicate=False))
    shared: dict[int, nn.Parameter] = {}
    entries: dict[str, torch.Tensor] = {}
    for name, tensor in state_dict.items():
        entries[name] = tensor
        if name in targets:
            if id(tensor) not in shared:
                trains = targets[name].requires_grad and _is_real(tensor)
                shared[id(tensor)] = nn.Parameter(tensor, trains)
            entries[name] = shared[id(tensor)]
    loaded_for = {id(targets[name]): entries[name] for name in entries if name in targets}
    for name, target in targets.items():
        if name not in entries and id(target) in loaded_for:
            entries[name] = loaded_for[id(target)]
    contradictions, records = check_records(model, entries)
    entries |= records
    raise_problems([*contradictions, *_misfits(model.state_dict(keep_vars=True), entries)])
    model.load_state_dict(entries, strict=True, assign=True)


def _is_real(tensor: "torch.Tensor") -> bool:
    """Return whether the elements are real or complex numbers, not integers or flags."""
    return tensor.is_floating_point() or tensor.is_complex()


def _misfits(
    expected: "Mapping[str, torch.Tensor]", entries: "Mapping[str, torch.Tensor]"
) -> list[QconfigError]:
    from qconfig.modules.state_hints import hint_of_difference, hint_of_extra, hint_of_lacking

    problems: list[QconfigError] = [
        CheckpointError(
            "the checkpoint lacks a tensor of the model",
            fqn=name,
            hint=hint_of_lacking(name, entries),
        )
        for name in expected
        if name not in entries
    ]
    for name, tensor in entries.items():
        if name not in expected:
            # Looking for what is near takes long, and says little where nothing fits.
            hint = hint_of_extra(name, expected, entries)
            if hint is None and len(problems) < _MOST_HINTS:
                hint = nearest(name, expected)
            hint = hint or "pass its name in `ignore` to leave it out"
            problems.append(CheckpointError("the model has no such tensor", fqn=name, hint=hint))
        elif tensor.shape != expected[name].shape:
            problems.append(
                CheckpointError(
                    "the tensor has another shape than the model's",
                    fqn=name,
                    found=tuple(tensor.shape),
                    expected=str(tuple(expected[name].shape)),
                )
            )
        elif difference := _difference(expected[name], tensor):
            problems.append(
                CheckpointError(
                    "the tensor is quantized otherwise than the model's",
                    fqn=name,
                    found=difference[0],
                    expected=difference[1],
                    hint=hint_of_difference(expected[name], tensor)
                    or "load it into a model that is quantized as its config says, or is not yet",
                )
            )
        elif _is_real(tensor) != _is_real(expected[name]):
            problems.append(
                CheckpointError(
                    "the tensor has elements of another kind than the model's",
                    fqn=name,
                    found=str(tensor.dtype),
                    expected=str(expected[name].dtype),
                )
            )
    return problems


def _difference(expected: "torch.Tensor", found: "torch.Tensor") -> tuple[str, str] | None:
    """Return how a quantized tensor differs from the one that it would take the place of."""
    from qconfig.tensors.classes import ComparedTensor, has_layout

    if not has_layout(found) or not isinstance(expected, ComparedTensor):
        return None
    return expected.difference(found)
