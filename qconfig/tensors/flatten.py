"""Named packed tensors to ordinary ones and back, in time linear in their number.

The inner tensors of `fqn` are `fqn.<field>`. What else a tensor is, its form, is one hashable
record that all layers of a kind share.
"""

from collections.abc import Mapping
from typing import Any

import torch
from attrs import frozen

from qconfig.errors import LayoutError
from qconfig.tensors.base import PackedTensor


@frozen
class PackedForm:
    """What a packed tensor is besides the elements of its inner tensors.

    Args:
        tensor_class: its class.
        names: fields that are there.
        context: plain data of `__tensor_flatten__`.
        shape: its dimensions.
    """

    tensor_class: type[PackedTensor]
    names: tuple[str, ...]
    context: tuple[Any, ...]
    shape: tuple[int, ...]


def flatten_tensors(
    tensors: Mapping[str, torch.Tensor],
) -> tuple[dict[str, torch.Tensor], dict[str, PackedForm]]:
    """Take packed tensors apart; ordinary ones pass as they are.

    Args:
        tensors: tensors by FQN, such as a state dict.

    Returns:
        Ordinary tensors by name, sharing memory with the input, and the form of each packed FQN;
        equal forms are one object.

    Raises:
        LayoutError: an inner tensor would take the name of another tensor.
    """
    flat: dict[str, torch.Tensor] = {}
    forms: dict[str, PackedForm] = {}
    interned: dict[PackedForm, PackedForm] = {}
    for fqn, tensor in tensors.items():
        if not isinstance(tensor, PackedTensor):
            _add(flat, fqn, tensor)
            continue
        names, context = tensor.__tensor_flatten__()
        form = PackedForm(type(tensor), tuple(names), context, tuple(tensor.shape))
        forms[fqn] = interned.setdefault(form, form)
        state = tensor.__dict__
        for name in names:
            _add(flat, f"{fqn}.{name}", state[name])
    return flat, forms


def unflatten_tensors(
    flat: Mapping[str, torch.Tensor], forms: Mapping[str, PackedForm]
) -> dict[str, torch.Tensor]:
    """Undo `flatten_tensors`, unchecked: for tensors that came from it.

    Raises:
        LayoutError: an inner tensor is missing.
    """
    rest = dict(flat)
    packed: dict[str, torch.Tensor] = {}
    for fqn, form in forms.items():
        inner = {}
        for name in form.names:
            tensor = rest.pop(f"{fqn}.{name}", None)
            if tensor is None:
                raise LayoutError("an inner tensor is missing", fqn=f"{fqn}.{name}")
            inner[name] = tensor
        packed[fqn] = form.tensor_class.__tensor_unflatten__(inner, form.context, form.shape, None)
    return rest | packed


def _add(flat: dict[str, torch.Tensor], name: str, tensor: torch.Tensor) -> None:
    if name in flat:
        raise LayoutError("two tensors have one name", fqn=name)
    flat[name] = tensor
