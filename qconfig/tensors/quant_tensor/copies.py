"""Copies, conversions and sums of gradients: what arrives below autograd."""
# ruff: noqa: SLF001 (what torch offers to subclasses has underscored names)

from collections.abc import Callable
from typing import Any

import torch

from qconfig.codec.dtypes import DType
from qconfig.errors import LayoutError
from qconfig.tensors.dispatch import aliased
from qconfig.tensors.quant_tensor.autograd import added
from qconfig.tensors.quant_tensor.differences import difference
from qconfig.tensors.quant_tensor.fields import VALUES

T = torch.Tensor
aten = torch.ops.aten
_CHANNELS_LAST = (torch.channels_last, torch.channels_last_3d)


def is_quant(value: Any) -> bool:
    """Return whether a value is a quant tensor."""
    return hasattr(type(value), "inner_names")


def _each(func: Any, args: Any, kwargs: Any) -> Callable[[torch.Tensor], Any]:
    """Return what calls `func` for each inner tensor; channels are last in the values alone."""
    tensor, *rest = args
    if kwargs.get("memory_format") not in _CHANNELS_LAST:
        return lambda t: func(t, *rest, **kwargs)
    value, other = tensor.__dict__["_value"], {**kwargs, "memory_format": torch.preserve_format}
    ordered = value if value is not None and value.shape == tensor.logical_shape else None
    return lambda t: func(t, *rest, **(kwargs if t is ordered else other))


def _mapped(func: Any, args: Any, kwargs: Any) -> Any:
    return args[0].map_tensors(_each(func, args, kwargs))


def _viewed(func: Any, args: Any, kwargs: Any) -> Any:
    # Inner tensors share elements. The outer one has none, and a compiled region would make what
    # says that it is a view of its input from that input, as a plain tensor.
    return args[0].map_tensors(func)


def _to_copy(func: Any, args: Any, kwargs: Any) -> Any:
    dtype = kwargs.pop("dtype", None)
    if dtype is not None and not DType.parse(dtype).is_float:
        return func(args[0].value, **kwargs, dtype=dtype)
    return args[0].map_tensors(_each(func, args[:1], kwargs), dtype=dtype)


def _copy(func: Any, args: Any, kwargs: Any) -> Any:
    target, source = args[0], args[1]
    if not is_quant(target):
        return func(target, source.value, *args[2:], **kwargs)
    if not _agree(source, target):
        kinds = repr(source)[:200], repr(target)[:200]
        found, expected = difference(target, source) or kinds
        # Of an error that load_state_dict meets, it shows the message alone.
        raise LayoutError(
            "copy_ between tensors that differ in more than elements: "
            f"{found} cannot become {expected}",
            found=kinds[0],
            expected=kinds[1],
            hint="convert the source first, or load with assign=True",
        )
    for name in target.flat()[0]:
        target.raw(name).copy_(source.raw(name), *args[2:], **kwargs)
    target.forget()
    return aliased(func, args, kwargs, target)


def _agree(source: Any, target: Any) -> bool:
    if type(source) is not type(target):
        return False
    (names, context), (other_names, other) = source.flat(), target.flat()
    # Whether elements have a graph, or a zero point is 0, may differ.
    ignored = {"differentiable": (), "symmetric": None}
    return bool(names == other_names and context._replace(**ignored) == other._replace(**ignored))


def _added(func: Any, args: Any, kwargs: Any) -> Any:
    return added(args[0], args[1])


def _accumulated(func: Any, args: Any, kwargs: Any) -> Any:
    total, own = added(args[0], args[1]), args[0]
    for name in own.flat()[0]:
        own.raw(name).copy_(total.raw(name))
    return own


COPIES: dict[Any, Callable[..., Any]] = {
    aten.detach.default: _viewed,
    aten.alias.default: _viewed,
    aten.clone.default: _mapped,
    aten._pin_memory.default: _mapped,
    aten._to_copy.default: _to_copy,
    aten.empty_like.default: _to_copy,
    aten.copy_.default: _copy,
    aten.add.Tensor: _added,
    aten.add_.Tensor: _accumulated,
}
"""Operators below autograd that keep the class."""

_DETACHED: frozenset[Any] = frozenset({T.detach, torch.detach})
_CLONED: frozenset[Any] = frozenset((T.clone, torch.clone, T.contiguous))
_DEVICES: dict[Any, str] = {T.cpu: "cpu", T.cuda: "cuda"}


def traced_copy(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Return a copy that an exported graph can hold, made of operations on its fields.

    Returns:
        The copy; None if `func` makes none.
    """
    if func in _DETACHED:
        return _of_fields(args[0], lambda _, t: t.detach())
    if func in _CLONED:
        return _of_fields(args[0], lambda _, t: t.clone())
    if func in _DEVICES:
        return _of_fields(args[0], lambda _, t: t.to(_DEVICES[func]))
    if func is not T.to:
        return None
    given = {name: value for name, value in kwargs.items() if name != "copy"}
    parsed: Any = torch._C._nn._parse_to(*args[1:], **given)
    device, dtype, *_ = parsed
    if dtype is not None and not DType.parse(dtype).is_float:
        return args[0].value.to(device=device, dtype=dtype)

    def convert(name: str, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(device=device, dtype=dtype if name in VALUES else None)

    return _of_fields(args[0], convert)


def _of_fields(tensor: Any, change: Callable[[str, torch.Tensor], torch.Tensor]) -> Any:
    prefix = "grouped_" if tensor.fields.grouped else ""
    fields = {name: tensor.known(name) for name in tensor.fields.numbers}
    for name in tensor.flat()[0]:
        if fields.get(name) is None:
            # By its attribute, which is what export records.
            shown = getattr(tensor, prefix + name if name in VALUES else name)
            fields[name] = change(name, shown)
    fields |= tensor.inner_attributes
    fields.setdefault("value", None)
    dtype = None if fields["value"] is not None else tensor.dtype
    size = tuple(tensor.logical_shape)
    symmetric = tensor.is_symmetric
    return tensor.made(size, symmetric=symmetric, **fields, dtype=dtype)
