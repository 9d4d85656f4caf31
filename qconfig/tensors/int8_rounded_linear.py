"""The product of int8 activations and weights, rounded where older torchao releases rounded it.

`int8_dynamic_linear` scales the exact integer sum in float32 and rounds once. Up to 0.17 torchao
worked in the activation's type; with `s_a` and `s_w` the scales of activation and weight, `p` the
exact sum of products of codes, `A` the activation's zero point and `W` the weight's codes,

- rounded_sum, Int8Tensor of 0.15 to 0.17: `t = round(p * s_a)` in the result's type, where there is
  a zero point less `round((A * s_a) * sum(W))`, then `t * s_w`;
- scale_type, AffineQuantizedTensor of 0.4 to 0.17: `t = round(p * s_a)` in the type of `s_a`, then
  `t * s_w`, and that in the result's type;
- values, AffineQuantizedTensor with asymmetric activations: `(a - A) * s_a`, rounded to the
  activation's type, times the weight's values in that type, a product of floating-point numbers.

`p` and what it is multiplied with have the type of `s_a`, or float32 where that is float16. A bias
is added to what the first two have rounded, and before the third is rounded. The first two give
torchao's bits; the third sums in another order than it does.

One operator, `qconfig::int8_rounded_linear`, stands in every graph; see `int8_linear`.
"""
# ruff: noqa: PLR0917 (the operator's schema is flat)

import torch

from qconfig.layouts.activation import Int8Product
from qconfig.tensors.blockwise import per_row
from qconfig.tensors.int8_gradient import register_gradient
from qconfig.tensors.int8_linear import product_with_values
from qconfig.tensors.int8_matmul import shifted_product
from qconfig.tensors.int8_rounded_activation import (
    ActivationForm,
    quantize_rounded,
    rounded_values,
)
from qconfig.tensors.linear_calls import empty_sums, needs_operator

_SLAB_ELEMENTS = 1 << 20


def int8_rounded_linear(
    activation: torch.Tensor,
    qdata: torch.Tensor,
    scale: torch.Tensor,
    zero_point: torch.Tensor | None,
    act_scale: torch.Tensor | None,
    act_zero_point: torch.Tensor | None,
    form: ActivationForm,
    product: Int8Product,
    dtype: torch.dtype,
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return `activation @ weight.T + bias`, the activation quantized to int8 first.

    Args:
        activation: (..., K), floating point.
        qdata: (N, K) int8 codes, any strides.
        scale: floating point, (N, 1) or (1, 1); for `values` any that divides (N, K).
        zero_point: int8, shaped like `scale`, or None.
        act_scale: static scale of the activation, one element or one for each row; None to choose
            scales.
        act_zero_point: static zero point, int8, shaped like `act_scale`, or None.
        form: how the activation is quantized.
        product: where the product is rounded.
        dtype: type of the result; `rounded_sum` rounds to it last, from the wider one of it and
            the scale's.
        bias: (N,), floating point, or None.

    Returns:
        (..., N); differentiable with respect to activation and bias.
    """
    function = _operator if needs_operator(activation, qdata, bias) else _product
    result: torch.Tensor = function(
        activation,
        qdata,
        scale,
        zero_point,
        act_scale,
        act_zero_point,
        form.per_token,
        form.asymmetric,
        form.reduce_range,
        form.least_code,
        form.least_scale,
        form.scale_dtype,
        product.value,
        dtype,
        bias,
    )
    return result


def _product(
    activation: torch.Tensor,
    qdata: torch.Tensor,
    scale: torch.Tensor,
    zero_point: torch.Tensor | None,
    act_scale: torch.Tensor | None,
    act_zero_point: torch.Tensor | None,
    per_token: bool,  # noqa: FBT001
    asymmetric: bool,  # noqa: FBT001
    reduce_range: bool,  # noqa: FBT001
    least_code: int,
    least_scale: float | None,
    scale_dtype: torch.dtype | None,
    product: str,
    dtype: torch.dtype,
    bias: torch.Tensor | None,
) -> torch.Tensor:
    form = ActivationForm(per_token, asymmetric, reduce_range, least_code, least_scale, scale_dtype)
    rows, columns = qdata.shape
    shape = (*activation.shape[:-1], rows)
    if not activation.numel() or not rows:
        return empty_sums(activation, rows, bias, dtype)
    flat = activation.reshape(-1, columns)
    if product == Int8Product.VALUES:
        seen = rounded_values(flat, form, act_scale, act_zero_point)
        return product_with_values(seen, qdata, scale, zero_point, bias).to(dtype).view(shape)
    codes, chosen, zero = quantize_rounded(flat, form, act_scale, act_zero_point)
    total, sums, shift = shifted_product(codes, qdata, sums=zero is not None)
    if sums is not None and shift:
        total.sub_(sums * shift)
    if zero_point is not None:
        centered = codes.sum(1, keepdim=True, dtype=torch.int64)
        if zero is not None:
            centered = centered - zero.long() * columns
        total = total.long().sub_(centered * per_row(zero_point, rows))
    rounded_sum = product == Int8Product.ROUNDED_SUM
    inner = dtype if rounded_sum else chosen.dtype
    result_type = torch.promote_types(dtype, scale.dtype) if rounded_sum else dtype
    result = torch.empty((flat.shape[0], rows), dtype=result_type, device=flat.device)
    step = max(1, _SLAB_ELEMENTS // rows)
    for start in range(0, flat.shape[0], step):
        part = slice(start, start + step)
        own = chosen if chosen.shape[0] == 1 else chosen[part]
        offset = None
        if zero is not None and sums is not None:
            offset = (zero if zero.shape[0] == 1 else zero[part]), sums
        result[part] = _scaled(total[part], own, offset, inner) * per_row(scale, rows)
    if bias is not None:
        result.add_(bias)
    return result.to(dtype).view(shape)


def _scaled(
    total: torch.Tensor,
    act_scale: torch.Tensor,
    offset: tuple[torch.Tensor, torch.Tensor] | None,
    inner: torch.dtype,
) -> torch.Tensor:
    """Return the integer sum times the activation's scale, less what its zero points add."""
    wide = torch.float32 if act_scale.dtype == torch.float16 else act_scale.dtype
    factor = act_scale.to(wide)
    scaled = (total.to(wide) * factor).to(inner)
    if offset is None:
        return scaled
    zero, sums = offset
    return scaled - ((zero.to(wide) * factor) * sums.to(wide)).to(inner)


_operator = torch.library.custom_op("qconfig::int8_rounded_linear", _product, mutates_args=())
register_gradient(_operator, "qconfig::int8_rounded_linear")
