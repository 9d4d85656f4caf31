"""Operators that every packed tensor has: copies, conversions, comparison, pinning."""
# ruff: noqa: SLF001 (what torch offers to subclasses has underscored names)

from typing import TYPE_CHECKING, Any

import torch

from qconfig.codec.dtypes import DType
from qconfig.errors import LayoutError, UnsupportedOperationError
from qconfig.tensors.dispatch import OperatorTable, aliased, unsupported
from qconfig.tensors.fields import short_tensor
from qconfig.tensors.small_types import equal_elements

if TYPE_CHECKING:
    from qconfig.tensors.base import PackedTensor

COMMON = OperatorTable()
aten = torch.ops.aten


def is_packed(value: Any) -> bool:
    """Return whether a value is a packed tensor."""
    return hasattr(type(value), "operators")


@COMMON.implements(aten.detach.default, aten.alias.default)
def _views(func: Any, args: Any, kwargs: Any) -> Any:
    result = args[0].map_tensors(func)
    return aliased(func, args, kwargs, result)


@COMMON.implements(aten.clone.default, aten._pin_memory.default)
def _copies(func: Any, args: Any, kwargs: Any) -> Any:
    return args[0].map_tensors(lambda t: func(t, *args[1:], **kwargs))


@COMMON.implements(aten.is_pinned.default)
def _is_pinned(func: Any, args: Any, kwargs: Any) -> bool:
    inner = [t for t in args[0].inner_tensors.values() if t is not None]
    return all(t.is_pinned(*args[1:], **kwargs) for t in inner)


@COMMON.implements(aten._to_copy.default, aten.empty_like.default)
def _to_copy(func: Any, args: Any, kwargs: Any) -> Any:
    dtype = kwargs.pop("dtype", None)
    if dtype is not None and not DType.parse(dtype).is_float:
        raise unsupported(type(args[0]), f"conversion to {dtype}", "it shows floating-point values")
    return args[0].map_tensors(lambda t: func(t, **kwargs), dtype=dtype)


@COMMON.implements(aten.copy_.default)
def _copy(func: Any, args: Any, kwargs: Any) -> Any:
    target, source = args[0], args[1]
    if not is_packed(target):
        hint = "load with assign=True, or copy source.dequantize()"
        raise _mixed(f"the source is {type(source).__name__}, the destination", hint)
    if not is_packed(source):
        hint = "quantize the source first, or load with assign=True"
        raise _mixed(f"the destination is {type(target).__name__}, the source", hint)
    difference = first_difference(target, source)
    if difference is not None:
        raise LayoutError(
            f"copy_ between packed tensors that differ in {difference}",
            hint="convert the source first, or load with assign=True",
        )
    for name, tensor in target.inner_tensors.items():
        if tensor is not None:
            tensor.copy_(getattr(source, name), *args[2:], **kwargs)
    return aliased(func, args, kwargs, target)


def _mixed(sides: str, hint: str) -> UnsupportedOperationError:
    # load_state_dict shows the message of an error only, so that the hint is in there, too.
    return UnsupportedOperationError(
        f"copy_ between a packed and an ordinary tensor: {sides} is not quantized; {hint}",
        hint=hint,
    )


@COMMON.implements_torch(torch.dequantize)
def _dequantize(tensor: "PackedTensor") -> torch.Tensor:
    return tensor.dequantize()


@COMMON.implements(aten.equal.default)
def _equal(func: Any, args: Any, kwargs: Any) -> bool:
    first, second = args
    if not is_packed(first) or not is_packed(second):
        raise unsupported(
            type(first if is_packed(first) else second), func, "one side is not packed"
        )
    if first_difference(first, second) is not None:
        return False
    pairs = ((t, getattr(second, n)) for n, t in first.inner_tensors.items() if t is not None)
    return all(equal_elements(a, b) for a, b in pairs)


@COMMON.implements_torch(torch._has_compatible_shallow_copy_type)
def _compatible(first: Any, second: Any) -> bool:
    # Makes `module.to` swap parameters: setting `.data` would leave the inner tensors behind.
    return False


@COMMON.implements_torch(torch.Tensor.data.__set__)  # type: ignore[attr-defined]
def _set_data(tensor: Any, value: Any) -> None:
    packed = tensor if is_packed(tensor) else value
    raise unsupported(type(packed), "data =", "it would leave the inner tensors behind")


@COMMON.implements_torch(torch.Tensor.requires_grad.__set__)  # type: ignore[attr-defined]
def _set_requires_grad(tensor: "PackedTensor", value: bool) -> None:  # noqa: FBT001
    if value:
        raise unsupported(type(tensor), "requires_grad = True", "a packed payload has no gradient")


def first_difference(first: "PackedTensor", second: "PackedTensor") -> str | None:
    """Return what differs between two packed tensors besides their elements and devices.

    Returns:
        The field and both values in words, or None if class, attributes, shapes and dtypes agree.
    """
    if type(first) is not type(second):
        return f"class: {type(first).__name__} and {type(second).__name__}"
    for name, tensor in first.inner_tensors.items():
        other = getattr(second, name)
        kinds = ["absent" if t is None else short_tensor(t) for t in (tensor, other)]
        if kinds[0] != kinds[1]:
            return f"{name}: {kinds[0]} and {kinds[1]}"
    for name, value in first.inner_attributes.items():
        if value != getattr(second, name):
            return f"{name}: {value} and {getattr(second, name)}"
    if first.shown_dtype != second.shown_dtype:
        return f"dtype: {first.shown_dtype} and {second.shown_dtype}"
    return None
