"""Load a checkpoint of any version into memory, quantized tensors as tensor subclasses."""

from pathlib import Path
from typing import TYPE_CHECKING

from qconfig.checkpoints.checkpoint import Checkpoint, open_checkpoint
from qconfig.checkpoints.contents import loaded
from qconfig.codec.safetensors_header import Header
from qconfig.codec.safetensors_reader import lazy_tensors, mapped_tensors
from qconfig.codec.tensor_values import LazyTensor
from qconfig.errors import QconfigError
from qconfig.versioning import Layout, registry

if TYPE_CHECKING:
    import torch
    from torch import nn


def load_checkpoint(
    path: Path | str,
    *,
    model: "nn.Module | None" = None,
    mmap: bool = True,
    device: "torch.device | str | None" = None,
    follow_symlinks: bool = False,
) -> "dict[str, torch.Tensor]":
    """Return the state_dict of a checkpoint; layouts of earlier versions are brought up to date.

    Args:
        path: a directory in Hugging Face shape, or one safetensors file.
        model: put the tensors into this model too, all names required, none left over.
        mmap: map the files, so that bytes are read when they are used; the files must then keep
            their size while the tensors live. False reads everything now.
        device: where the tensors go; None leaves them on the CPU.
        follow_symlinks: accept shards that are links to files elsewhere.

    Raises:
        QconfigError: the checkpoint is damaged, hostile, newer, or does not fit the model.
        RuntimeError: names or shapes do not fit the model; raised by `load_state_dict`.
    """
    reader = _mapped if mmap else lazy_tensors
    checkpoint = open_checkpoint(path, follow_symlinks=follow_symlinks, reader=reader)
    state_dict = {name: tensor.load() for name, tensor in checkpoint.plain.items()}
    for fqn, layout in checkpoint.layouts.items():
        state_dict[fqn] = _tensor(checkpoint, fqn, layout)
    if device is not None:
        state_dict = {name: tensor.to(device) for name, tensor in state_dict.items()}
    state_dict |= {alias: state_dict[name] for alias, name in checkpoint.ties.items()}
    if model is not None:
        load_into(model, state_dict)
    return state_dict


def load_into(model: "nn.Module", state_dict: "dict[str, torch.Tensor]") -> None:
    """Assign a state_dict to a model: same names, ties kept, no gradients for packed tensors.

    Raises:
        RuntimeError: names or shapes do not fit; the model is then as it was.
    """
    from torch import nn

    targets = dict(model.named_parameters(remove_duplicate=False))
    shared: dict[int, nn.Parameter] = {}
    entries: dict[str, torch.Tensor] = {}
    for name, tensor in state_dict.items():
        entries[name] = tensor
        if name in targets:
            if id(tensor) not in shared:
                shared[id(tensor)] = nn.Parameter(tensor, targets[name].requires_grad)
            entries[name] = shared[id(tensor)]
    model.load_state_dict(entries, strict=True, assign=True)


def _tensor(checkpoint: Checkpoint, fqn: str, layout: Layout) -> "torch.Tensor":
    from qconfig.tensors.classes import tensor_class_of

    try:
        current = registry.convert(layout)
        in_memory = loaded(current, lambda value: value.load())
        tensor: torch.Tensor = tensor_class_of(type(current)).from_layout(in_memory)
    except QconfigError as error:
        raise error.at(file=checkpoint.directory, fqn=fqn) from None
    return tensor


def _mapped(header: Header) -> dict[str, LazyTensor]:
    def lazy(name: str, tensor: "torch.Tensor") -> LazyTensor:
        entry = header.tensors[name]
        return LazyTensor(entry.dtype, entry.shape, lambda: tensor, header.byte_range(name))

    return {name: lazy(name, tensor) for name, tensor in mapped_tensors(header).items()}
