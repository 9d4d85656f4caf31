"""Float8 codes and scales of a float tensor, bit for bit those of torchao 0.18.

For each block, in the tensor's own type: `scale = max(|x|) / m`, where m is the largest number of
the float8 type; then the scale becomes float32 and `q = clamp(x / scale, -m, m)` in float32,
rounded to the nearest code, halves to even (`_choose_scale_float8` and `_quantize_affine_float8` of
torchao 0.18). Where torchao has no number to divide by, this differs:

- a block of zeros has scale 1 and codes 0; torchao's scale is 0 and its codes are NaN;
- a float16 block whose quotient float16 rounds to zero takes the quotient in float32;
- a scale is at least 2**-126, the smallest normal float32.

float64, which torchao does not take, is rounded to float32 first.

Of the time, half is torch's conversion to float8, which takes one element at a time, and most of
the rest are passes over a few rows that stay in cache. Maxima of bfloat16 take four times as long
as those of float32, so they are found behind the conversion; float32 is read where it lies. Only
float16, whose smallest scales are coarse, needs the clamp: elsewhere rounding puts a quotient at
most 2**-8 above m, and the nearest code is that of m.
"""

from collections.abc import Iterator

import torch

from qconfig.layouts.blocks import scale_shape
from qconfig.tensors.slab_size import slab_elements
from qconfig.tensors.unquantizable import not_finite

_LEAST_SCALE = 2.0**-126
_WIDE = 16
_MOST = 1 << 20


