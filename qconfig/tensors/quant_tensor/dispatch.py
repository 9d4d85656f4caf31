"""How functions of torch run on quant tensors: by a rule, on the tensor itself, or on values."""
# ruff: noqa: SLF001 (what torch offers to subclasses has underscored names)

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import torch

from qconfig.errors import UnsupportedOperationError
from qconfig.tensors.quant_tensor.copies import COPIES, is_quant, traced_copy
from qconfig.tensors.quant_tensor.export import is_access, is_recording
from qconfig.tensors.quant_tensor.fields import is_real
from qconfig.tensors.quant_tensor.torch_names import ATTRIBUTES, TRANSPOSITIONS, writes

if TYPE_CHECKING:
    from qconfig.tensors.quant_tensor.rules import RuleTable

T = torch.Tensor
aten = torch.ops.aten

_COMPUTED: frozenset[Any] = frozenset(
    (*TRANSPOSITIONS, cast("Any", T.real).__get__, cast("Any", T.imag).__get__)
)
"""Attributes that are operations."""
_ITSELF: frozenset[Any] = (ATTRIBUTES - _COMPUTED) | {
    T.__deepcopy__,
    T.__dir__,
    T.__reduce_ex__,
    T.__repr__,
    T._is_view,
    T.clone,
    T.contiguous,
    T.copy_,
    T.cpu,
    T.cuda,
    T.detach,
    T.dim,
    T.element_size,
    T.get_device,
    T.is_complex,
    T.is_conj,
    T.is_contiguous,
    T.is_floating_point,
    T.is_inference,
    T.is_neg,
    T.is_pinned,
    T.ndimension,
    T.nelement,
    T.numel,
    T.pin_memory,
    T.register_hook,
    T.register_post_accumulate_grad_hook,
    T.requires_grad_,
    T.retain_grad,
    T.size,
    T.storage_offset,
    T.stride,
    T.to,
    T.untyped_storage,
    torch.empty_like,
    T.__hash__,
    T.__len__,
    torch.clone,
    torch.detach,
    torch.is_complex,
    torch.is_floating_point,
    torch.numel,
}
"""Functions that ask for or copy the tensor itself."""
_GRAD: Any = cast("Any", T.grad).__get__
_SET_DATA: Any = cast("Any", T.data).__set__


def run_torch(table: "RuleTable", func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Run a function of torch.

    Raises:
        UnsupportedOperationError: it changes a quant tensor in place.
        MetadataOnlyError: it needs a value that is left out.
    """
    rule = table.by_function.get(func)
    if rule is not None:
        return rule(func, *args, **kwargs)
    if func in _ITSELF or is_access(func):
        return _on_itself(func, args, kwargs)
    special = _SPECIAL.get(func)
    if special is not None:
        return special(func, args, kwargs)
    return run_on_values(func, args, kwargs)


def _on_itself(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    if func == _SET_DATA:  # a new object each time
        raise _in_place(args, "data =", "copy_ from a quant tensor, or make a new one")
    if is_recording():
        copy = traced_copy(func, args, kwargs)
        if copy is not None:
            return copy
    with torch._C.DisableTorchFunctionSubclass():
        result = func(*args, **kwargs)
    if func == _GRAD and is_quant(result):
        return result.raw("value")
    return result


def _gradients(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    with torch._C.DisableTorchFunctionSubclass():
        result = func(*args, **kwargs)
    if result is None:
        return None
    # A tracer wants the gradient of a subclass as it is; for others it is that of the values.
    return tuple(g.raw("value") if is_quant(g) and is_real(g.raw("value")) else g for g in result)


def _converted(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    return args[0].to(_CONVERSIONS[func])


def _compatible(func: Any, args: Any, kwargs: dict[str, Any]) -> bool:
    # Makes `module.to` swap parameters: setting `.data` would leave the inner tensors behind.
    return False


_CONVERSIONS: dict[Any, torch.dtype] = {
    T.half: torch.float16,
    T.bfloat16: torch.bfloat16,
    T.float: torch.float32,
    T.double: torch.float64,
}
_SPECIAL: dict[Any, Callable[..., Any]] = {
    torch.autograd.grad: _gradients,
    torch.autograd.backward: _gradients,
    T.backward: _gradients,
    torch._has_compatible_shallow_copy_type: _compatible,
    **dict.fromkeys(_CONVERSIONS, _converted),
}


def run_on_values(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Run a function of torch on the values of quant tensors; `inplace=True` makes a new tensor.

    Raises:
        UnsupportedOperationError: it changes a quant tensor in place.
        MetadataOnlyError: a value is left out.
    """
    first = args[0] if args else next(iter(kwargs.values()), None)
    if _has_quant(first) and writes(func):
        raise _in_place_function(func, first)
    if kwargs.get("inplace"):  # of functions: the result is what counts
        kwargs = {**kwargs, "inplace": False}
    if kwargs.get("max_norm") is not None:
        raise _in_place((first, *args[1:]), f"{func.__name__}(max_norm=)", "leave out max_norm")
    if _has_quant(kwargs.get("out")):
        raise _in_place((kwargs["out"],), f"{func.__name__}(out=)", "leave out out=")
    return func(*_values(args), **_values(kwargs))


def _in_place_function(func: Any, first: Any) -> UnsupportedOperationError:
    name = getattr(func, "__name__", str(func))
    if name == "__setitem__":
        return _in_place((first,), "assignment to items", "make a new one from changed values")
    hint = "make a new one from changed values"
    if name.endswith("_") and hasattr(torch.Tensor, name.removesuffix("_")):
        hint = f"use {name.removesuffix('_')}, which makes a new one"
    return _in_place((first,), name, hint)


def _values(value: Any) -> Any:
    if is_quant(value):
        return value.value
    if type(value) in (tuple, list):
        return type(value)(_values(v) for v in value)
    if isinstance(value, dict):
        return {k: _values(v) for k, v in value.items()}
    return value


def _has_quant(value: Any) -> bool:
    if type(value) in (tuple, list):
        return any(map(_has_quant, value))
    return is_quant(value)


def _in_place(operands: Any, what: str, hint: str) -> UnsupportedOperationError:
    found = _first_quant(operands)
    return UnsupportedOperationError(
        f"{type(found).__name__} does not support {what}: it would change values in place and "
        "leave their metadata behind",
        hint=hint,
    )


def _first_quant(value: Any) -> Any:
    if type(value) in (tuple, list):
        return next((f for f in map(_first_quant, value) if f is not None), None)
    return value if is_quant(value) else None


def run_aten(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Run an aten operator below autograd, where copies and gradients arrive.

    Raises:
        UnsupportedOperationError: it changes a quant tensor in place.
    """
    implementation = COPIES.get(func)
    if implementation is not None:
        return implementation(func, args, kwargs)
    if func._schema.is_mutable and args and is_quant(args[0]):
        raise _in_place(args, str(func), "make a new one")
    return func(*_values(args), **_values(kwargs))
