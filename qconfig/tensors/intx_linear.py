"""The product of activations and intx weights, and its gradient for the activations.

One operator, `qconfig::intx_linear`, stands in every graph: how it computes is decided when it
runs, by the batch at hand. A few rows of codes at a time become floats in a buffer that stays in
cache: float32 at first, for steps on 16-bit floats are slow on CPUs, and bfloat16 where the batch
is large enough for its faster product to pay. float16, whose products are slow, is computed in
float32.

A quantized activation enters as whole numbers `q - zero_point`, at most 255 and so exact in every
type, and its scale is a factor of the result; torchao rounds the activation's values instead, and
so does this operator where it is told in which form an older one did.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from attrs import frozen

from qconfig.configs.choices import MappingType
from qconfig.layouts.intx import ActivationQuantization
from qconfig.tensors.blockwise import row_buffer, rows_per_buffer, write_rows
from qconfig.tensors.float_product import product_of_parts, product_type, scaled
from qconfig.tensors.int8_rounded_activation import ActivationForm, rounded_values
from qconfig.tensors.intx_quantize import choose_and_write
from qconfig.tensors.linear_calls import (
    bias_gradient,
    empty_sums,
    keep_bias,
    needs_operator,
    rows_of,
)
from qconfig.tensors.slab_size import MOST


@frozen
class _Kind:
    """How activations become codes: mapping, bounds, and the type of scales (None: their own)."""

    mapping: MappingType
    bounds: tuple[int, int] = (-128, 127)
    scale_dtype: torch.dtype | None = None


# Less their zero points, codes from 0 to 255 are those from -128 to 127.
_KINDS = {
    ActivationQuantization.INT8_ASYM_PER_TOKEN.value: _Kind(MappingType.ASYMMETRIC),
    ActivationQuantization.INT8_SYM_PER_TOKEN.value: _Kind(MappingType.SYMMETRIC),
    ActivationQuantization.INT4_SYM_PER_TOKEN.value: _Kind(
        MappingType.SYMMETRIC, (-8, 7), torch.float32
    ),
    ActivationQuantization.UINT8_ASYM_PER_TOKEN.value: _Kind(
        MappingType.ASYMMETRIC, scale_dtype=torch.float32
    ),
}


def intx_linear(  # noqa: PLR0917
    activation: torch.Tensor,
    qdata: torch.Tensor,
    scale: torch.Tensor,
    zero_point: torch.Tensor | None,
    activation_quantization: str | None,
    form: ActivationForm | None = None,
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return `activation @ weight.T + bias` for a weight of intx codes.

    Args:
        activation: (..., K), floating point.
        qdata: (N, K) int8 codes, any strides.
        scale: floating point, (N, K/g) or any other that divides (N, K).
        zero_point: int8 or floating point, shaped like `scale`, or None.
        activation_quantization: a value of `ActivationQuantization`, or None.
        form: how an older torchao quantized the activation, in place of that; its values are
            rounded to its type then.
        bias: (N,), floating point, or None.

    Returns:
        (..., N) in the activation's type; differentiable with respect to activation and bias,
        straight through the activation's quantization.
    """
    function: Callable[..., torch.Tensor] = _product
    if needs_operator(activation, qdata, bias):
        function = _operator
    settings: tuple[Any, ...] = None, -128, None, None
    if form is not None:
        settings = form.asymmetric, form.least_code, form.least_scale, form.scale_dtype
    return function(activation, qdata, scale, zero_point, activation_quantization, *settings, bias)


