"""Values of codes with a scale for each block of a row, and the product with such weights."""
# ruff: noqa: PLR0917 (what a block needs)

from collections.abc import Iterator

import torch

from qconfig.layouts.block_scaled import block_dimension
from qconfig.tensors.blockwise import rows_per_buffer
from qconfig.tensors.float8_codes import code_step, write_codes
from qconfig.tensors.float_product import product_of_parts
from qconfig.tensors.small_floats import (
    E2M1,
    SmallFloat,
    decoded,
    decoded_pairs,
    pairs_table,
    values_table,
)
from qconfig.tensors.swizzle import unswizzled

SWIZZLED = "its scales lie in tiles, which belong to no row (is_swizzled_scales)"
"""Why tensors with such scales have no views."""
_WHOLE_BYTES = 4 << 20
_STEP_BYTES = 8
_LARGE_BATCH = 128
_PIECES_OF_LARGE_BATCHES = 4
_VECTOR = 32  # 2-byte numbers in a vector of AVX-512


def rows_of_blocks(
    qdata: torch.Tensor,
    scale: torch.Tensor,
    kind: SmallFloat | None,
    block_size: int,
    is_swizzled: bool,  # noqa: FBT001
) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Return codes and scales with the blocks along the last dimension, and where they were.

    Args:
        qdata: codes, any rank, blocks along any dimension.
        scale: a scale a block, or tiles of them.
        kind: type of the codes, or None for one of torch's.
        block_size: elements of a block.
        is_swizzled: whether scales lie in tiles.
    """
    shape, per_byte = tuple(qdata.shape), 2 if kind == E2M1 else 1
    if is_swizzled:
        blocks = shape[-1] * per_byte // block_size
        return qdata, unswizzled(scale, (*shape[:-1], blocks)), len(shape) - 1
    dim = block_dimension(shape, tuple(scale.shape), block_size, per_byte)
    return qdata.movedim(dim, -1), scale.movedim(dim, -1), dim


def values_of(
    qdata: torch.Tensor, factor: torch.Tensor, kind: SmallFloat | None, dtype: torch.dtype
) -> torch.Tensor:
    """Return codes times their block's factor, computed in `dtype`.

    Args:
        qdata: codes, (..., K) or (..., K/2) bytes of E2M1.
        factor: (..., K/block), any floating-point type.
        kind: type of the codes, or None for one of torch's.
        dtype: bfloat16, float16, float32, or float64.
    """
    blocks = max(factor.shape[-1], 1)
    block_size = qdata.shape[-1] * (2 if kind == E2M1 else 1) // blocks
    work = _work_type(dtype, block_size)
    values = decoded_pairs(qdata, work) if kind == E2M1 else decoded(qdata, kind, work)
    values.view(*factor.shape, block_size).mul_(factor.to(work).unsqueeze(-1))
    return values.to(dtype)


def _work_type(dtype: torch.dtype, block_size: int) -> torch.dtype:
    # Short rows of 2-byte numbers are multiplied one by one; float32 has vectors for 16.
    direct = dtype == torch.float32 or (dtype.itemsize == 2 and block_size >= _VECTOR)
    return dtype if direct else torch.float32


class _Decoder:
    """Computes what `values_of` does for some rows after others, in buffers of its own.

    Memory that is taken anew for each part costs more than the work, where the system clears it.

    Args:
        codes: (N, K) or (N, K/2), as in `values_of`.
        factor: (N, K/block).
        kind: type of the codes, or None for one of torch's.
        dtype: what is computed in.
        result: to what values are rounded.
        rows: at most so many at a time.
    """

    def __init__(
        self,
        codes: torch.Tensor,
        factor: torch.Tensor,
        kind: SmallFloat | None,
        dtype: torch.dtype,
        result: torch.dtype,
        rows: int,
    ) -> None:
        pairs = kind == E2M1
        blocks, columns = factor.shape[1], codes.shape[1] * (2 if pairs else 1)
        work, device = _work_type(dtype, columns // max(blocks, 1)), codes.device
        self._codes = codes.view(torch.uint8)
        self._factor = factor.to(work).unsqueeze(-1)
        self._table = (
            pairs_table(work, device) if pairs else values_table(kind, codes.dtype, work, device)
        )
        self._index = torch.empty((rows, codes.shape[1]), dtype=torch.int32, device=device)
        self._values = None
        if work != result:
            self._values = torch.empty((rows, columns), dtype=work, device=device)

    def write(self, result: torch.Tensor, start: int) -> None:
        """Write the values of rows from `start` on, as many as `result` has; it is contiguous."""
        size = result.shape[0]
        factor = self._factor[start : start + size]
        index = self._index[:size].copy_(self._codes[start : start + size])
        values = result if self._values is None else self._values[:size]
        found = values.view(self._table.dtype).view(-1)
        torch.index_select(self._table, 0, index.view(-1), out=found)
        values.view(size, factor.shape[1], -1).mul_(factor)
        if values is not result:
            result.copy_(values)


def dequantize(
    qdata: torch.Tensor,
    scale: torch.Tensor,
    kind: SmallFloat | None,
    block_size: int,
    dtype: torch.dtype,
    *,
    second: torch.Tensor | None = None,
    product_dtype: torch.dtype | None = None,
    is_swizzled: bool = False,
) -> torch.Tensor:
    """Return `code * (second * scale)` in float32, rounded to `dtype`.

    bfloat16 holds a code times a power of two exactly, so that it is computed in directly.

    Args:
        qdata: codes, any rank, blocks along any dimension.
        scale: a scale a block, float8.
        kind: type of the codes, or None for one of torch's.
        block_size: elements of a block.
        dtype: floating-point type of the result.
        second: one more scale: one entry, or one for each matrix, (B, 1, 1).
        product_dtype: type that `second`, and then its product with a scale, is rounded to; or
            None.
        is_swizzled: whether scales lie in tiles.
    """
    codes, scales, dim = rows_of_blocks(qdata, scale, kind, block_size, is_swizzled)
    direct = dtype == torch.bfloat16 and scale.dtype == torch.float8_e8m0fnu
    work = dtype if direct else torch.float32
    factor = scales.to(work)
    if second is not None:
        factor = _scaled(factor, second, product_dtype)
    shape = (*codes.shape[:-1], codes.shape[-1] * (2 if kind == E2M1 else 1))
    small = qdata.device.type != "cpu" or codes.numel() * 4 <= _WHOLE_BYTES
    if small or type(qdata) is not torch.Tensor or torch.compiler.is_compiling():
        result = values_of(codes, factor, kind, work).to(dtype)
    else:
        result = torch.empty(shape, dtype=dtype)
        columns = shape[-1]
        flat_codes, flat = codes.flatten(0, -2), result.view(-1, columns)
        flat_factor = factor.flatten(0, -2)
        step = rows_per_buffer(columns, _STEP_BYTES, flat.shape[0])
        decoder = _Decoder(flat_codes, flat_factor, kind, work, dtype, step)
        for start in range(0, flat.shape[0], step):
            decoder.write(flat[start : start + step], start)
    return result.movedim(-1, dim)


def product(
    flat: torch.Tensor,
    qdata: torch.Tensor,
    scale: torch.Tensor,
    kind: SmallFloat | None,
    block_size: int,
    rows: int,
    *,
    is_swizzled: bool = False,
    second: torch.Tensor | None = None,
    product_dtype: torch.dtype | None = None,
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return `flat @ weight.T + bias`; the weight's values lie in cache, a few rows at a time.

    Codes times their scale are exact in bfloat16: 4 bits or less, and 4 of an e4m3 scale.

    Args:
        flat: (M, K), bfloat16, float32 or float64.
        qdata: codes of the weight, (N, K), blocks along either dimension.
        scale: a scale a block, float8.
        kind: type of the codes, or None for one of torch's.
        block_size: elements of a block.
        rows: N.
        is_swizzled: whether scales lie in tiles.
        second: one more scale, one entry, which makes values inexact, or None.
        product_dtype: type that `second`, and then its product with a scale, is rounded to; or
            None.
        bias: (N,), floating point, or None.

    Returns:
        (M, N), the type of `flat`, or float32 for bfloat16 where rows of the stored matrix are
        summed over.
    """
    codes, scales, dim = rows_of_blocks(qdata, scale, kind, block_size, is_swizzled)
    factor = _factors(scales, flat.dtype)
    if second is not None:
        factor = _scaled(factor.to(torch.float32), second, product_dtype)
    if dim != qdata.dim() - 1:
        result = _sum_of_rows(flat, codes, factor, kind)
        return result if bias is None else result.add_(bias)
    # With many activations the product itself takes longest; it is faster in large pieces.
    pieces = _PIECES_OF_LARGE_BATCHES if flat.shape[0] >= _LARGE_BATCH else 1
    parts = _values(codes, factor, kind, flat.dtype, pieces)
    return product_of_parts(flat.contiguous(), rows, parts, bias)


