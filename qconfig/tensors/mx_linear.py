"""The product of activations and MX weights, and its gradient for the activations.

One operator, `qconfig::mx_linear`, stands in every graph: which kernel runs is decided when it
runs. On the CPU values of a few rows at a time lie in a buffer in cache and go through torch's
product; they are exact in bfloat16, as are those of a quantized activation.
"""
# ruff: noqa: PLR0917 (the operator's schema is flat)

from typing import Any

import torch

from qconfig.configs.choices import ScaleCalculationMode
from qconfig.layouts.mx import MXElementType
from qconfig.tensors.block_scaled import product, rows_of_blocks, values_of
from qconfig.tensors.block_scaled_device import mx_on_device
from qconfig.tensors.linear_calls import bias_gradient, empty_sums, keep_bias, rows_of
from qconfig.tensors.mx_quantize import ELEMENTS, quantize_mx


@torch.library.custom_op("qconfig::mx_linear", mutates_args=())
def mx_linear(
    activation: torch.Tensor,
    qdata: torch.Tensor,
    scale: torch.Tensor,
    rows: int,
    elem_dtype: str,
    block_size: int,
    is_swizzled: bool,  # noqa: FBT001
    act_elem_dtype: str,
    act_scaling_mode: str,
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return `activation @ weight.T + bias` for a weight of MX codes.

    Args:
        activation: (..., K), floating point.
        qdata: codes, (N, K) or two a byte, blocks along either dimension.
        scale: float8_e8m0fnu, one a block, or tiles of them.
        rows: N.
        elem_dtype: an MXElementType.
        block_size: elements of a block, of weight and activation.
        is_swizzled: whether scales lie in tiles.
        act_elem_dtype: an MXElementType to which the activation is quantized first; "" for none.
        act_scaling_mode: the ScaleCalculationMode of that; "" for none.
        bias: (N,), floating point, or None.

    Returns:
        (..., N) in the activation's type; differentiable with respect to activation and bias, with
        the rounding of the activation's quantization left out.
    """
    columns = activation.shape[-1]
    flat = rows_of(activation, columns)
    if not flat.shape[0] or not rows or not columns:
        return empty_sums(activation, rows, bias)
    element = MXElementType(elem_dtype)
    work = torch.float32 if flat.dtype == torch.float16 else flat.dtype
    result = None
    if act_elem_dtype:
        act_element = MXElementType(act_elem_dtype)
        mode = ScaleCalculationMode(act_scaling_mode)
        codes, act_scale = quantize_mx(flat, act_element, block_size, mode, checked=False)
        if act_element is element:
            result = mx_on_device(
                codes, act_scale, qdata, scale, element, block_size, is_swizzled, flat.dtype
            )
        flat = values_of(codes, act_scale.to(work), ELEMENTS[act_element].small, work)
    if result is None:
        kind = ELEMENTS[element].small
        result = product(
            flat.to(work), qdata, scale, kind, block_size, rows, is_swizzled=is_swizzled, bias=bias
        )
    elif bias is not None:
        result.add_(bias)
    return result.to(activation.dtype).view(*activation.shape[:-1], rows)


@mx_linear.register_fake
def _fake(activation: torch.Tensor, qdata: Any, scale: Any, rows: int, *rest: Any) -> torch.Tensor:
    return activation.new_empty((*activation.shape[:-1], rows))


def _setup(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    activation, qdata, scale, _, *form, bias = inputs
    keep_bias(ctx, bias)
    ctx.save_for_backward(qdata, scale)
    ctx.columns, ctx.form = activation.shape[-1], form


def _backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
    to_bias = bias_gradient(ctx, gradient)
    if not ctx.needs_input_grad[0]:
        return (*(None,) * 9, to_bias)
    qdata, scale = ctx.saved_tensors
    elem_dtype, block_size, is_swizzled = ctx.form[:3]
    if is_swizzled:
        kind = ELEMENTS[MXElementType(elem_dtype)].small
        scale = rows_of_blocks(qdata, scale, kind, block_size, is_swizzled)[1]
    args = (qdata.t(), scale.t(), ctx.columns, elem_dtype, block_size, False, "", "", None)
    return (mx_linear(gradient, *args), *(None,) * 8, to_bias)


torch.library.register_autograd("qconfig::mx_linear", _backward, setup_context=_setup)
