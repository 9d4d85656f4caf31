"""Values of codes with block scales: `(q - zero_point) * scale`, whole or a few rows at a time.

The size of a block follows from the shapes, for a scale keeps the dimensions of its codes. Operand
by operand the types are those of torchao's `dequantize_affine` (torchao 0.18), so that the bits are
equal: `q` and `zero_point` take the target type, the product takes the wider of target and scale.
"""

import torch

_BUFFER_BYTES = 4 << 20  # fastest measured on a Zen 4 core pair: fits L2/L3, amortises the calls


def rows_per_buffer(columns: int, itemsize: int, rows: int) -> int:
    """Return how many rows of a matrix fit the working buffer, at least 1 and at most `rows`."""
    return max(1, min(rows, _BUFFER_BYTES // max(1, columns * itemsize)))


def dequantize_whole(
    qdata: torch.Tensor,
    scale: torch.Tensor,
    zero_point: torch.Tensor | None,
    dtype: torch.dtype,
) -> torch.Tensor:
    """Return all values in one expression, which a compiler can fuse.

    Args:
        qdata: codes, int8, any rank.
        scale: floating point, same rank; each size divides that of `qdata`.
        zero_point: int8, shaped like `scale`, or None.
        dtype: floating-point type of the result.
    """
    shape: list[int] = []
    scale_shape: list[int] = []
    for size, blocks in zip(qdata.shape, scale.shape, strict=True):
        shape += [blocks, size // blocks if blocks else 1]
        scale_shape += [blocks, 1]
    values = qdata.to(dtype).reshape(shape)
    if zero_point is not None:
        values = values - zero_point.to(dtype).reshape(scale_shape)
    return (values * scale.reshape(scale_shape)).to(dtype).reshape(qdata.shape)


def dequantize(
    qdata: torch.Tensor,
    scale: torch.Tensor,
    zero_point: torch.Tensor | None,
    dtype: torch.dtype,
) -> torch.Tensor:
    """Return all values, with no temporary beyond a few rows for large matrices on the CPU.

    Arguments are those of `dequantize_whole`.
    """
    small = qdata.device.type != "cpu" or qdata.numel() * dtype.itemsize <= _BUFFER_BYTES
    if small or type(qdata) is not torch.Tensor or torch.compiler.is_compiling():
        return dequantize_whole(qdata, scale, zero_point, dtype)
    result = torch.empty(qdata.shape, dtype=dtype)
    _fill(result, qdata, scale, zero_point)
    return result


def _fill(
    result: torch.Tensor,
    qdata: torch.Tensor,
    scale: torch.Tensor,
    zero_point: torch.Tensor | None,
) -> None:
    if qdata.dim() > 2:
        block = qdata.shape[0] // scale.shape[0]
        for i in range(qdata.shape[0]):
            j = i // block
            zero = None if zero_point is None else zero_point[j]
            _fill(result[i], qdata[i], scale[j], zero)
        return
    rows, columns = qdata.shape
    step = rows_per_buffer(columns, 4, rows)
    work = row_buffer(qdata, torch.promote_types(result.dtype, scale.dtype), step)
    for i in range(0, rows, step):
        j = min(i + step, rows)
        write_rows(result[i:j], qdata, scale, zero_point, i, work)


def row_buffer(qdata: torch.Tensor, dtype: torch.dtype, rows: int) -> torch.Tensor:
    """Return an uninitialised (rows, K) buffer whose strides run the way those of `qdata` do."""
    columns = qdata.shape[1]
    if qdata.stride(0) < qdata.stride(1):
        return torch.empty((columns, rows), dtype=dtype, device=qdata.device).t()
    return torch.empty((rows, columns), dtype=dtype, device=qdata.device)


def write_rows(  # noqa: PLR0917
    result: torch.Tensor,
    qdata: torch.Tensor,
    scale: torch.Tensor,
    zero_point: torch.Tensor | None,
    start: int,
    work: torch.Tensor,
) -> None:
    """Write the values of some rows of a matrix.

    Args:
        result: (R, K), rows `start` to `start + R` go here.
        qdata: (N, K) codes.
        scale: scales, as in `dequantize_whole`.
        zero_point: zero points, as in `dequantize_whole`.
        start: the first row.
        work: at least (R, K) in the wider type of result and scale; it may be `result` itself.
    """
    rows, stop = qdata.shape[0], start + result.shape[0]
    values = work[: result.shape[0]]
    values.copy_(qdata[start:stop])
    factor = scales_of_rows(scale, start, stop, rows)
    groups = values.view(values.shape[0], factor.shape[1], -1)
    if zero_point is not None:
        groups.sub_(scales_of_rows(zero_point, start, stop, rows).unsqueeze(-1))
    groups.mul_(factor.unsqueeze(-1))
    if values.data_ptr() != result.data_ptr():
        result.copy_(values)


def scales_of_rows(scale: torch.Tensor, start: int, stop: int, rows: int) -> torch.Tensor:
    """Return the scales of some rows of a matrix.

    Args:
        scale: (N, G), (1, G), or fewer rows that divide N.
        start: the first row.
        stop: the row after the last.
        rows: N.

    Returns:
        (stop - start, G), or (1, G) where one row serves all.
    """
    if scale.shape[0] == 1:
        return scale
    if scale.shape[0] == rows:
        return scale[start:stop]
    return scale[torch.arange(start, stop) // (rows // scale.shape[0])]


def per_row(scale: torch.Tensor, rows: int) -> torch.Tensor:
    """Return one entry for each of `rows` rows, of a scale that has one for each or for several."""
    flat = scale.reshape(-1)
    return flat if flat.shape[0] == rows else flat.repeat_interleave(rows // flat.shape[0])
