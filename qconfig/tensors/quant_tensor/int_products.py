"""Products of matrices of integer tensors: `linear`, `matmul`."""

from typing import Any

import torch
from torch.nn import functional

from qconfig.tensors.quant_tensor.copies import is_quant
from qconfig.tensors.quant_tensor.dispatch import run_on_values
from qconfig.tensors.quant_tensor.fields import is_real
from qconfig.tensors.quant_tensor.operands import is_int
from qconfig.tensors.quant_tensor.product_bits import Accumulator, product_bits, with_bias_bits
from qconfig.tensors.quant_tensor.rules import Rule

T = torch.Tensor
_CLOSE = 1e-6
"""How far the scale of a bias may be off: more would be seen in integers of 20 bits."""
_OPERANDS = ("input", "other", "mat2")


def is_pair(first: Any, second: Any) -> bool:
    """Return whether two operands have a product with metadata: integers without zero points.

    While tracing, zero points have to be known.
    """
    return (
        is_int(first)
        and is_int(second)
        and first.is_symmetric is True
        and second.is_symmetric is True
    )


def product(  # noqa: PLR0917
    first: Any,
    second: Any,
    value: torch.Tensor,
    scale: torch.Tensor,
    sums: Accumulator,
    bias: Any = None,
    bias_shape: tuple[int, ...] = (-1,),
) -> Any:
    """Return a sum of products, plus a bias, as a quant tensor.

    Args:
        first: one IntQuantTensor.
        second: the other.
        value: the result's values.
        scale: its scale.
        sums: its integers without the bias.
        bias: a plain or a quant tensor of shape (channels,), or None. What is no integer on this
            scale goes into the zero point: `-bias / scale`.
        bias_shape: what makes a bias broadcast to the value.
    """
    signed, bits = first.signed or second.signed, sums.bits
    zero_point = None
    if bias is not None:
        if is_int(bias):
            signed = signed or bias.signed
            bits = with_bias_bits(sums, bias, signed=signed)
        zero_point = _bias_zero_point(bias, scale, bias_shape)
    return type(first).made(
        value=value,
        scale=scale,
        zero_point=_zero(scale) if zero_point is None else zero_point,
        bit_width=bits,
        signed=signed,
        training=first.training or second.training,
        symmetric=True if zero_point is None else None,
    )


def _zero(scale: torch.Tensor) -> torch.Tensor:
    # Brevitas' shape, unless the value has no dimension.
    return scale.new_zeros(1 if scale.dim() else ())


def _bias_zero_point(bias: Any, scale: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor | None:
    """Return `-bias / scale`; None for integers of this scale, which need none."""
    if not is_int(bias):
        return -_viewed(bias.value if is_quant(bias) else bias, shape) / scale
    value = bias.value
    if bias.is_symmetric is False:
        return -_viewed(value, shape) / scale
    with torch.no_grad():
        own = _viewed(bias.scale, shape)
        if is_real(own) and is_real(scale):
            close = torch.isclose(own, scale, _CLOSE, 0)
            return None if close.all() else -_viewed(value, shape) / scale
        close = torch.isclose(own, scale, _CLOSE, 0) & (_viewed(bias.zero_point, shape) == 0)
    return torch.where(close.all(), 0.0, -_viewed(value, shape) / scale)


def _viewed(metadata: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    if shape == (-1,):
        return metadata
    return metadata.reshape(()) if metadata.numel() == 1 else metadata.view(shape)


def _linear(func: Any, input: Any, weight: Any, bias: Any = None) -> Any:  # noqa: A002
    if not is_pair(input, weight) or len(weight.logical_shape) != 2:
        return run_on_values(func, (input, weight, bias), {})
    scale = _linear_scale(input, weight)
    if scale is None:
        return run_on_values(func, (input, weight, bias), {})
    value = func(input.value, weight.value, bias.value if is_quant(bias) else bias)
    sums = product_bits(input, weight, weight.logical_shape[1])
    return product(input, weight, value, scale, sums, bias)


def _linear_scale(tensor: Any, weight: Any) -> torch.Tensor | None:
    own: torch.Tensor = tensor.scale
    other: torch.Tensor = weight.scale
    rank = len(tensor.logical_shape)
    if own.numel() == 1:
        if other.numel() == 1:
            return (own * other).reshape((1,) * rank)
        if other.shape[-1] != 1:
            return None
        return (own.reshape(()) * other.reshape(-1)).reshape((1,) * (rank - 1) + (-1,))
    if own.shape[-1] != 1:
        return None
    if other.numel() == 1:
        return own * other.reshape(())
    return own * other.reshape(-1) if other.shape[-1] == 1 else None


def _matmul(func: Any, *args: Any, **kwargs: Any) -> Any:
    operands = (*args, *(kwargs[name] for name in _OPERANDS if name in kwargs))
    if not (kwargs.keys() <= set(_OPERANDS) and is_pair(*operands)):
        return run_on_values(func, args, kwargs)
    first, second = operands
    own, other = first.scale, second.scale
    if not _are_constant_inside(first, second, own, other):
        return run_on_values(func, args, kwargs)
    value = func(first.value, second.value)
    sums = product_bits(first, second, first.logical_shape[-1])
    return product(first, second, value, _product_scale(own, other, value.dim()), sums)


def _are_constant_inside(first: Any, second: Any, own: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether scales do not vary along the dimensions that are summed up."""
    if own.numel() == 1 and other.numel() == 1:
        return True
    if len(first.logical_shape) < 2 or len(second.logical_shape) < 2:
        return False
    rows = own.numel() == 1 or own.shape[-1] == 1
    return rows and (other.numel() == 1 or other.dim() == 1 or other.shape[-2] == 1)


def _product_scale(own: torch.Tensor, other: torch.Tensor, rank: int) -> torch.Tensor:
    if own.numel() == 1:
        own = own.reshape(())
    if other.numel() == 1:
        other = other.reshape(())
    scale = own * other
    return scale if scale.dim() else scale.reshape((1,) * rank)


PRODUCT = {
    "value": "that of the values",
    "scale": "scale1 * scale2, in the rank of the result",
    "zero_point": "0; -bias / scale where the bias is no integer of this scale",
    "bit_width": "ceil(log2((2**bits1 - 1) * (2**bits2 - 1) * n)) for n products, or what their "
    "range needs if that is more; an integer bias makes it max(bits, bias bits) + 1, or more",
    "signed": "signed1 or signed2, or that of an integer bias",
    "training": "training1 or training2",
}
PRODUCT_OTHERWISE = (
    "plain, unless both are IntQuantTensors with zero points of 0 (while tracing: known to be 0) "
    "and scales that do not vary along what is summed up"
)

PRODUCTS = (
    Rule("linear(x, w, bias)", (functional.linear,), _linear, PRODUCT, PRODUCT_OTHERWISE),
    Rule(
        "a @ b",
        (T.matmul, T.__matmul__, torch.matmul, T.mm, torch.mm),
        _matmul,
        PRODUCT | {"zero_point": "0"},
        PRODUCT_OTHERWISE,
    ),
)
