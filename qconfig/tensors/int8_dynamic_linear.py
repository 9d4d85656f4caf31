"""The product of activations that are quantized to int8 on the way in and int8 weights.

With `a` the activation's codes, `w` the weight's, `A` and `W` their zero points, `s` the scales,

    y[m, n] = sum over k of (a[m, k] - A[m]) * (w[n, k] - W[n]) * s_a[m] * s_w[n]

Codes are multiplied as integers (`int8_matmul`) and zero points taken off as integers, exactly;
only that is scaled and takes the bias, in float32, and is rounded once to the activation's type.
Where the weight has groups, or the activation a scale for each input channel, there is no common
factor to take out: then `a - A`, exact in float32, is multiplied by the weight's values and summed
in float32.

One operator, `qconfig::int8_dynamic_linear`, stands in every graph; see `int8_linear`. Its gradient
is that of the product with the activation as it came, as if it had not been rounded.
"""

from collections.abc import Callable

import torch

from qconfig.tensors.blockwise import per_row
from qconfig.tensors.float_product import scaled
from qconfig.tensors.int8_activation import (
    dequantize_activation,
    dynamic_qparams,
    is_per_row,
    quantize_activation,
)
from qconfig.tensors.int8_gradient import register_gradient
from qconfig.tensors.int8_linear import int8_linear
from qconfig.tensors.int8_matmul import shifted_product
from qconfig.tensors.linear_calls import empty_sums, needs_operator

_LONGEST_IN_INT32 = ((1 << 31) - 1) // 255**2
_SLAB_ELEMENTS = 1 << 20


