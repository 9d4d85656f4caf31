"""Pickles of packed tensors: by field name and version, readable with `weights_only=True`."""

from enum import Enum
from hashlib import sha256
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import attrs
import torch

from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import LazyTensor
from qconfig.errors import LayoutError
from qconfig.tensors.small_types import as_comparable
from qconfig.versioning import plain_fields, registry
from qconfig.versioning.fields import is_left_out

if TYPE_CHECKING:
    from qconfig.tensors.base import PackedTensor


def reduce_packed(tensor: "PackedTensor") -> tuple[Any, ...]:
    """Return how to pickle a packed tensor: class, layout version, fields by name."""
    entry = registry.entry_of(tensor.layout_class)
    tensors = {k: _compact(t) for k, t in tensor.inner_tensors.items() if t is not None}
    attributes = {**tensor.inner_attributes, "dtype": tensor.shown_dtype}
    for field in attrs.fields(tensor.layout_class):
        if field.name in attributes and is_left_out(field, attributes[field.name]):
            del attributes[field.name]
    is_parameter = bool(tensor.__dict__.get("_is_param"))
    stored = {k: as_comparable(t) for k, t in tensors.items()}
    state = (type(tensor), entry.version, stored, attributes, is_parameter)
    as_bytes = {k: DType.parse(t.dtype) for k, t in tensors.items() if t is not stored[k]}
    return rebuild_packed, (*state, as_bytes) if as_bytes else state


def rebuild_packed(  # noqa: PLR0917 (pickles hold its arguments by position)
    cls: "type[PackedTensor]",
    version: int,
    tensors: dict[str, torch.Tensor],
    attributes: dict[str, Any],
    is_parameter: bool,  # noqa: FBT001
    as_bytes: dict[str, DType] | None = None,
) -> "PackedTensor":
    """Undo `reduce_packed`: check the fields, and upgrade them if an older release wrote them.

    Raises:
        LayoutError: the fields contradict the layout.
        NewerVersionError: a newer qconfig wrote them.
    """
    entry = registry.entry_of(cls.layout_class)
    layout_class = registry.get(entry.name, version).cls
    types = {k: dtype.to_torch() for k, dtype in (as_bytes or {}).items()}
    typed = {k: t.view(types[k]) if k in types else t for k, t in tensors.items()}
    values = {k: LazyTensor.of(t) for k, t in typed.items()}
    fields = values | attributes
    unknown = sorted(fields.keys() - {f.name for f in attrs.fields(layout_class)})
    if unknown:
        raise LayoutError(f"{layout_class.__name__} has no field {unknown[0]}", found=unknown)
    result = cls.from_layout(layout_class(**fields))
    if is_parameter:
        result.__dict__["_is_param"] = True
    return result


def stable_hash(tensor: "PackedTensor") -> str:
    """Return what a cache of compiled graphs must know of a tensor: all but its elements."""
    names, context = tensor.__tensor_flatten__()
    inner = [(name, tensor.__dict__[name]) for name in names]
    shown = (
        str(registry.entry_of(tensor.layout_class)),
        f"{type(tensor).__module__}.{type(tensor).__qualname__}",
        repr(context),
        [str(part) for part in (tensor.shape, tensor.stride(), tensor.device)],
        [(n, type(t).__qualname__, *map(str, _geometry(t))) for n, t in inner],
    )
    return sha256(repr(shown).encode()).hexdigest()


def _geometry(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor.dtype, tuple(tensor.shape), tensor.stride(), tensor.storage_offset()


def allow_in_weights_only(cls: "type[PackedTensor]") -> None:
    """Let `torch.load(weights_only=True)` read a tensor class and the values its fields hold."""
    values = _value_classes(cls.layout_class)
    torch.serialization.add_safe_globals([cls, rebuild_packed, DType, *values])


def _value_classes(owner: type) -> list[Any]:
    found: list[Any] = []
    pending = _hints(owner)
    while pending:
        hint = pending.pop()
        pending += get_args(hint)
        if not isinstance(hint, type) or hint in found:
            continue
        if attrs.has(hint):
            found.append(hint)
            pending += _hints(hint)
        elif issubclass(hint, Enum):
            found.append(hint)
    return found


def _hints(cls: type) -> list[Any]:
    hints = get_type_hints(cls)
    return [hints[f.name] for f in plain_fields(cls)]


def _compact(tensor: torch.Tensor) -> torch.Tensor:
    # A view would carry the whole storage into the file; a full storage stays shared.
    if tensor.device.type == "meta" or tensor.untyped_storage().nbytes() == tensor.nbytes:
        return tensor
    return tensor.clone()
