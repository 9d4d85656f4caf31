"""The product of activations and int4 weights, and its gradient for the activations.

One operator, `qconfig::int4_linear`, stands in every graph: which kernel runs is decided when it
runs, by the batch at hand. A graph is therefore compiled once for all batch sizes and layers of a
shape.

bfloat16 activations of few rows take torch's packed kernel, which wants a form of its own, see
`int4_prepack`; for float32 and float16 that kernel has no vector code in torch 2.13. Everything
else is multiplied with values made of a few rows of codes at a time, in a buffer that stays in
cache. Measured on 2 cores of a Zen 4 EPYC with torch 2.13, weight 4096 x 4096, groups of 32,
milliseconds:

|                         | M=1  | 16  | 32  | 64 | 128 | 256 |
|-------------------------|------|-----|-----|----|-----|-----|
| bfloat16 packed kernel  | 0.5  | 3.3 | 6.5 | 13 | 25  | 50  |
| bfloat16 rows of values |      | 8.2 | 11  | 12 | 20  | 30  |
| float32 packed kernel   | 14   |     |     |    |     |     |
| float32 rows of values  | 7.7  | 11  | 13  | 18 | 27  | 48  |
"""

from typing import Any

import torch

from qconfig.tensors.float_product import product_of_parts, product_type
from qconfig.tensors.int4_codes import value_slabs
from qconfig.tensors.int4_cuda import cuda_product, cuda_serves
from qconfig.tensors.int4_prepack import prepacked
from qconfig.tensors.linear_calls import (
    bias_gradient,
    empty_sums,
    keep_bias,
    needs_operator,
    rows_of,
)

_PACKED_KERNEL_ROWS = 32


def int4_linear(
    activation: torch.Tensor,
    qdata: torch.Tensor,
    scale: torch.Tensor,
    zero_point: torch.Tensor,
    bias: torch.Tensor | None = None,
    *,
    transpose: bool = False,
) -> torch.Tensor:
    """Return `activation @ values.T + bias` for the values of a matrix of int4 codes.

    Args:
        activation: (..., K), floating point; (..., N) if `transpose`.
        qdata: int8, (N, K/2), two codes a byte along the columns, any strides.
        scale: floating point, (N, K/g), any strides.
        zero_point: floating point, shaped like `scale`: the value of code 0.
        bias: (N,), or (K,) if `transpose`, floating point, or None.
        transpose: whether to multiply with `values` instead.

    Returns:
        (..., N), or (..., K) if `transpose`, in the activation's type; differentiable with respect
        to activation and bias.
    """
    if not needs_operator(activation, qdata, bias):
        return _product(activation, qdata, scale, zero_point, transpose, bias)
    result: torch.Tensor = _operator(activation, qdata, scale, zero_point, transpose, bias)
    return result


def _product(  # noqa: PLR0917
    activation: torch.Tensor,
    qdata: torch.Tensor,
    scale: torch.Tensor,
    zero_point: torch.Tensor,
    transpose: bool,  # noqa: FBT001
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    rows, columns = qdata.shape[0], 2 * qdata.shape[1]
    inputs, features = (rows, columns) if transpose else (columns, rows)
    flat = rows_of(activation, inputs)
    if not flat.shape[0] or not rows or not columns:
        return empty_sums(activation, features, bias)
    result = None if transpose else _by_kernel(flat, qdata, scale, zero_point)
    if result is None:
        kind = product_type(flat)
        by_rows = _sum_of_rows if transpose else _by_rows
        result = by_rows(flat.to(kind).contiguous(), qdata, scale, zero_point, bias).to(flat.dtype)
    elif bias is not None:
        result.add_(bias)
    return result if flat is activation else result.view(*activation.shape[:-1], features)


def _by_kernel(
    flat: torch.Tensor, qdata: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor
) -> torch.Tensor | None:
    if flat.dtype != torch.bfloat16:
        return None
    if flat.device.type == "cuda":
        if cuda_serves(flat, qdata, scale):
            return cuda_product(flat, qdata, scale, zero_point)
        return None
    if flat.shape[0] > _PACKED_KERNEL_ROWS or flat.device.type != "cpu":
        return None
    form = prepacked(qdata, scale, zero_point)
    if form is None:
        return None
    result: torch.Tensor = torch.ops.aten._weight_int4pack_mm_for_cpu(  # noqa: SLF001
        flat.contiguous(), form.codes, form.group_size, form.scale_and_zero
    )
    return result


def _by_rows(
    flat: torch.Tensor,
    qdata: torch.Tensor,
    scale: torch.Tensor,
    zero_point: torch.Tensor,
    bias: torch.Tensor | None,
) -> torch.Tensor:
    parts = value_slabs(qdata, scale, zero_point, flat.dtype)
    return product_of_parts(flat, qdata.shape[0], parts, bias)


def _sum_of_rows(
    flat: torch.Tensor,
    qdata: torch.Tensor,
    scale: torch.Tensor,
    zero_point: torch.Tensor,
    bias: torch.Tensor | None,
) -> torch.Tensor:
    wide = torch.promote_types(flat.dtype, torch.float32)
    result = flat.new_zeros((flat.shape[0], 2 * qdata.shape[1]), dtype=wide)
    for rows, values in value_slabs(qdata, scale, zero_point, flat.dtype):
        if wide == flat.dtype:
            result.addmm_(flat[:, rows], values)
        else:
            result += torch.mm(flat[:, rows], values)
    return result if bias is None else result.add_(bias)


_operator = torch.library.custom_op("qconfig::int4_linear", _product, mutates_args=())


@_operator.register_fake
def _fake(activation: torch.Tensor, qdata: torch.Tensor, *others: Any) -> torch.Tensor:
    features = 2 * qdata.shape[1] if others[2] else qdata.shape[0]
    return activation.new_empty((*activation.shape[:-1], features))


def _setup(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    ctx.save_for_backward(*inputs[1:4])
    ctx.transpose = inputs[4]
    keep_bias(ctx, inputs[5])


def _backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    result = None
    if ctx.needs_input_grad[0]:
        result = int4_linear(gradient, *ctx.saved_tensors, transpose=not ctx.transpose)
    return (result, *(None,) * 4, bias_gradient(ctx, gradient))


torch.library.register_autograd("qconfig::int4_linear", _backward, setup_context=_setup)
