"""The product of activations and NVFP4 weights, and its gradient for the activations.

One operator, `qconfig::nvfp4_linear`, stands in every graph: which kernel runs is decided when it
runs. Codes times block scales are exact in bfloat16, of the weight as of a quantized activation;
the scales of whole tensors go to the result. Where the scales of a weight are rounded
first, its own values are multiplied.
"""
# ruff: noqa: PLR0917 (the operator's schema is flat)

from typing import Any

import torch

from qconfig.layouts.nvfp4 import BLOCK
from qconfig.tensors.block_scaled import product, rows_of_blocks, values_of
from qconfig.tensors.block_scaled_device import nvfp4_on_device
from qconfig.tensors.float_product import scaled
from qconfig.tensors.linear_calls import bias_gradient, empty_sums, keep_bias, rows_of
from qconfig.tensors.nvfp4_quantize import per_tensor_scale_of, quantize_nvfp4
from qconfig.tensors.small_floats import E2M1


@torch.library.custom_op("qconfig::nvfp4_linear", mutates_args=())
def nvfp4_linear(
    activation: torch.Tensor,
    qdata: torch.Tensor,
    scale: torch.Tensor,
    per_tensor_scale: torch.Tensor | None,
    act_per_tensor_scale: torch.Tensor | None,
    rows: int,
    is_swizzled: bool,  # noqa: FBT001
    act_quantized: bool,  # noqa: FBT001
    act_dynamic: bool,  # noqa: FBT001
    product_dtype: torch.dtype | None = None,
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return `activation @ weight.T + bias` for a weight of NVFP4 codes.

    Args:
        activation: (..., K), floating point.
        qdata: codes, (N, K/2) uint8, blocks along either dimension.
        scale: float8_e4m3fn, one a block, or tiles of them.
        per_tensor_scale: float32, one entry, or None.
        act_per_tensor_scale: float32, one entry, static, or None.
        rows: N.
        is_swizzled: whether scales lie in tiles.
        act_quantized: whether the activation is quantized first.
        act_dynamic: whether its scale as a whole follows its largest magnitude.
        product_dtype: type that the second scale of the weight, and its product with a block
            scale, is rounded to; where the activation is quantized, the product of the second
            scales of both takes its type. Or None.
        bias: (N,), floating point, or None.

    Returns:
        (..., N) in the activation's type; differentiable with respect to activation and bias, with
        the rounding of the activation's quantization left out.
    """
    columns = activation.shape[-1]
    flat = rows_of(activation, columns)
    if not flat.shape[0] or not rows or not columns:
        return empty_sums(activation, rows, bias)
    # float16 cannot hold sums of codes times scales.
    work = torch.float32 if flat.dtype == torch.float16 else flat.dtype
    factor, result, within = per_tensor_scale, None, None
    if product_dtype is not None and not act_quantized:
        factor, within = None, per_tensor_scale
    if act_quantized:
        second = per_tensor_scale_of(flat) if act_dynamic else act_per_tensor_scale
        codes, act_scale = quantize_nvfp4(flat, second, checked=False)
        if second is not None:
            factor = second if factor is None else second.reshape(()) * factor.reshape(())
        if factor is not None and product_dtype is not None:
            factor = factor.to(flat.dtype)
        result = nvfp4_on_device(codes, act_scale, qdata, scale, is_swizzled, flat.dtype)
        flat = values_of(codes, act_scale.to(work), E2M1, work)
    own = bias if factor is None else None
    if result is None:
        result = product(
            flat.to(work),
            qdata,
            scale,
            E2M1,
            BLOCK,
            rows,
            is_swizzled=is_swizzled,
            second=within,
            product_dtype=product_dtype,
            bias=own,
        )
    elif own is not None:
        result.add_(own)
    if factor is not None:
        result = scaled(result, factor.reshape(1, 1), bias)
    return result.to(activation.dtype).view(*activation.shape[:-1], rows)


@nvfp4_linear.register_fake
def _fake(
    activation: torch.Tensor,
    qdata: Any,
    scale: Any,
    per_tensor_scale: Any,
    act_per_tensor_scale: Any,
    rows: int,
    *rest: Any,
) -> torch.Tensor:
    return activation.new_empty((*activation.shape[:-1], rows))


def _setup(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    activation, qdata, scale, second = inputs[:4]
    ctx.save_for_backward(qdata, scale, second)
    ctx.columns, ctx.is_swizzled = activation.shape[-1], inputs[6]
    ctx.product_dtype = None if inputs[7] else inputs[9]
    keep_bias(ctx, inputs[10])


def _backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
    to_bias = bias_gradient(ctx, gradient)
    if not ctx.needs_input_grad[0]:
        return (*(None,) * 10, to_bias)
    qdata, scale, second = ctx.saved_tensors
    if ctx.is_swizzled:
        scale = rows_of_blocks(qdata, scale, E2M1, BLOCK, is_swizzled=True)[1]
    form = False, False, False, ctx.product_dtype, None
    result = nvfp4_linear(gradient, qdata.t(), scale.t(), second, None, ctx.columns, *form)
    return (result, *(None,) * 9, to_bias)


torch.library.register_autograd("qconfig::nvfp4_linear", _backward, setup_context=_setup)