def quantize_float8(
    weight: torch.Tensor,
    block_size: tuple[int, ...],
    dtype: torch.dtype = torch.float8_e4m3fn,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return float8 codes and float32 scales of a weight.

    Args:
        weight: float16, bfloat16, float32 or float64, (N, K) or (B, N, K), any strides; it is left
            as it is.
        block_size: elements that share a scale along each dimension; it tiles the weight.
        dtype: float8_e4m3fn or float8_e5m2.

    Returns:
        Codes, contiguous, of the weight's shape; and scales, float32, one entry a block.

    Raises:
        BuildError: the weight holds NaN or infinity; count and first index are named.
        LayoutError: the blocks do not tile the weight.
    """
    weight = weight.detach()
    shape = tuple(weight.shape)
    codes = torch.empty(shape, dtype=dtype, device=weight.device)
    scale = torch.empty(scale_shape(shape, block_size), dtype=torch.float32, device=weight.device)
    if weight.numel():
        _fill(weight, codes, scale, block_size, _buffer(weight, block_size[-1]))
        if not bool(scale.isfinite().all()):
            raise not_finite(weight)
    return codes, scale


def scale_of(
    largest: torch.Tensor,
    dtype: torch.dtype,
    bounds: tuple[float | None, float | None] = (None, None),
) -> torch.Tensor:
    """Return float32 scales for absolute maxima, in the type of the tensor they were found in.

    Args:
        largest: max(|x|) of each block, float16, bfloat16, float32 or float64.
        dtype: the float8 type.
        bounds: between which maxima are clamped first, each None for no bound.
    """
    if bounds != (None, None):
        largest = largest.clamp(*bounds)
    most = torch.finfo(dtype).max
    scale = (largest / most).to(torch.float32)
    if largest.dtype == torch.float16:
        scale = torch.where(scale == 0, largest.to(torch.float32) / most, scale)
    scale = torch.where(scale == 0, torch.ones_like(scale), scale)
    return scale.clamp_(min=_LEAST_SCALE)


def _fill(
    weight: torch.Tensor,
    codes: torch.Tensor,
    scale: torch.Tensor,
    block_size: tuple[int, ...],
    buffer: torch.Tensor,
) -> None:
    if weight.dim() == 2:
        _fill_matrix(weight, codes, scale, block_size, buffer)
        return
    size, inner = block_size[0], block_size[1:]
    for block in range(scale.shape[0]):
        experts = range(block * size, (block + 1) * size)
        if size == 1:
            _fill(weight[block], codes[block], scale[block], inner, buffer)
            continue
        found = [_maxima(weight[i], inner, buffer) for i in experts]
        scale[block] = scale_of(torch.stack(found).amax(0).to(weight.dtype), codes.dtype)
        for i in experts:
            _write(weight[i], codes[i], scale[block], buffer)


def _fill_matrix(
    weight: torch.Tensor,
    codes: torch.Tensor,
    scale: torch.Tensor,
    block_size: tuple[int, ...],
    buffer: torch.Tensor,
) -> None:
    rows, height = weight.shape[0], block_size[0]
    if height > buffer.shape[0]:
        scale.copy_(scale_of(_maxima(weight, block_size, buffer).to(weight.dtype), codes.dtype))
        _write(weight, codes, scale, buffer)
        return
    step = buffer.shape[0] // height * height
    for i in range(0, rows, step):
        part, blocks = slice(i, i + step), slice(i // height, (i + step) // height)
        tiles = _tiles(_loaded(weight[part], buffer), block_size)
        scale[blocks] = scale_of(_tile_maxima(tiles).to(weight.dtype), codes.dtype)
        _round(tiles, scale[blocks], codes[part], weight.dtype, buffer)


def _maxima(
    weight: torch.Tensor, block_size: tuple[int, ...], buffer: torch.Tensor
) -> torch.Tensor:
    """Return the absolute maxima of blocks, float32, each of which may exceed the buffer."""
    height, width = block_size
    result = torch.zeros(
        (weight.shape[0] // height, weight.shape[1] // width),
        dtype=torch.float32,
        device=weight.device,
    )
    for block, part in _parts(weight.shape[0], height, buffer.shape[0]):
        values = _loaded(weight[part], buffer)
        found = _tile_maxima(_tiles(values, (values.shape[0], width)))[0]
        torch.maximum(result[block], found, out=result[block])
    return result


def _write(
    weight: torch.Tensor, codes: torch.Tensor, scale: torch.Tensor, buffer: torch.Tensor
) -> None:
    height, width = (n // b for n, b in zip(weight.shape, scale.shape, strict=True))
    for block, part in _parts(weight.shape[0], height, buffer.shape[0]):
        values = _loaded(weight[part], buffer)
        tiles = _tiles(values, (values.shape[0], width))
        _round(tiles, scale[block : block + 1], codes[part], weight.dtype, buffer)


def _parts(rows: int, height: int, step: int) -> Iterator[tuple[int, slice]]:
    # A few rows of one block after others.
    for block in range(rows // height):
        first, stop = block * height, (block + 1) * height
        for i in range(first, stop, step):
            yield block, slice(i, min(i + step, stop))


def _loaded(rows: torch.Tensor, buffer: torch.Tensor) -> torch.Tensor:
    # Rows as float32, which may be the weight's own.
    if rows.dtype == torch.float32 and rows.stride(1) == 1:
        return rows
    return buffer[: rows.shape[0]].copy_(rows)


def _tiles(values: torch.Tensor, block_size: tuple[int, ...]) -> torch.Tensor:
    height, width = block_size
    rows, columns = values.shape
    return values.view(rows // height, height, columns // width, width)


def _tile_maxima(tiles: torch.Tensor) -> torch.Tensor:
    # Two passes without a temporary, along rows first: torch reduces such in vectors.
    if tiles.shape[3] == 1:
        return torch.maximum(-tiles.amin(1), tiles.amax(1)).squeeze(2)
    return torch.maximum(-tiles.amin(3).amin(1), tiles.amax(3).amax(1))


def _round(
    tiles: torch.Tensor,
    scale: torch.Tensor,
    codes: torch.Tensor,
    source: torch.dtype,
    buffer: torch.Tensor,
) -> None:
    blocks, groups = scale.shape
    values = buffer[: codes.shape[0]]
    quotients = values.view(tiles.shape)
    torch.div(tiles, scale.view(blocks, 1, groups, 1), out=quotients)
    if source == torch.float16:
        most = torch.finfo(codes.dtype).max
        values.clamp_(-most, most)
    codes.copy_(values)


def _buffer(weight: torch.Tensor, width: int) -> torch.Tensor:
    # Maxima and scales take as much again as the buffer where blocks are narrow, else little.
    columns = weight.shape[-1]
    elements = slab_elements(weight, 5 if width >= _WIDE else 8, most=_MOST)
    rows = min(max(1, elements // columns), weight.numel() // columns)
    return torch.empty((rows, columns), dtype=torch.float32, device=weight.device)
