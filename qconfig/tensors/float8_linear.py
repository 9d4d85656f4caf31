"""The product of activations and float8 weights, and its gradient for the activations.

One operator, `qconfig::float8_linear`, stands in every graph: which kernel runs is decided when it
runs, by device, types and the batch at hand.

On the CPU a few rows of codes at a time are widened into a buffer that stays in cache (see
`float8_codes`), and torch's product of ordinary numbers takes them from there. Codes are exact in
bfloat16, so bfloat16 activations, and activations that were quantized themselves, are multiplied
with bare codes there, and the scales go to the result. Few rows, and float16, which CPUs multiply
slowly and which could overflow, take float32. `torch._scaled_mm`, which torch 2.13 has on the CPU
as well, took 300 ms for one row of a 4096 x 4096 weight where this takes 3, and 790 ms for 256
where this takes 75 (2 cores of a Zen 4 EPYC).

On CUDA devices of capability 8.9 and later `torch._scaled_mm` serves activations and weights that
have a scale a row, or one for all, where K and N are multiples of 16.
"""
# ruff: noqa: SLF001 (what torch offers to subclasses has underscored names)

from collections.abc import Iterator
from typing import Any

import torch

from qconfig.tensors.blockwise import per_row, row_buffer
from qconfig.tensors.float8_activation import Format, quantize_rows
from qconfig.tensors.float8_codes import RowWriter, code_step, dequantize_whole, write_codes
from qconfig.tensors.float_product import product_of_parts, scaled, times_transposed
from qconfig.tensors.linear_calls import (
    bias_gradient,
    empty_sums,
    keep_bias,
    needs_operator,
    rows_of,
)

_WIDE_ROWS = 8
_LARGE_BATCH = 128
_PIECES_OF_LARGE_BATCHES = 8
_SCALED_MM_CAPABILITY = (8, 9)
_SCALED_MM_MULTIPLE = 16


