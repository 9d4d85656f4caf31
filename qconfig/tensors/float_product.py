"""The product of activations with values of a few rows of a weight, the same for all families."""
# ruff: noqa: SLF001 (torch's product in its own threads has an underscored name)

from collections.abc import Iterable

import torch

_HAS_ONEDNN = hasattr(torch.ops.mkldnn, "_linear_pointwise")
# Up to so many rows of bfloat16 the float32 product is the faster one: measured on a Zen 4 EPYC.
_FLOAT32_ROWS = 4
# Between so many rows of bfloat16 a product of a part of the weight is 15 % faster the other way
# around: measured on a Zen 4 EPYC.
_TURNED_ROWS = range(32, 129)


def product_of_parts(
    flat: torch.Tensor,
    rows: int,
    parts: Iterable[tuple[slice, torch.Tensor]],
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return `flat @ weight.T + bias` for a weight whose values come a few rows at a time.

    Sums of 16 bits are rounded once, bias included, unless the bias has a wider type.

    Args:
        flat: (M, K), floating point, contiguous.
        rows: N.
        parts: which rows, and their values, (R, K), the same type; they may lie in one buffer.
        bias: (N,), floating point, or None.

    Returns:
        (M, N), the same type, contiguous.
    """
    if bias is not None and _is_added_last(bias, flat):
        return product_of_parts(flat, rows, parts).add_(bias)
    bias = None if bias is None else bias.to(flat.dtype)
    if (
        flat.dtype != torch.bfloat16
        or flat.device.type != "cpu"
        or flat.shape[0] not in _TURNED_ROWS
    ):
        result = flat.new_empty((flat.shape[0], rows))
        for part, values in parts:
            result[:, part] = times_transposed(flat, values, None if bias is None else bias[part])
        return result
    turned = flat.new_empty((rows, flat.shape[0]))
    right = flat.t()
    for part, values in parts:
        if bias is None:
            torch.mm(values, right, out=turned[part])
        else:
            torch.addmm(bias[part].unsqueeze(1), values, right, out=turned[part])
    return turned.t().contiguous()


def times_transposed(
    flat: torch.Tensor, part: torch.Tensor, bias: torch.Tensor | None = None
) -> torch.Tensor:
    """Return `flat @ part.T + bias`.

    Args:
        flat: (M, K), floating point.
        part: (R, K), the same type.
        bias: (R,), floating point, or None; rounded as in `product_of_parts`.

    Returns:
        (M, R), the same type.
    """
    if bias is not None:
        if _is_added_last(bias, flat):
            return times_transposed(flat, part).add_(bias)
        return torch.addmm(bias.to(flat.dtype), flat, part.t())
    if _HAS_ONEDNN and flat.dtype == torch.float32 and flat.device.type == "cpu":
        # mm would go to MKL, whose threads wait for torch's, which have just filled `part` and
        # spin; oneDNN computes in torch's own threads.
        product: torch.Tensor = torch.ops.mkldnn._linear_pointwise(flat, part, None, "none", [], "")
        return product
    return torch.mm(flat, part.t())


def scaled(
    result: torch.Tensor, factor: torch.Tensor, bias: torch.Tensor | None = None
) -> torch.Tensor:
    """Return `result * factor + bias`, 16 bits of it computed in float32 and rounded once.

    Args:
        result: (M, N), floating point; it is overwritten.
        factor: floating point, (N,), (M, 1) or (1, 1).
        bias: (N,), floating point, or None.
    """
    if bias is None:
        return torch.mul(result, factor, out=result)
    if result.itemsize > 2:
        return result.mul_(factor).add_(bias)
    return torch.addcmul(bias, result, factor, out=result)


def product_type(flat: torch.Tensor) -> torch.dtype:
    """Return the type in which activations (M, K) are multiplied.

    On CPUs products of float16 are slow, and those of bfloat16 with few rows: both take float32.
    """
    if flat.device.type != "cpu" or flat.dtype not in {torch.bfloat16, torch.float16}:
        return flat.dtype
    if flat.dtype == torch.float16 or flat.shape[0] <= _FLOAT32_ROWS:
        return torch.float32
    return flat.dtype


def _is_added_last(bias: torch.Tensor, flat: torch.Tensor) -> bool:
    # Only sums of 16 bits lose by a rounding more. A wider bias is not rounded before it is added.
    return flat.itemsize > 2 or torch.promote_types(bias.dtype, flat.dtype) != flat.dtype
