"""Load a checkpoint of any version into memory, quantized tensors as tensor subclasses."""

import warnings
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from qconfig.checkpoints.checkpoint import Checkpoint
from qconfig.checkpoints.contradictions import config_contradictions
from qconfig.checkpoints.open import open_checkpoint
from qconfig.checkpoints.subset import cut, slices_of, with_names
from qconfig.checkpoints.tensor_slice import TensorSlice, outline
from qconfig.checkpoints.writer import Writer
from qconfig.codec.layout_values import loaded, present_fields, with_values
from qconfig.codec.safetensors_header import Header
from qconfig.codec.safetensors_reader import lazy_tensors, mapped_tensors
from qconfig.codec.tensor_values import ByteRange, LazyTensor
from qconfig.errors import (
    CheckpointError,
    InexactWarning,
    QconfigError,
    UsageError,
    nearest,
    raise_problems,
)
from qconfig.versioning import Layout, registry

if TYPE_CHECKING:
    import torch
    from torch import nn


_MOST_HINTS = 20
_ALIGNED = 64
"""Bytes at a multiple of which the tensors of our files start."""


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
        mmap: map the files, so that bytes are read when they are used; the files must then keep
            their size while the tensors live. False reads everything now.
        device: where the tensors go; None leaves them on the CPU. For `"meta"` none is read.
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
        UsageError: there is no such device, or something else than slices is given.
        RuleError: not a pattern.
        CheckpointError: a pattern matches nothing.
        CheckpointError, LayoutError, UnsupportedOperationError: tensors that cannot be cut exactly,
            all at once, before anything is read.
        CheckpointError: names or shapes do not fit the model, or tensors are quantized otherwise
            than the model's, or than the config beside them says; all at once, the model unchanged.
    """
    if device is not None:
        _check_device(device)
    reader = _mapped if mmap else lazy_tensors
    checkpoint = open_checkpoint(
        path,
        follow_symlinks=follow_symlinks,
        reader=reader,
        dialect=dialect,
        writer=Writer.of(writer),
        keep_config=False,
    )
    pieces = slices_of(checkpoint, slices or {})
    if names is not None:
        checkpoint = with_names(checkpoint, names)
    _warn(path, checkpoint)
    raise_problems(config_contradictions(checkpoint))
    checkpoint, sliced = cut(checkpoint, pieces)
    state_dict: dict[str, torch.Tensor] = {}
    for name, tensor in checkpoint.plain.items():
        state_dict[name] = _placed(tensor, device)
    for fqn, layout in checkpoint.layouts.items():
        state_dict[fqn] = _tensor(checkpoint, fqn, layout, device, is_whole=fqn not in sliced)
    state_dict |= {alias: state_dict[name] for alias, name in checkpoint.ties.items()}
    if model is not None:
        ignored = set(ignore)
        load_into(model, {n: t for n, t in state_dict.items() if n not in ignored})
    return state_dict


def _warn(path: Path | str, checkpoint: Checkpoint) -> None:
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
        stacklevel=3,
    )


def _check_device(device: "torch.device | str") -> None:
    import torch

    try:
        torch.empty(0, device=device)
    except (AssertionError, RuntimeError, ValueError) as error:
        raise UsageError(
            "a device that cannot be used", found=str(device), hint=str(error).partition("\n")[0]
        ) from None


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


def _placed(tensor: LazyTensor, device: "torch.device | str | None") -> "torch.Tensor":
    if device is None:
        return tensor.load()
    return outline(tensor) if _is_meta(device) else tensor.load().to(device)


def _is_meta(device: "torch.device | str | None") -> bool:
    import torch

    return device is not None and torch.device(device).type == "meta"


def _tensor(
    checkpoint: Checkpoint,
    fqn: str,
    layout: Layout,
    device: "torch.device | str | None",
    *,
    is_whole: bool,
) -> "torch.Tensor":
    from qconfig.tensors.classes import tensor_class_of

    try:
        current = registry.convert(layout)
        tensor_class = tensor_class_of(type(current))
        if _is_meta(device):
            lazy = {field: getattr(current, field) for field in present_fields(current)}
            in_memory = with_values(current, {f: outline(t) for f, t in lazy.items()})
        else:
            in_memory = loaded(current)
            in_memory = tensor_class.simplify(in_memory) if is_whole else _aligned(in_memory)
        tensor: torch.Tensor = tensor_class.from_layout(in_memory)
    except QconfigError as error:
        raise error.at(file=checkpoint.place, fqn=fqn) from None
    return tensor if device is None else tensor.to(device)


def _aligned(layout: Layout) -> Layout:
    """Return the layout with tensors where kernels want them; wholes get this by `simplify`."""
    values = {field: getattr(layout, field) for field in present_fields(layout)}
    return with_values(
        layout, {f: t.clone() if t.data_ptr() % _ALIGNED else t for f, t in values.items()}
    )


def _mapped(header: Header) -> dict[str, LazyTensor]:
    """Return the tensors of a file, which is mapped when the first of them is asked for."""
    mapped: dict[str, torch.Tensor] = {}

    def whole(name: str) -> "torch.Tensor":
        if not mapped:
            mapped.update(mapped_tensors(header))
        return mapped[name]

    def lazy(name: str) -> LazyTensor:
        entry, source = header.tensors[name], header.byte_range(name)

        def read(part: ByteRange) -> "torch.Tensor":
            import torch

            flat = whole(name).reshape(-1).view(torch.uint8)
            begin = part.offset - source.offset
            taken = flat.narrow(0, begin, part.length)
            # A part starts at no worse place than the whole.
            return taken.clone() if begin % _ALIGNED else taken

        return LazyTensor(entry.dtype, entry.shape, lambda: whole(name), source, read)

    return {name: lazy(name) for name in header.tensors}
