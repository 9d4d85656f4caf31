"""Arithmetic of packed weights: linear, matrix products and embedding, for all families alike."""

from typing import TYPE_CHECKING, Any

import torch

from qconfig.errors import UsageError
from qconfig.tensors.common_ops import is_packed
from qconfig.tensors.dispatch import unsupported
from qconfig.tensors.geometry import flipped_field
from qconfig.tensors.matrix_cuts import rows_taken
from qconfig.tensors.matrix_table import MATRIX
from qconfig.tensors.matrix_views import selected, transposed

if TYPE_CHECKING:
    from qconfig.tensors.matrix import MatrixTensor

aten = torch.ops.aten


@MATRIX.implements_torch(torch.nn.functional.linear)
def linear(
    input: torch.Tensor,  # noqa: A002
    weight: "MatrixTensor",
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return `input @ weight.T + bias` for a packed weight.

    Args:
        input: (..., K) or (K,), floating point.
        weight: packed, (N, K).
        bias: (N,) or None.

    Raises:
        UnsupportedOperationError: something else than the weight is packed.
        UsageError: shapes do not fit, or the activation is not floating point.
    """
    if not is_packed(weight) or is_packed(input) or is_packed(bias):
        packed = next(t for t in (weight, input, bias) if is_packed(t))
        raise unsupported(type(packed), "linear", "only its weight may be packed")
    return times_transposed(input, weight, bias, "linear")


def times_transposed(
    activation: torch.Tensor, weight: "MatrixTensor", bias: torch.Tensor | None, name: Any
) -> torch.Tensor:
    """Return `activation @ weight.T + bias`, after checks and autocast.

    Raises:
        UsageError: shapes do not fit, or the activation is not floating point of 16 bits or more.
        UnsupportedOperationError: the weight carries scales for its other dimension.
    """
    shape = weight.logical_shape
    if len(shape) != 2 or not activation.dim() or activation.shape[-1] != shape[1]:
        raise UsageError(
            f"{name}: shapes of activation and weight do not fit",
            found=f"{tuple(activation.shape)} and {tuple(shape)}",
            expected="(..., K) and (N, K)",
        )
    if not activation.is_floating_point() or activation.itemsize == 1:
        raise UsageError(
            f"{name}: the activation is not floating point",
            found=activation.dtype,
            expected="float16, bfloat16, float32 or float64",
        )
    if bias is not None and (bias.dim() > 1 or (bias.numel() != 1 and bias.numel() != shape[0])):
        raise UsageError(
            f"{name}: the bias does not fit the weight",
            found=tuple(bias.shape),
            expected=f"(N,) = ({shape[0]},)",
        )
    flipped = flipped_field(weight)
    if flipped is not None:
        reason = f"it is transposed and has {flipped}, which belongs to the other dimension"
        raise unsupported(type(weight), name, reason)
    activation, bias = autocast_operands(activation, bias)
    if bias is not None and bias.shape != shape[:1]:
        bias = bias.expand(shape[0])
    result = weight.linear(activation, bias)
    # A bias of a wider type does not make the result wider.
    return result if result.dtype == activation.dtype else result.to(activation.dtype)


def autocast_operands(
    activation: torch.Tensor, bias: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return an activation and a bias in the type that autocast asks for, if it is on."""
    device = activation.device.type
    if device == "meta" or not torch.is_autocast_enabled(device):
        return activation, bias
    dtype = torch.get_autocast_dtype(device)
    return activation.to(dtype), None if bias is None else bias.to(dtype)


@MATRIX.implements(aten.linear.default)
def _linear(func: Any, args: Any, kwargs: Any) -> torch.Tensor:
    return linear(*args, **kwargs)


@MATRIX.implements(aten.mm.default)
def _mm(func: Any, args: Any, kwargs: Any) -> torch.Tensor:
    left, right = args
    if is_packed(left) and is_packed(right):
        raise unsupported(type(left), func, "both operands are packed")
    if is_packed(left):
        flipped: torch.Tensor = right.t()
        result: torch.Tensor = times_transposed(flipped, left, None, func).t()
        return result
    return times_transposed(left, transposed(right, 0, 1), None, func)


@MATRIX.implements(aten.mv.default)
def _mv(func: Any, args: Any, kwargs: Any) -> torch.Tensor:
    left, vector = args
    if not is_packed(left):
        raise unsupported(type(vector), func, "only its first operand may be packed")
    return times_transposed(vector, left, None, func)


@MATRIX.implements(aten.addmm.default)
def _addmm(func: Any, args: Any, kwargs: Any) -> torch.Tensor:
    bias, left, right = args
    beta, alpha = kwargs.get("beta", 1), kwargs.get("alpha", 1)
    if alpha == beta == 1 and bias.dim() == 1 and not is_packed(left):
        # Before the output is quantized, if it is.
        return times_transposed(left, transposed(right, 0, 1), bias, func)
    result: torch.Tensor = _mm(func, (left, right), {})
    scaled = result if alpha == 1 else result * alpha
    total: torch.Tensor = scaled + (bias if beta == 1 else bias * beta)
    return total


@MATRIX.implements(aten.bmm.default)
def _bmm(func: Any, args: Any, kwargs: Any) -> torch.Tensor:
    left, right = args
    if is_packed(left):
        raise unsupported(type(left), func, "only its second operand may be packed")
    if right.dim() != 3 or left.dim() != 3 or left.shape[0] != right.shape[0]:
        raise UsageError(
            f"{func}: shapes do not fit",
            found=f"{tuple(left.shape)} and {tuple(right.shape)}",
            expected="(B, M, K) and (B, K, N)",
        )
    experts = transposed(right, 1, 2)
    parts = [
        times_transposed(left[i], selected(experts, 0, i), None, func) for i in range(left.shape[0])
    ]
    return torch.stack(parts) if parts else left.new_zeros((0, left.shape[1], right.shape[2]))


@MATRIX.implements(aten.embedding.default)
def _embedding(func: Any, args: Any, kwargs: Any) -> torch.Tensor:
    # padding_idx, scale_grad_by_freq and sparse steer a gradient that the weight does not have.
    weight, indices = args[0], args[1]
    if getattr(weight, "act_pre_scale", None) is not None:
        raise unsupported(type(weight), func, "it has act_pre_scale")
    if weight.dim() != 2:
        raise UsageError(f"{func}: the weight is not a matrix", found=tuple(weight.shape))
    values = rows_taken(weight, indices.reshape(-1)).dequantize()
    return values.view(*indices.shape, weight.shape[1])


@MATRIX.implements_torch(torch.nn.functional.embedding)
def _functional_embedding(  # noqa: PLR0917
    input: torch.Tensor,  # noqa: A002
    weight: "MatrixTensor",
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,  # noqa: FBT001, FBT002
    sparse: bool = False,  # noqa: FBT001, FBT002
) -> torch.Tensor:
    rows = weight.shape[0]
    if padding_idx is not None and not -rows <= padding_idx < rows:
        raise UsageError(
            "embedding: padding_idx is not a row of the weight",
            found=padding_idx,
            expected=f"-{rows} to {rows - 1}",
        )
    values = torch.embedding(weight, input)
    return values if max_norm is None else _renormalized(values, max_norm, norm_type)


def _renormalized(values: torch.Tensor, max_norm: float, norm_type: float) -> torch.Tensor:
    # torch writes the shortened rows back into the weight; the values it returns are these.
    norm = values.float().norm(norm_type, dim=-1, keepdim=True)
    factor = torch.where(norm > max_norm, max_norm / (norm + 1e-7), torch.ones_like(norm))
    return (values * factor).to(values.dtype)
