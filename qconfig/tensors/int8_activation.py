"""Activations as int8 codes, with scales chosen from them or known beforehand.

Scales and zero points are chosen from the extremes of a token, or of all of them, in the
activation's own type, see `qconfig.tensors.activation_qparams`. Then the scale becomes float32 and
`q = clamp(round(x * (1 / scale)) + zero_point, low, high)`, in the wider type of both, halves to
even: bit for bit as torchao 0.18 (`choose_qparams_affine` and `quantize_affine` as its Int8Tensor
calls them).
"""

import torch

from qconfig.configs.choices import MappingType
from qconfig.tensors.activation_qparams import choose_activation_qparams, code_range

_BUFFER_ELEMENTS = 1 << 20


def dynamic_qparams(
    activation: torch.Tensor, *, per_token: bool, asymmetric: bool, reduce_range: bool
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return scale and zero point for an activation.

    Args:
        activation: (M, K), floating point, not empty.
        per_token: whether each row has its own.
        asymmetric: whether there is a zero point.
        reduce_range: whether codes keep to 7 bits.

    Returns:
        The scale, float32, and the zero point, int8, or None; (M, 1) per token, else (1, 1). The
        scale of a row with a NaN is NaN, of one with an infinity infinite.
    """
    dims = (1,) if per_token else (0, 1)
    least, most = activation.amin(dims, keepdim=True), activation.amax(dims, keepdim=True)
    mapping = MappingType.ASYMMETRIC if asymmetric else MappingType.SYMMETRIC
    scale, zero_point = choose_activation_qparams(least, most, mapping, reduce_range=reduce_range)
    return scale.to(torch.float32), zero_point


def quantize_activation(
    activation: torch.Tensor,
    scale: torch.Tensor,
    zero_point: torch.Tensor | None,
    *,
    reduce_range: bool,
) -> torch.Tensor:
    """Return the codes of an activation.

    Args:
        activation: (M, K), floating point.
        scale: floating point, (M, 1), (1, 1) or (1, K).
        zero_point: int8, shaped like `scale`, or None.
        reduce_range: whether codes keep to 7 bits.

    Returns:
        (M, K), int8.
    """
    low, high = code_range(reduce_range=reduce_range)
    rows, columns = activation.shape
    factor = 1.0 / scale
    if factor.dtype == torch.float16 and bool(factor.isinf().any()):
        # Scales under 2**-16 have no reciprocal in float16.
        factor = 1.0 / scale.float()
    kind = torch.promote_types(activation.dtype, factor.dtype)
    codes = torch.empty((rows, columns), dtype=torch.int8, device=activation.device)
    step = max(1, _BUFFER_ELEMENTS // max(1, columns)) if activation.device.type == "cpu" else rows
    buffer = torch.empty((min(step, rows), columns), dtype=kind, device=activation.device)
    for start in range(0, rows, max(1, step)):
        stop = min(start + step, rows)
        values = buffer[: stop - start]
        values.copy_(activation[start:stop])
        values.mul_(_rows(factor, start, stop)).round_()
        if zero_point is not None:
            values.add_(_rows(zero_point, start, stop))
        codes[start:stop] = values.clamp_(low, high)
    return codes


def dequantize_activation(
    codes: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor | None, dtype: torch.dtype
) -> torch.Tensor:
    """Return `(codes - zero_point) * scale`, (M, K), in a floating-point type."""
    values = codes.to(dtype)
    if zero_point is not None:
        values.sub_(zero_point)
    return values.mul_(scale)


def is_per_row(act_scale: torch.Tensor) -> bool:
    """Return whether a static scale, (M, 1), has an entry for each row of a batch."""
    return act_scale.dim() > 1 and act_scale.shape[-1] == 1 and act_scale.numel() > 1


def _rows(values: torch.Tensor, start: int, stop: int) -> torch.Tensor:
    return values if values.shape[0] == 1 else values[start:stop]
