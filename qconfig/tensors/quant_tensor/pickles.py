"""Pickles of quant tensors: by field name and version, readable with `weights_only=True`."""

from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import torch

from qconfig.codec.tensor_values import LazyTensor
from qconfig.errors import LayoutError
from qconfig.versioning import registry

if TYPE_CHECKING:
    from qconfig.tensors.quant_tensor.base import QuantTensor


def reduce_quant(tensor: "QuantTensor") -> tuple[Any, ...]:
    """Return how to pickle a quant tensor: class, layout version, fields by name."""
    entry = registry.entry_of(tensor.layout_class)
    state = tensor.__dict__
    fields = {name: tensor.raw(name) for name in tensor.flat()[0]} | tensor.inner_attributes
    fields.setdefault("value", None)
    with torch._C.DisableTorchFunctionSubclass():  # noqa: SLF001
        graph = tensor.requires_grad
    shown = {
        "dtype": tensor.dtype,
        "shape": tuple(tensor.logical_shape),
        "requires_grad": graph,
        "is_parameter": bool(state.get("_is_param")),
    }
    return rebuild_quant, (type(tensor), entry.version, fields, shown)


def rebuild_quant(
    cls: "type[QuantTensor]", version: int, fields: dict[str, Any], shown: dict[str, Any]
) -> "QuantTensor":
    """Undo `reduce_quant`: check the fields, and upgrade them if an older release wrote them.

    Raises:
        LayoutError: the fields contradict the layout.
        NewerVersionError: a newer qconfig wrote them.
    """
    entry = registry.entry_of(cls.layout_class)
    layout_class = registry.get(entry.name, version).cls
    unknown = sorted(fields.keys() - {f.name for f in attrs.fields(layout_class)})
    if unknown:
        raise LayoutError(f"{layout_class.__name__} has no field {unknown[0]}", found=unknown)
    if "value" in fields and fields["value"] is None:
        result = cls.made(shown["shape"], **fields, dtype=shown["dtype"])
    else:
        values = {k: _lazy(v) for k, v in fields.items()}
        result = cls.from_layout(layout_class(**values))
    if shown["requires_grad"]:
        result.requires_grad_()
    if shown["is_parameter"]:
        result.__dict__["_is_param"] = True
    return result


def _lazy(value: Any) -> Any:
    return LazyTensor.of(value) if isinstance(value, torch.Tensor) else value


def stable_hash(tensor: "QuantTensor") -> str:
    """Return what a cache of compiled graphs must know of a tensor: all but its elements.

    Rules run inside of such graphs, so that their code is part of what was compiled.
    """
    names, context = tensor.flat()
    inner = [tensor.raw(name) for name in names]
    shown = [
        _code(),
        type(tensor).__qualname__,
        repr(context),
        str((tuple(tensor.logical_shape), tensor.device)),
        *(
            f"{n} {t.dtype} {tuple(t.shape)} {t.stride()}"
            for n, t in zip(names, inner, strict=True)
        ),
    ]
    return sha256("\n".join(shown).encode()).hexdigest()


@cache
def _code() -> str:
    own = Path(__file__).parent
    files = sorted([*own.glob("*.py"), *own.with_name("quantizers").glob("*.py")])
    return sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def allow_in_weights_only(cls: "type[QuantTensor]") -> None:
    """Let `torch.load(weights_only=True)` read a class of quant tensors."""
    torch.serialization.add_safe_globals([cls, rebuild_quant])