def quantize_tokens(
    activation: torch.Tensor, activation_quantization: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return quantized activations as `(q - zero_point, scale)`, a scale for each token.

    Codes, zero points and scales of int8 are those of torchao 0.18 for the activation's type. Those
    of int4 and uint8 are those of the functions that their members name, scales chosen in the
    activation's type and kept in float32; only that torchao's are at least 2**-23. A token that
    holds NaN or infinity has a scale that is not finite.

    Args:
        activation: (M, K), floating point.
        activation_quantization: a value of `ActivationQuantization`.

    Returns:
        Whole numbers from -255 to 255, (M, K), in the activation's type, and scales, (M, 1), in
        the activation's type or float32.
    """
    kind = _KINDS[activation_quantization]
    scale = activation.new_empty((activation.shape[0], 1), dtype=kind.scale_dtype)
    codes = torch.empty(activation.shape, dtype=torch.int8, device=activation.device)
    zero_point = None
    if kind.mapping is MappingType.ASYMMETRIC:
        zero_point = torch.empty(scale.shape, dtype=torch.int8, device=activation.device)
    choose_and_write(activation, codes, scale, zero_point, kind.bounds, kind.mapping, elements=MOST)
    values = codes.to(activation.dtype)
    return values if zero_point is None else values.sub_(zero_point), scale


def _product(  # noqa: PLR0917
    activation: torch.Tensor,
    qdata: torch.Tensor,
    scale: torch.Tensor,
    zero_point: torch.Tensor | None,
    activation_quantization: str | None,
    asymmetric: bool | None = None,  # noqa: FBT001
    least_code: int = -128,
    least_scale: float | None = None,
    scale_dtype: torch.dtype | None = None,
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    rows, columns = qdata.shape
    flat = rows_of(activation, columns)
    if not flat.shape[0] or not rows or not columns:
        return empty_sums(activation, rows, bias)
    factor = None
    if asymmetric is not None:
        form = ActivationForm(
            per_token=True,
            asymmetric=asymmetric,
            least_code=least_code,
            least_scale=least_scale,
            scale_dtype=scale_dtype,
        )
        flat = rounded_values(flat, form)
    elif activation_quantization is not None:
        flat, factor = quantize_tokens(flat, activation_quantization)
    kind = product_type(flat)
    if asymmetric is not None and flat.dtype == torch.bfloat16:
        kind = flat.dtype  # with the weight's values in that type, too
    parts = _values(qdata, scale, zero_point, kind)
    own = bias if factor is None else None
    result = product_of_parts(flat.to(kind).contiguous(), rows, parts, own)
    if factor is not None:
        result = scaled(result, factor, bias)
    return result.to(activation.dtype).view(*activation.shape[:-1], rows)


def _values(
    qdata: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor | None, dtype: torch.dtype
) -> Iterator[tuple[slice, torch.Tensor]]:
    rows, columns = qdata.shape
    size = rows if qdata.device.type != "cpu" else rows_per_buffer(columns, 4, rows)
    wide = torch.promote_types(torch.promote_types(dtype, scale.dtype), torch.float32)
    buffer = row_buffer(qdata, dtype, size)
    # Half as many rows at a time where they need another buffer: both stay in cache.
    step = size if wide == dtype else -(-size // 2)
    work = None if wide == dtype else row_buffer(qdata, wide, step)
    # The product of a bfloat16 scale is the same, and a third faster, in float32.
    scale = scale.to(wide)
    for start in range(0, rows, size):
        part = buffer[: min(size, rows - start)]
        for i in range(0, part.shape[0], step):
            piece = part[i : i + step]
            write_rows(piece, qdata, scale, zero_point, start + i, piece if work is None else work)
        yield slice(start, start + part.shape[0]), part


_operator = torch.library.custom_op("qconfig::intx_linear", _product, mutates_args=())


@_operator.register_fake
def _fake(activation: torch.Tensor, qdata: torch.Tensor, *others: Any) -> torch.Tensor:
    return activation.new_empty((*activation.shape[:-1], qdata.shape[0]))


def _setup(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    ctx.save_for_backward(*inputs[1:4])
    keep_bias(ctx, inputs[-1])


def _backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    qdata, scale, zero_point = ctx.saved_tensors
    zero, result = None if zero_point is None else zero_point.t(), None
    if ctx.needs_input_grad[0]:
        result = intx_linear(gradient, qdata.t(), scale.t(), zero, None)
    return (result, *(None,) * 8, bias_gradient(ctx, gradient))


torch.library.register_autograd("qconfig::intx_linear", _backward, setup_context=_setup)