def float8_linear(  # noqa: PLR0917
    activation: torch.Tensor,
    qdata: torch.Tensor,
    scale: torch.Tensor,
    form: Format | None = None,
    act_scale: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return `activation @ weight.T + bias` for a weight of float8 codes.

    Args:
        activation: (..., K), floating point.
        qdata: (N, K), float8_e4m3fn or float8_e5m2, any strides.
        scale: floating point, (N, 1), (1, 1), (N, K/g) or any other that divides (N, K).
        form: how the activation is quantized first, or None to leave it as it is.
        act_scale: static scale of the activation, one element, or None.
        bias: (N,), floating point, or None.

    Returns:
        (..., N) in the activation's type; differentiable with respect to activation and bias, with
        the rounding of the activation's quantization left out.
    """
    if not needs_operator(activation, qdata, bias):
        return _product(activation, qdata, scale, form, act_scale, bias)
    how = (None,) * 4 if form is None else (form.dtype, form.group, *form.bounds)
    result: torch.Tensor = _operator(activation, qdata, scale, act_scale, *how, bias)
    return result


@torch.library.custom_op("qconfig::float8_linear", mutates_args=())
def _operator(  # noqa: PLR0917
    activation: torch.Tensor,
    qdata: torch.Tensor,
    scale: torch.Tensor,
    act_scale: torch.Tensor | None = None,
    act_dtype: torch.dtype | None = None,
    act_group: int | None = None,
    low: float | None = None,
    high: float | None = None,
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    form = None if act_dtype is None else Format(act_dtype, act_group, (low, high))
    return _product(activation, qdata, scale, form, act_scale, bias)


@_operator.register_fake
def _fake(activation: torch.Tensor, qdata: torch.Tensor, *others: Any) -> torch.Tensor:
    return activation.new_empty((*activation.shape[:-1], qdata.shape[0]))


def _setup(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    ctx.save_for_backward(inputs[1], inputs[2])
    keep_bias(ctx, inputs[-1])


def _backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    qdata, scale = ctx.saved_tensors
    result = None
    if ctx.needs_input_grad[0]:
        result = float8_linear(gradient, qdata.t(), scale.t())
    return (result, *(None,) * 7, bias_gradient(ctx, gradient))


torch.library.register_autograd("qconfig::float8_linear", _backward, setup_context=_setup)


def _product(  # noqa: PLR0917
    activation: torch.Tensor,
    qdata: torch.Tensor,
    scale: torch.Tensor,
    form: Format | None,
    act_scale: torch.Tensor | None,
    bias: torch.Tensor | None,
) -> torch.Tensor:
    rows, columns = qdata.shape
    flat = rows_of(activation, columns)
    if not flat.shape[0] or not rows or not columns:
        return empty_sums(activation, rows, bias)
    if form is None:
        result = _times_weight(flat, qdata, scale, None, bias)
    else:
        codes, left_scale = quantize_rows(flat, form, act_scale)
        if _scaled_mm_serves(codes, qdata, left_scale, scale):
            result = _scaled_mm(codes, qdata, left_scale, scale, flat.dtype)
            result = result if bias is None else result.add_(bias)
        elif left_scale.shape[1] == 1:
            result = _times_weight(_bare(codes, flat), qdata, scale, left_scale, bias)
        else:
            wide = dequantize_whole(codes, left_scale, torch.float32)
            result = _times_weight(wide, qdata, scale, None, bias)
    return result.to(activation.dtype).view(*activation.shape[:-1], rows)


def _bare(codes: torch.Tensor, flat: torch.Tensor) -> torch.Tensor:
    """Return the values of activation codes in the type they are multiplied in."""
    if codes.device.type != "cpu":
        return codes.to(flat.dtype if flat.dtype == torch.bfloat16 else torch.float32)
    result = torch.empty(codes.shape, dtype=torch.float32)
    write_codes(result, codes, torch.empty(codes.shape, dtype=torch.int16))
    return result.mul_(code_step(codes.dtype)).to(_product_type(flat))


def _product_type(flat: torch.Tensor) -> torch.dtype:
    if flat.dtype == torch.bfloat16 and flat.shape[0] > _WIDE_ROWS:
        return torch.bfloat16
    return torch.promote_types(flat.dtype, torch.float32)


def _times_weight(
    flat: torch.Tensor,
    qdata: torch.Tensor,
    scale: torch.Tensor,
    left_scale: torch.Tensor | None,
    bias: torch.Tensor | None,
) -> torch.Tensor:
    # The result is float32 or wider where scales were applied to it, else as it was computed.
    is_bare, step = scale.shape[1] == 1, 1.0
    own = None if is_bare or left_scale is not None else bias
    if flat.device.type == "cpu":
        kind, step = _product_type(flat), code_step(qdata.dtype)
        result = _by_rows(flat.to(kind).contiguous(), qdata, None if is_bare else scale, own)
    else:
        weight = qdata.to(flat.dtype) if is_bare else dequantize_whole(qdata, scale, flat.dtype)
        result = times_transposed(flat, weight, own)
    if is_bare or left_scale is not None:
        result = result.to(torch.promote_types(result.dtype, torch.float32))
    if is_bare:
        factor = per_row(scale, qdata.shape[0]).to(torch.float32) * step
        result = scaled(result, factor, bias if left_scale is None else None)
    return result if left_scale is None else scaled(result, left_scale, bias)


def _by_rows(
    flat: torch.Tensor,
    qdata: torch.Tensor,
    scale: torch.Tensor | None,
    bias: torch.Tensor | None,
) -> torch.Tensor:
    # With many activations the product itself takes longest; it is faster in large pieces.
    pieces = _PIECES_OF_LARGE_BATCHES if flat.shape[0] >= _LARGE_BATCH else 1
    return product_of_parts(flat, qdata.shape[0], _parts(qdata, scale, flat.dtype, pieces), bias)


def _parts(
    qdata: torch.Tensor, scale: torch.Tensor | None, dtype: torch.dtype, pieces: int
) -> Iterator[tuple[slice, torch.Tensor]]:
    rows = qdata.shape[0]
    writer = RowWriter(qdata, scale)
    step = min(rows, pieces * writer.step)
    buffer = row_buffer(qdata, dtype, step)
    for i in range(0, rows, step):
        part = buffer[: min(step, rows - i)]
        for j in range(0, part.shape[0], writer.step):
            writer.write(part[j : j + writer.step], i + j)
        yield slice(i, i + part.shape[0]), part


def _scaled_mm_serves(
    left: torch.Tensor, right: torch.Tensor, left_scale: torch.Tensor, right_scale: torch.Tensor
) -> bool:
    """Return whether torch's own product of float8 codes can be used, and would be faster."""
    if left.device.type != "cuda" or not hasattr(torch, "_scaled_mm"):
        return False
    rows, columns = right.shape
    is_aligned = rows % _SCALED_MM_MULTIPLE == 0 and columns % _SCALED_MM_MULTIPLE == 0
    is_e5m2 = left.dtype == right.dtype == torch.float8_e5m2
    one_for_all = left_scale.numel() == right_scale.numel() == 1
    one_a_row = left_scale.shape == (left.shape[0], 1) and right_scale.shape == (rows, 1)
    capability = torch.cuda.get_device_capability(left.device)
    return (
        is_aligned
        and not is_e5m2
        and (one_for_all or one_a_row)
        and capability >= _SCALED_MM_CAPABILITY
    )


def _scaled_mm(
    left: torch.Tensor,
    right: torch.Tensor,
    left_scale: torch.Tensor,
    right_scale: torch.Tensor,
    dtype: torch.dtype,
) -> torch.Tensor:
    # Its kernels want a row-major left and a column-major right operand; those with a scale a row
    # give bfloat16 only.
    right = right if right.is_contiguous() else right.contiguous()
    left_scale, right_scale = (s.to(torch.float32).contiguous() for s in (left_scale, right_scale))
    one_for_all = left_scale.numel() == right_scale.numel() == 1
    result: torch.Tensor = torch._scaled_mm(
        left.contiguous(),
        right.t(),
        scale_a=left_scale.reshape(()) if one_for_all else left_scale,
        scale_b=right_scale.reshape(()) if one_for_all else right_scale.t(),
        out_dtype=dtype if one_for_all else torch.bfloat16,
    )
    return result