def _sum_of_rows(
    flat: torch.Tensor, codes: torch.Tensor, factor: torch.Tensor, kind: SmallFloat | None
) -> torch.Tensor:
    # The rows of the stored matrix are summed over, some at a time; float32 takes the sums.
    if flat.device.type != "cpu":
        return flat @ values_of(codes, factor, kind, flat.dtype)
    columns = codes.shape[1] * (2 if kind == E2M1 else 1)
    wide = torch.promote_types(flat.dtype, torch.float32)
    result = flat.new_zeros((flat.shape[0], columns), dtype=wide)
    for part, values in _values(codes, factor, kind, flat.dtype):
        result += flat[:, part] @ values
    return result


def _values(
    codes: torch.Tensor,
    factor: torch.Tensor,
    kind: SmallFloat | None,
    dtype: torch.dtype,
    pieces: int = 1,
) -> Iterator[tuple[slice, torch.Tensor]]:
    rows, columns = codes.shape[0], codes.shape[1] * (2 if kind == E2M1 else 1)
    step = rows
    if codes.device.type == "cpu":
        step = rows_per_buffer(columns, _STEP_BYTES, rows)
    decoder = _Decoder(codes, factor, kind, dtype, dtype, step)
    size = min(rows, pieces * step)
    buffer = torch.empty((size, columns), dtype=dtype, device=codes.device)
    for i in range(0, rows, size):
        part = buffer[: min(size, rows - i)]
        for j in range(0, part.shape[0], step):
            decoder.write(part[j : j + step], i + j)
        yield slice(i, i + part.shape[0]), part


def _scaled(
    factor: torch.Tensor, second: torch.Tensor, product_dtype: torch.dtype | None
) -> torch.Tensor:
    if second.numel() == 1:
        second = second.reshape(())
    if product_dtype is None:
        return second * factor
    both = second.to(product_dtype).to(factor.dtype) * factor
    return both.to(product_dtype).to(factor.dtype)


def _factors(scale: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    # All scales, much faster than torch converts them.
    if scale.dtype != torch.float8_e4m3fn or scale.device.type != "cpu":
        return decoded(scale, None, dtype)
    result = torch.empty(scale.shape, dtype=torch.float32)
    write_codes(result, scale, torch.empty(scale.shape, dtype=torch.int16))
    return result.mul_(code_step(scale.dtype))
