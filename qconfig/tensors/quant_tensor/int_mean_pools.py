"""Mean pools of integer tensors: sums of integers on a finer grid."""

from math import prod
from typing import Any

import torch
from torch.nn import functional

from qconfig.tensors.quant_tensor.calls import on_tensor
from qconfig.tensors.quant_tensor.dispatch import run_on_values
from qconfig.tensors.quant_tensor.int_convolutions import each
from qconfig.tensors.quant_tensor.kept_metadata import is_constant_along
from qconfig.tensors.quant_tensor.product_bits import sum_of_bits
from qconfig.tensors.quant_tensor.rules import Rule

_DIMS: dict[Any, int] = {
    functional.avg_pool1d: 1,
    functional.avg_pool2d: 2,
    functional.avg_pool3d: 3,
}
_ADAPTIVE_DIMS: dict[Any, int] = {
    functional.adaptive_avg_pool1d: 1,
    functional.adaptive_avg_pool2d: 2,
    functional.adaptive_avg_pool3d: 3,
}


@on_tensor
def _mean_pool(  # noqa: PLR0917
    func: Any,
    tensor: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,  # noqa: FBT001, FBT002
    count_include_pad: bool = True,  # noqa: FBT001, FBT002
    divisor_override: int | None = None,
) -> Any:
    dims = _DIMS[func]
    args = (tensor, kernel_size, stride, padding, ceil_mode, count_include_pad)
    value = run_on_values(func, args if dims == 1 else (*args, divisor_override), {})
    kernel, pads = each(kernel_size, dims), each(padding, dims)
    strides = each(stride, dims) if stride else kernel
    shape = tensor.logical_shape[-dims:]
    cut = any(
        (out - 1) * s + k > n + 2 * p
        for out, s, k, n, p in zip(value.shape[-dims:], strides, kernel, shape, pads, strict=True)
    )
    if divisor_override is None and (cut or (any(pads) and not count_include_pad)):
        return value
    if (cut or any(pads)) and not tensor.is_symmetric:
        # What lies outside counts as the value 0: an integer only where the zero point is one.
        return value
    size = prod(kernel)
    return _mean(tensor, value, size, divisor_override or size, dims)


@on_tensor
def _adaptive_mean_pool(func: Any, tensor: Any, output_size: Any) -> Any:
    value = run_on_values(func, (tensor, output_size), {})
    dims = _ADAPTIVE_DIMS[func]
    pairs = zip(tensor.logical_shape[-dims:], value.shape[-dims:], strict=True)
    size = 1
    for window in (_window(n, out) for n, out in pairs):
        if window is None:
            return value
        size *= window
    return _mean(tensor, value, size, size, dims)


def _window(size: int, out: int) -> int | None:
    """Return how many values each window has; None if they differ, or there is none."""
    if not size or not out:
        return None
    if size % out == 0:
        return size // out
    found = {-(-(i + 1) * size // out) - i * size // out for i in range(out)}
    return found.pop() if len(found) == 1 else None


def _mean(tensor: Any, value: torch.Tensor, size: int, divisor: int, dims: int) -> Any:
    if not is_constant_along(tensor, range(-dims, 0)):
        return value
    zero_point = tensor.zero_point
    symmetric = tensor.is_symmetric
    return type(tensor).made(
        value=value,
        scale=tensor.scale / divisor,
        zero_point=zero_point if symmetric else zero_point * size,
        bit_width=sum_of_bits(tensor, size),
        signed=tensor.signed,
        training=tensor.training,
        symmetric=symmetric,
    )


_RESULT = {
    "value": "that of the values",
    "scale": "scale / k for windows of k values, or scale / divisor_override",
    "zero_point": "zp * k",
    "bit_width": "ceil(log2((2**bits - 1) * k)), or what the range needs if that is more",
    "signed": "signed",
    "training": "training",
}
_UNEVEN = (
    "plain where metadata varies along a dimension that is pooled, or windows have different sizes"
)

MEAN_POOLS = (
    Rule(
        "avg_pool1d, avg_pool2d, avg_pool3d",
        tuple(_DIMS),
        _mean_pool,
        _RESULT,
        f"{_UNEVEN}; where windows reach beyond the input, plain unless zp is 0",
    ),
    Rule(
        "adaptive_avg_pool1d, …2d, …3d",
        tuple(_ADAPTIVE_DIMS),
        _adaptive_mean_pool,
        _RESULT,
        _UNEVEN,
    ),
)
