"""Activations and outputs quantized to float8 on their way through a product."""

from typing import Any

import torch
from attrs import frozen

from qconfig.tensors.float8_quantize import scale_of
from qconfig.tensors.row_slabs import check_blocks_divide

Bounds = tuple[float | None, float | None]


@frozen
class Format:
    """How a matrix of activations is quantized.

    Args:
        dtype: the float8 type.
        group: elements of a row that share a scale: 0 for all rows together, None for a whole row.
        bounds: between which absolute maxima are clamped before scales are made of them.
    """

    dtype: torch.dtype
    group: int | None
    bounds: Bounds = (None, None)


def quantize_rows(
    flat: torch.Tensor, form: Format, static: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return float8 codes and float32 scales of a matrix, as torchao 0.18 does.

    Scales of zeros are 1, where torchao divides by zero, see `float8_quantize`. A value that is not
    finite makes its block NaN.

    Args:
        flat: (M, K), floating point, at least one element.
        form: dtype, groups and bounds.
        static: the scale, one element, or None to find scales.

    Returns:
        Codes, (M, K), and scales: (1, 1), (M, 1) or (M, K/g).

    Raises:
        UsageError: groups do not divide K.
    """
    rows, columns = flat.shape
    group = columns if form.group in (0, None) else form.group
    check_blocks_divide(columns, group or 1)
    wide = flat.to(torch.float32)
    if static is not None:
        scale = static.reshape(1, 1).to(torch.float32)
    else:
        blocks = wide.reshape(1, -1) if form.group == 0 else wide.view(rows, -1, group or 1)
        largest = torch.maximum(blocks.amax(-1), -blocks.amin(-1)).to(flat.dtype)
        scale = scale_of(largest.view(1 if form.group == 0 else rows, -1), form.dtype, form.bounds)
    most = torch.finfo(form.dtype).max
    scaled = wide.view(rows, -1, group or 1) / scale.unsqueeze(-1)
    return scaled.clamp_(-most, most).view(rows, columns).to(form.dtype), scale


def round_trip(values: torch.Tensor, form: Format, static: torch.Tensor | None) -> torch.Tensor:
    """Return values quantized and dequantized, (..., K), float32.

    Arguments are those of `quantize_rows`, but for the number of dimensions. The gradient passes as
    if nothing had been rounded.
    """
    low, high = form.bounds
    result: torch.Tensor = _operator(values, static, form.dtype, form.group, low, high)
    return result


@torch.library.custom_op("qconfig::float8_round_trip", mutates_args=())
def _operator(  # noqa: PLR0917
    values: torch.Tensor,
    static: torch.Tensor | None,
    dtype: torch.dtype,
    group: int | None,
    low: float | None,
    high: float | None,
) -> torch.Tensor:
    if not values.numel():
        return values.new_empty(values.shape, dtype=torch.float32)
    flat = values.reshape(-1, values.shape[-1])
    codes, scale = quantize_rows(flat, Format(dtype, group, (low, high)), static)
    wide = codes.to(torch.float32)
    scaled = wide.view(flat.shape[0], scale.shape[1], -1) * scale.unsqueeze(-1)
    return scaled.view(values.shape)


@_operator.register_fake
def _fake(  # noqa: PLR0917
    values: torch.Tensor,
    static: torch.Tensor | None,
    dtype: torch.dtype,
    group: int | None,
    low: float | None,
    high: float | None,
) -> torch.Tensor:
    return values.new_empty(values.shape, dtype=torch.float32)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    ctx.dtype = inputs[0].dtype


def _backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    return gradient.to(ctx.dtype), None, None, None, None, None


torch.library.register_autograd("qconfig::float8_round_trip", _backward, setup_context=_setup)
