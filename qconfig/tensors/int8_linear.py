"""The product of activations and int8 weights, and its gradient for the activations.

One operator, `qconfig::int8_linear`, stands in every graph: which kernel runs is decided when it
runs, by the batch at hand. A graph is therefore compiled once for all batch sizes and layers of a
shape.

Measured on 2 cores of a Zen 4 EPYC with torch 2.13, weight 4096 x 4096, milliseconds; `packed` is
`torch._weight_int8pack_mm`, `blocked` casts a few rows of codes at a time into a buffer that stays
in cache:

|          | M=1  | 4    | 8    | 16   | 32   | 64   | 128  |
|----------|------|------|------|------|------|------|------|
| bfloat16 packed  | 0.9 | 1.7 | 1.8 | 3.7 | 7.5 | 15 | 29 |
| bfloat16 blocked | 4.1 | 2.6 | 3.3 | 3.8 | 5.6 | 7.3 | 13 |
| float16 packed   | 11 | 34 | 69 | 134 | 281 | 595 | 1155 |
| float16 blocked  | 6.2 | 10 | 12 | 18 | 28 | 58 | 97 |
| float32 packed   | 7.1 | 41 | 56 | 113 | 242 | 471 | 996 |
| float32 blocked, MKL    | 13 | 19 | 22 | 23 | 30 | 34 | 51 |
| float32 blocked, oneDNN | 1.9 | 3.4 | 4.6 | 6.2 | 9.2 | 13 | 26 |

So the packed kernel serves bfloat16 up to 8 rows; with one thread the two meet there. It wants the
scale in the activations' type. Scales of bfloat16 weights are exact in bfloat16, and the kernel's
result is as good as bfloat16 can be. A scale that is not exact would be off by up to 2**-9, the
same way in a whole row; then the kernel gets a stand-in and its result is multiplied by the
quotient of both. The stand-in is smaller by sqrt(2), for a quotient close to 1 would drown in the
rounding to bfloat16. Against float64, weight 256 x 4096, 512 activations; bias is the mean error of
a row:

|                    | SQNR, dB | bias, rms | bias, scale (1 + 2**-9) * 2**-13 |
|--------------------|----------|-----------|----------------------------------|
| rounded scale      | 52.1     | 1.8e-3    | 2.0e-3 |
| quotient close to 1| 52.7     | 1.0e-3    | 2.0e-3 |
| stand-in (here)    | 52.6     | 1.8e-4    | 1.9e-4 |
| torchao 0.18 eager | 50.5     | 1.8e-3    | 2.0e-3 |
| rounded exact sum  | 55.6     | 1.2e-4    | 1.2e-4 |
"""
# ruff: noqa: SLF001 (what torch offers to subclasses has underscored names)

from collections.abc import Iterator
from typing import Any

import torch

from qconfig.tensors.blockwise import per_row, row_buffer, rows_per_buffer, write_rows
from qconfig.tensors.float_product import product_of_parts, scaled
from qconfig.tensors.linear_calls import needs_operator, rows_of

_PACKED_KERNEL_ROWS = 8
KERNEL_ALIGNMENT = 32


def int8_linear(
    activation: torch.Tensor,
    qdata: torch.Tensor,
    scale: torch.Tensor,
    zero_point: torch.Tensor | None,
) -> torch.Tensor:
    """Return `activation @ weight.T` for a weight of int8 codes.

    Args:
        activation: (..., K), floating point.
        qdata: (N, K) int8 codes, any strides.
        scale: floating point, (N, 1), (1, 1), (N, K/g) or any other that divides (N, K).
        zero_point: int8, shaped like `scale`, or None.

    Returns:
        (..., N) in the activations' type; differentiable with respect to the activation.
    """
    if not needs_operator(activation, qdata):
        return _product(activation, qdata, scale, zero_point)
    result: torch.Tensor = _operator(activation, qdata, scale, zero_point)
    return result


