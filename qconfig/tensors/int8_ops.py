"""Arithmetic of `Int8Tensor`: linear, matrix products and embedding."""

from typing import Any

import torch

from qconfig.errors import UsageError
from qconfig.tensors.blockwise import dequantize_whole
from qconfig.tensors.dispatch import unsupported
from qconfig.tensors.int8 import Int8Tensor
from qconfig.tensors.int8_linear import int8_linear
from qconfig.tensors.int8_views import selected, shared_pre_scale, transposed

aten = torch.ops.aten
_table = Int8Tensor.operators


@_table.implements_torch(torch.nn.functional.linear)
def linear(
    input: torch.Tensor,  # noqa: A002
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return `input @ weight.T + bias` for an Int8Tensor weight.

    Args:
        input: (..., K) or (K,), floating point.
        weight: Int8Tensor (N, K).
        bias: (N,) or None.

    Raises:
        UnsupportedOperationError: the weight wants quantized activations, or is not the packed one.
        UsageError: shapes do not fit, or the activation is not floating point.
    """
    if not isinstance(weight, Int8Tensor) or isinstance(input, Int8Tensor):
        raise unsupported(Int8Tensor, "linear", "only its weight may be packed")
    return _times_transposed(input, weight, bias, "linear")


def _times_transposed(
    activation: torch.Tensor, weight: Int8Tensor, bias: torch.Tensor | None, name: Any
) -> torch.Tensor:
    if weight.act_quant_kwargs is not None:
        raise unsupported(
            type(weight),
            name,
            f"it has act_quant_kwargs={weight.act_quant_kwargs!s}; "
            "quantized activations are not implemented for this layout",
        )
    qdata = weight.qdata
    if qdata.dim() != 2 or not activation.dim() or activation.shape[-1] != qdata.shape[1]:
        raise UsageError(
            f"{name}: shapes of activation and weight do not fit",
            found=f"{tuple(activation.shape)} and {tuple(qdata.shape)}",
            expected="(..., K) and (N, K)",
        )
    if not activation.is_floating_point():
        raise UsageError(
            f"{name}: the activation is not floating point",
            found=activation.dtype,
            expected="float16, bfloat16, float32 or float64",
        )
    activation, bias = _autocast(activation, bias)
    factor = shared_pre_scale(weight)
    if factor is not None:
        activation = (activation * factor.reshape(-1)).to(activation.dtype)
    result = int8_linear(activation, qdata, weight.scale, weight.zero_point)
    return result if bias is None else result + bias


def _autocast(
    activation: torch.Tensor, bias: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor | None]:
    device = activation.device.type
    if not torch.is_autocast_enabled(device):
        return activation, bias
    dtype = torch.get_autocast_dtype(device)
    return activation.to(dtype), None if bias is None else bias.to(dtype)


@_table.implements(aten.linear.default)
def _linear(func: Any, args: Any, kwargs: Any) -> torch.Tensor:
    return linear(*args, **kwargs)


@_table.implements(aten.mm.default)
def _mm(func: Any, args: Any, kwargs: Any) -> torch.Tensor:
    left, right = args
    if isinstance(left, Int8Tensor) and isinstance(right, Int8Tensor):
        raise unsupported(Int8Tensor, func, "both operands are packed")
    if isinstance(left, Int8Tensor):
        flipped: torch.Tensor = right.t()
        result: torch.Tensor = _times_transposed(flipped, left, None, func).t()
        return result
    return _times_transposed(left, transposed(right, 0, 1), None, func)


@_table.implements(aten.mv.default)
def _mv(func: Any, args: Any, kwargs: Any) -> torch.Tensor:
    left, vector = args
    if not isinstance(left, Int8Tensor):
        raise unsupported(Int8Tensor, func, "only its first operand may be packed")
    return _times_transposed(vector, left, None, func)


@_table.implements(aten.addmm.default)
def _addmm(func: Any, args: Any, kwargs: Any) -> torch.Tensor:
    bias, left, right = args
    result: torch.Tensor = _mm(func, (left, right), {})
    beta, alpha = kwargs.get("beta", 1), kwargs.get("alpha", 1)
    scaled = result if alpha == 1 else result * alpha
    total: torch.Tensor = scaled + (bias if beta == 1 else bias * beta)
    return total


@_table.implements(aten.bmm.default)
def _bmm(func: Any, args: Any, kwargs: Any) -> torch.Tensor:
    left, right = args
    if isinstance(left, Int8Tensor):
        raise unsupported(Int8Tensor, func, "only its second operand may be packed")
    if right.qdata.dim() != 3 or left.dim() != 3 or left.shape[0] != right.qdata.shape[0]:
        raise UsageError(
            f"{func}: shapes do not fit",
            found=f"{tuple(left.shape)} and {tuple(right.qdata.shape)}",
            expected="(B, M, K) and (B, K, N)",
        )
    experts = transposed(right, 1, 2)
    parts = [
        _times_transposed(left[i], selected(experts, 0, i), None, func)
        for i in range(left.shape[0])
    ]
    return torch.stack(parts) if parts else left.new_zeros((0, left.shape[1], right.qdata.shape[2]))


@_table.implements(aten.embedding.default)
def _embedding(func: Any, args: Any, kwargs: Any) -> torch.Tensor:
    # padding_idx, scale_grad_by_freq and sparse steer a gradient that the weight does not have.
    weight, indices = args[0], args[1]
    if weight.act_pre_scale is not None:
        raise unsupported(type(weight), func, "it has act_pre_scale")
    rows = weight.qdata.shape[0]
    flat = indices.reshape(-1)
    codes = weight.qdata.index_select(0, flat)
    scale = _scale_rows(weight.scale, flat, rows)
    zero = None if weight.zero_point is None else _scale_rows(weight.zero_point, flat, rows)
    values = dequantize_whole(codes, scale, zero, weight.shown_dtype)
    return values.view(*indices.shape, weight.qdata.shape[1])


def _scale_rows(scale: torch.Tensor, indices: torch.Tensor, rows: int) -> torch.Tensor:
    if scale.shape[0] == rows:
        return scale.index_select(0, indices)
    return scale.index_select(0, indices // (rows // scale.shape[0]))


@_table.implements_torch(torch.nn.functional.embedding)
def _functional_embedding(  # noqa: PLR0917
    input: torch.Tensor,  # noqa: A002
    weight: torch.Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,  # noqa: FBT001, FBT002
    sparse: bool = False,  # noqa: FBT001, FBT002
) -> torch.Tensor:
    if max_norm is not None:
        raise unsupported(Int8Tensor, "embedding with max_norm", "it would change the weight")
    return torch.embedding(weight, input)
