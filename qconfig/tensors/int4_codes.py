"""Two int4 codes a byte: packed, unpacked, and turned into values a few rows at a time.

Codes are signed, -8 to 7, in two's complement; the even column lies in the low half of a byte. A
value is `q * scale + zero_point`, so the zero point is the value of code 0, a floating-point
number. It is computed in float32 (float64 for wider operands) and rounded once, or, as torchao's
AffineQuantizedTensor did, the product is rounded to the result's type before the sum is.

Halves of bytes are moved as 16-bit integers, for strided writes are slow: measured on 2 cores of a
Zen 4 EPYC, 4096 x 4096, all values take 4 ms where writing every other column takes 15 to 20.
"""

from collections.abc import Iterator

import torch

from qconfig.tensors.blockwise import rows_per_buffer

_EVERY_UPPER_HALF = -0x0F10  # 0xF0F0 as int16


def pack(codes: torch.Tensor) -> torch.Tensor:
    """Return codes two a byte.

    Args:
        codes: int8, -8 to 7, (..., K) with an even K.

    Returns:
        int8, (..., K/2).
    """
    return (codes[..., ::2] & 0x0F).bitwise_or_(codes[..., 1::2] << 4)


def unpack(qdata: torch.Tensor) -> torch.Tensor:
    """Return the codes of bytes.

    Args:
        qdata: int8, (..., K/2), any strides.

    Returns:
        int8, (..., K), contiguous.
    """
    low = torch.bitwise_left_shift(qdata, 4).bitwise_right_shift_(4)
    return torch.stack((low, torch.bitwise_right_shift(qdata, 4)), -1).flatten(-2)


def dequantize_whole(
    qdata: torch.Tensor,
    scale: torch.Tensor,
    zero_point: torch.Tensor,
    dtype: torch.dtype,
    *,
    rounds_products: bool = False,
) -> torch.Tensor:
    """Return all values in one expression, which a compiler can fuse.

    Args:
        qdata: int8, (..., N, K/2).
        scale: floating point, (..., N, K/g).
        zero_point: floating point, shaped like `scale`.
        dtype: floating-point type of the result.
        rounds_products: whether `q * scale` is rounded to `dtype`; torch.compile leaves out a
            rounding between two operations that it fuses.

    Returns:
        (..., N, K).
    """
    codes, wide = unpack(qdata), _wide(scale, zero_point, dtype)
    group = codes.shape[-1] // scale.shape[-1]
    groups = codes.to(wide).view(*scale.shape, group)
    products = groups * scale.to(wide).unsqueeze(-1)
    if rounds_products:
        products = products.to(dtype).to(wide)
    values = products + zero_point.to(wide).unsqueeze(-1)
    return values.flatten(-2).to(dtype)


def dequantize(
    qdata: torch.Tensor,
    scale: torch.Tensor,
    zero_point: torch.Tensor,
    dtype: torch.dtype,
    *,
    rounds_products: bool = False,
) -> torch.Tensor:
    """Return all values, with no temporary beyond a few rows; arguments as `dequantize_whole`."""
    plain = type(qdata) is torch.Tensor and qdata.device.type == "cpu"
    if not plain or torch.compiler.is_compiling() or not scale.numel():
        if not scale.numel():
            return scale.new_zeros((*qdata.shape[:-1], 2 * qdata.shape[-1]), dtype=dtype)
        return dequantize_whole(qdata, scale, zero_point, dtype, rounds_products=rounds_products)
    result = torch.empty((*qdata.shape[:-1], 2 * qdata.shape[-1]), dtype=dtype)
    matrices = qdata.flatten(0, -3) if qdata.dim() > 2 else qdata.unsqueeze(0)
    shape = (matrices.shape[0], *scale.shape[-2:])
    scales, zeros = scale.reshape(shape), zero_point.reshape(shape)
    for i, out in enumerate(result.view(matrices.shape[0], *result.shape[-2:])):
        slabs = value_slabs(
            matrices[i], scales[i], zeros[i], dtype, rounds_products=rounds_products
        )
        for rows, values in slabs:
            out[rows] = values
    return result


def value_slabs(
    qdata: torch.Tensor,
    scale: torch.Tensor,
    zero_point: torch.Tensor,
    dtype: torch.dtype,
    *,
    rounds_products: bool = False,
) -> Iterator[tuple[slice, torch.Tensor]]:
    """Yield the values of a few rows of a matrix after others, in a buffer that stays in cache.

    Args:
        qdata: int8, (N, K/2), any strides; neither N nor K is 0.
        scale: floating point, (N, K/g), any strides.
        zero_point: floating point, shaped like `scale`.
        dtype: floating-point type of the values.
        rounds_products: whether `q * scale` is rounded to `dtype`.

    Yields:
        Which rows, and their values, (R, K), contiguous, until the next are asked for.
    """
    (rows, half), groups = qdata.shape, scale.shape[1]
    wide, device = _wide(scale, zero_point, dtype), qdata.device
    step = rows_per_buffer(2 * half, 4, rows) if device.type == "cpu" else rows
    codes = torch.empty((step, 2 * half), dtype=torch.int8, device=device)
    spare = torch.empty((step, half), dtype=torch.int16, device=device)
    buffer = torch.empty((step, 2 * half), dtype=wide, device=device)
    result = buffer if wide == dtype else torch.empty_like(buffer, dtype=dtype)
    for start in range(0, rows, step):
        stop = min(start + step, rows)
        count = stop - start
        _unpack_shifted(qdata[start:stop], codes[:count], spare[:count])
        values = buffer[:count].copy_(codes[:count])
        grouped = values.view(count, groups, -1)
        grouped.mul_(scale[start:stop].to(wide).mul(2**-4).unsqueeze(-1))
        if rounds_products and wide != dtype:
            values.copy_(result[:count].copy_(values))
        grouped.add_(zero_point[start:stop].to(wide).unsqueeze(-1))
        yield slice(start, stop), values if wide == dtype else result[:count].copy_(values)


def _unpack_shifted(qdata: torch.Tensor, codes: torch.Tensor, spare: torch.Tensor) -> None:
    # Writes 16 times the codes: a code in the upper half of its byte has its sign already.
    pairs = codes.view(torch.int16)
    pairs.copy_(qdata.view(torch.uint8))
    torch.bitwise_left_shift(pairs, 8, out=spare)
    pairs.bitwise_left_shift_(4).bitwise_or_(spare).bitwise_and_(_EVERY_UPPER_HALF)


def _wide(scale: torch.Tensor, zero_point: torch.Tensor, dtype: torch.dtype) -> torch.dtype:
    kind = torch.promote_types(torch.promote_types(scale.dtype, zero_point.dtype), dtype)
    return torch.promote_types(kind, torch.float32)