def _product(
    activation: torch.Tensor,
    qdata: torch.Tensor,
    scale: torch.Tensor,
    zero_point: torch.Tensor | None,
) -> torch.Tensor:
    rows, columns = qdata.shape
    flat = rows_of(activation, columns)
    if not flat.shape[0] or not rows or not columns:
        return activation.new_zeros((*activation.shape[:-1], rows))
    if zero_point is not None or scale.shape[1] != 1 or flat.dtype == torch.float16:
        # float16 gets whole values: a product with bare codes can pass its largest number.
        result = product_with_values(flat, qdata, scale, zero_point)
    elif (
        flat.shape[0] <= _PACKED_KERNEL_ROWS
        and flat.dtype == torch.bfloat16
        and flat.device.type == "cpu"
        and scale.shape[0] in (1, rows)
        and _kernel_can_read(qdata)
    ):
        result = _packed_kernel(flat, qdata, scale)
    else:
        result = product_with_values(flat, qdata, None, None)
        result = scaled(result, per_row(scale, rows))
    return result if activation.dim() == 2 else result.view(*activation.shape[:-1], rows)


def _kernel_can_read(qdata: torch.Tensor) -> bool:
    """Return whether the packed kernel may be given these codes.

    It loads 16 codes and 16 activations at a time with instructions that need aligned addresses,
    and checks nothing: in torch 2.13 a K that 16 does not divide, or codes that lie at an odd place
    of a mapped file, end the process with a segmentation fault.
    """
    if not hasattr(torch, "_weight_int8pack_mm"):
        return False
    aligned = qdata.shape[1] % 16 == 0 and qdata.data_ptr() % KERNEL_ALIGNMENT == 0
    return aligned and qdata.is_contiguous()


def _packed_kernel(flat: torch.Tensor, qdata: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    exact = per_row(scale, qdata.shape[0])
    rounded = exact.to(flat.dtype)
    flat = flat.contiguous()
    if flat.data_ptr() % KERNEL_ALIGNMENT:
        flat = flat.clone()
    if exact.dtype == flat.dtype or torch.equal(rounded.to(exact.dtype), exact):
        return torch._weight_int8pack_mm(flat, qdata, rounded)
    stand_in = (exact * 2**-0.5).to(flat.dtype)
    return scaled(torch._weight_int8pack_mm(flat, qdata, stand_in), exact / stand_in)


def product_with_values(
    flat: torch.Tensor,
    qdata: torch.Tensor,
    scale: torch.Tensor | None,
    zero_point: torch.Tensor | None,
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return `flat @ weight.T + bias` in the type of `flat`, for the weight's values in that type.

    Args:
        flat: (M, K), floating point.
        qdata: (N, K) int8 codes, any strides.
        scale: floating point, any that divides (N, K); None for the product with bare codes.
        zero_point: int8, shaped like `scale`, or None.
        bias: (N,), floating point, or None.
    """
    parts = _parts(qdata, scale, zero_point, flat.dtype)
    return product_of_parts(flat.contiguous(), qdata.shape[0], parts, bias)


def _parts(
    qdata: torch.Tensor,
    scale: torch.Tensor | None,
    zero_point: torch.Tensor | None,
    dtype: torch.dtype,
) -> Iterator[tuple[slice, torch.Tensor]]:
    rows, columns = qdata.shape
    step = rows if qdata.device.type != "cpu" else rows_per_buffer(columns, 4, rows)
    buffer = row_buffer(qdata, dtype, step)
    work = buffer
    if scale is not None and torch.promote_types(dtype, scale.dtype) != dtype:
        work = row_buffer(qdata, torch.promote_types(dtype, scale.dtype), step)
    for start in range(0, rows, step):
        part = buffer[: min(step, rows - start)]
        if scale is None:
            part.copy_(qdata[start : start + part.shape[0]])
        else:
            write_rows(part, qdata, scale, zero_point, start, work)
        yield slice(start, start + part.shape[0]), part


_operator = torch.library.custom_op("qconfig::int8_linear", _product, mutates_args=())


@_operator.register_fake
def _fake(activation: torch.Tensor, qdata: torch.Tensor, *others: Any) -> torch.Tensor:
    return activation.new_empty((*activation.shape[:-1], qdata.shape[0]))


def _setup(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    ctx.save_for_backward(*inputs[1:])


def _backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None, None]:
    qdata, scale, zero_point = ctx.saved_tensors
    zero = None if zero_point is None else zero_point.t()
    return int8_linear(gradient, qdata.t(), scale.t(), zero), None, None, None


torch.library.register_autograd("qconfig::int8_linear", _backward, setup_context=_setup)
