"""Convolutions of integer tensors, and transposed ones."""

from collections.abc import Callable
from math import gcd, prod
from typing import Any

import torch
from torch.nn import functional

from qconfig.tensors.quant_tensor.copies import is_quant
from qconfig.tensors.quant_tensor.dispatch import run_on_values
from qconfig.tensors.quant_tensor.int_products import PRODUCT, PRODUCT_OTHERWISE, is_pair, product
from qconfig.tensors.quant_tensor.product_bits import Accumulator, product_bits
from qconfig.tensors.quant_tensor.rules import Rule

_CONVOLUTIONS = (functional.conv1d, functional.conv2d, functional.conv3d)
_TRANSPOSED = (
    functional.conv_transpose1d,
    functional.conv_transpose2d,
    functional.conv_transpose3d,
)


def _convolution(
    func: Any,
    input: Any,  # noqa: A002
    weight: Any,
    bias: Any = None,
    *args: Any,
    **kwargs: Any,
) -> Any:
    def sums() -> Accumulator:
        return product_bits(input, weight, prod(weight.logical_shape[1:]))

    return _summed(func, (input, weight, bias, *args), kwargs, _rows(weight), sums)


def _transposed(  # noqa: PLR0917
    func: Any,
    input: Any,  # noqa: A002
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
    def sums() -> Accumulator:
        rows, columns, *kernel = weight.logical_shape
        strides, dilations = each(stride, len(kernel)), each(dilation, len(kernel))
        counted = columns * sum(max(-(-k // s), 1) for k, s in zip(kernel, strides, strict=True))
        met = [-(-k * gcd(s, d) // s) for k, s, d in zip(kernel, strides, dilations, strict=True)]
        return product_bits(input, weight, rows // groups * prod(met), counted)

    args = (input, weight, bias, stride, padding, output_padding, groups, dilation)
    return _summed(func, args, {}, _columns(weight, groups), sums)


def each(size: Any, count: int) -> tuple[int, ...]:
    """Return a size for each dimension of a window, from one for all or one for each."""
    if isinstance(size, tuple | list):
        return tuple(size) * (count if len(size) == 1 else 1)
    return (size,) * count


def _summed(
    func: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    channels: torch.Tensor | None,
    sums: Callable[[], Accumulator],
) -> Any:
    tensor, weight, bias, *rest = args
    if channels is None or not is_pair(tensor, weight):
        return run_on_values(func, args, kwargs)
    spatial = len(weight.logical_shape) - 2
    own, rank = tensor.scale, len(tensor.logical_shape)
    if own.numel() == 1:
        own = own.reshape(())
    elif own.dim() < spatial + 2 or any(size != 1 for size in own.shape[1:]):
        return run_on_values(func, args, kwargs)
    scale = own * channels.reshape((1,) * (rank - spatial - 1) + (-1,) + (1,) * spatial)
    plain = bias.value if is_quant(bias) else bias
    value = func(tensor.value, weight.value, plain, *rest, **kwargs)
    return product(tensor, weight, value, scale, sums(), bias, (-1,) + (1,) * spatial)


def _rows(weight: Any) -> torch.Tensor | None:
    """Return a scale, or one for each output channel; None if they vary otherwise."""
    if not is_quant(weight):
        return None
    scale: torch.Tensor = weight.scale
    if scale.numel() == 1:
        return scale
    rank = len(weight.logical_shape)
    return scale if scale.dim() == rank and scale.numel() == scale.shape[0] else None


def _columns(weight: Any, groups: int) -> torch.Tensor | None:
    """Return a scale, or one for each output channel of a transposed convolution."""
    if not is_quant(weight):
        return None
    scale: torch.Tensor = weight.scale
    if scale.numel() == 1:
        return scale
    missing = len(weight.logical_shape) - scale.dim()
    if missing > 1 or scale.numel() != scale.shape[1 - missing]:
        return None
    return scale.reshape(-1).repeat(groups)


CONVOLUTIONS = (
    Rule("conv1d, conv2d, conv3d", _CONVOLUTIONS, _convolution, PRODUCT, PRODUCT_OTHERWISE),
    Rule(
        "conv_transpose1d, conv_transpose2d, conv_transpose3d",
        _TRANSPOSED,
        _transposed,
        PRODUCT
        | {
            "bit_width": "as of a convolution, with n = w.shape[1] * sum(max(ceil(k / stride), 1)) "
            "over the dimensions, or more"
        },
        PRODUCT_OTHERWISE,
    ),
)