def int8_dynamic_linear(  # noqa: PLR0917
    activation: torch.Tensor,
    qdata: torch.Tensor,
    scale: torch.Tensor,
    zero_point: torch.Tensor | None,
    act_scale: torch.Tensor | None,
    act_zero_point: torch.Tensor | None,
    per_token: bool,  # noqa: FBT001
    asymmetric: bool,  # noqa: FBT001
    reduce_range: bool,  # noqa: FBT001
    dtype: torch.dtype,
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return `activation @ weight.T + bias`, the activation quantized to int8 first.

    Args:
        activation: (..., K), floating point.
        qdata: (N, K) int8 codes, any strides.
        scale: floating point, (N, 1), (1, 1), (N, K/g) or any other that divides (N, K).
        zero_point: int8, shaped like `scale`, or None.
        act_scale: static scale, floating point, of 1 or K elements, or (M, 1) for M rows; None to
            choose it.
        act_zero_point: static zero point, int8, shaped like `act_scale`, or None.
        per_token: whether each vector of K activations gets its own scale; if static, unused.
        asymmetric: whether a zero point is chosen, too; if static, unused.
        reduce_range: whether codes of activations keep to 7 bits.
        dtype: type of the result.
        bias: (N,), floating point, or None.

    Returns:
        (..., N); differentiable with respect to activation and bias.
    """
    function: Callable[..., torch.Tensor] = _product
    if needs_operator(activation, qdata, bias):
        function = _operator
    return function(
        activation,
        qdata,
        scale,
        zero_point,
        act_scale,
        act_zero_point,
        per_token,
        asymmetric,
        reduce_range,
        dtype,
        bias,
    )


def quantized_activation(  # noqa: PLR0917
    flat: torch.Tensor,
    act_scale: torch.Tensor | None,
    act_zero_point: torch.Tensor | None,
    per_token: bool,  # noqa: FBT001
    asymmetric: bool,  # noqa: FBT001
    reduce_range: bool,  # noqa: FBT001
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Return codes (M, K), scale and zero point of activations (M, K); M and K are not 0.

    The scale is (M, 1), (1, 1), (1, K) or (M, K), the zero point (M, 1), (1, 1) or (1, K).
    """
    if act_scale is None:
        chosen, zero = dynamic_qparams(
            flat, per_token=per_token, asymmetric=asymmetric, reduce_range=reduce_range
        )
        return quantize_activation(flat, chosen, zero, reduce_range=reduce_range), chosen, zero
    shape = (-1, 1) if is_per_row(act_scale) else (1, -1)
    chosen = act_scale.reshape(shape)
    zero = None if act_zero_point is None else act_zero_point.reshape(shape)
    codes = quantize_activation(flat, chosen, zero, reduce_range=reduce_range)
    # A NaN has no code: it makes its row NaN, as in a product of floats.
    lost = flat.amax(1, keepdim=True).isnan()
    if lost.device.type != "cpu" or bool(lost.any()):  # asking another device would wait for it
        chosen = torch.where(lost, float("nan"), chosen)
    return codes, chosen, zero


def _product(  # noqa: PLR0917
    activation: torch.Tensor,
    qdata: torch.Tensor,
    scale: torch.Tensor,
    zero_point: torch.Tensor | None,
    act_scale: torch.Tensor | None,
    act_zero_point: torch.Tensor | None,
    per_token: bool,  # noqa: FBT001
    asymmetric: bool,  # noqa: FBT001
    reduce_range: bool,  # noqa: FBT001
    dtype: torch.dtype,
    bias: torch.Tensor | None,
) -> torch.Tensor:
    rows, columns = qdata.shape
    if not activation.numel() or not rows:
        return empty_sums(activation, rows, bias, dtype)
    flat = activation.reshape(-1, columns)
    codes, factor, zero = quantized_activation(
        flat, act_scale, act_zero_point, per_token, asymmetric, reduce_range
    )
    kind = torch.promote_types(torch.promote_types(activation.dtype, dtype), torch.float32)
    if scale.shape[1] == 1 and factor.shape[1] == 1:
        weight_zero = None if zero_point is None else per_row(zero_point, rows)
        result = _from_integers(
            codes, qdata, factor, zero, per_row(scale, rows), weight_zero, bias, kind, dtype
        )
    else:
        common = factor.shape[1] == 1
        one = factor.new_ones((1, 1)) if common else factor
        seen = dequantize_activation(codes, one, zero, kind)
        result = int8_linear(seen, qdata, scale.to(kind), zero_point)
        if common:
            result.mul_(factor)
        result = (result if bias is None else result.add_(bias)).to(dtype)
    return result.view(*activation.shape[:-1], rows)


def _from_integers(  # noqa: PLR0917
    codes: torch.Tensor,
    qdata: torch.Tensor,
    act_scale: torch.Tensor,
    act_zero: torch.Tensor | None,
    scale: torch.Tensor,
    zero: torch.Tensor | None,
    bias: torch.Tensor | None,
    kind: torch.dtype,
    dtype: torch.dtype,
) -> torch.Tensor:
    total, sums, shift = shifted_product(codes, qdata, sums=act_zero is not None)
    offset: torch.Tensor | None = None
    if sums is not None and (shift or act_zero is not None):
        # What is left of the activation's zero points: (M, 1) or (1, 1).
        offset = torch.full((1, 1), shift, dtype=torch.int32, device=codes.device)
        if act_zero is not None:
            offset = offset + act_zero
    if (act_zero is not None or zero is not None) and qdata.shape[1] > _LONGEST_IN_INT32:
        total = total.long()
    centered: torch.Tensor | None = None
    if zero is not None:
        centered = codes.sum(1, keepdim=True, dtype=torch.int64)
        if act_zero is not None:
            centered = centered - act_zero.long() * codes.shape[1]
    result = torch.empty(total.shape, dtype=dtype, device=codes.device)
    step = max(1, _SLAB_ELEMENTS // total.shape[1])
    act_scale, scale = act_scale.to(kind), scale.to(kind)
    for start in range(0, total.shape[0], step):
        rows = slice(start, start + step)
        part = total[rows]
        if offset is not None and sums is not None:
            part.sub_(_cut(offset, rows).to(part.dtype) * sums.to(part.dtype))
        if centered is not None and zero is not None:
            part.sub_((centered[rows] * zero).to(part.dtype))
        out = result[rows]
        values = out.copy_(part) if dtype == kind else part.to(kind)
        # The weight's scale first: activations may be so large that the other order overflows.
        values = scaled(values.mul_(scale), _cut(act_scale, rows), bias)
        if dtype != kind:
            out.copy_(values)
    return result


def _cut(values: torch.Tensor, rows: slice) -> torch.Tensor:
    return values if values.shape[0] == 1 else values[rows]


_operator = torch.library.custom_op("qconfig::int8_dynamic_linear", _product, mutates_args=())
register_gradient(_operator, "qconfig::int8_dynamic_linear")
