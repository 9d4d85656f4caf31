"""Values of unsigned codes with block scales, operand by operand in the types of torchao 0.18.

| zero points | value | torchao |
|---|---|---|
| codes | `(q - zero_point) * scale` | `dequantize_affine` |
| values of the middle code | `(q - middle) * scale + zero_point` | `_dequantize_affine_tinygemm` |

Codes take the target type first. Where zero points are codes they do so, too, and the product takes
the wider of target and scale; else each step is rounded to the target type.
"""

import torch

from qconfig.tensors.blockwise import rows_per_buffer


def dequantize(
    qdata: torch.Tensor,
    scale: torch.Tensor,
    zero_point: torch.Tensor | None,
    dtype: torch.dtype,
    *,
    middle: int | None = None,
) -> torch.Tensor:
    """Return all values, a few rows at a time for large matrices on the CPU.

    Args:
        qdata: uint8, any rank.
        scale: floating point, same rank; each size divides that of `qdata`.
        zero_point: shaped like `scale`, or None.
        dtype: floating-point type of the result.
        middle: the code whose values zero points are; None where they are codes.
    """
    rows, block = qdata.shape[0], _block(qdata.shape[0], scale.shape[0])
    step = _rows(qdata, dtype)
    plain = type(qdata) is torch.Tensor and qdata.device.type == "cpu"
    if not plain or torch.compiler.is_compiling() or step >= rows:
        return _whole(qdata, scale, zero_point, dtype, middle)
    result = torch.empty(qdata.shape, dtype=dtype)
    for start in range(0, rows, step):
        stop = min(start + step, rows)
        # Blocks of many rows are cut, so that each row brings its own.
        index = torch.arange(start, stop) // block
        zero = None if zero_point is None else zero_point[index]
        result[start:stop] = _whole(qdata[start:stop], scale[index], zero, dtype, middle)
    return result


def _rows(qdata: torch.Tensor, dtype: torch.dtype) -> int:
    rows = qdata.shape[0]
    columns = qdata.numel() // rows if rows else 0
    return rows_per_buffer(columns, max(4, dtype.itemsize), rows)


def _block(size: int, blocks: int) -> int:
    return size // blocks if blocks else 1


def _whole(
    qdata: torch.Tensor,
    scale: torch.Tensor,
    zero_point: torch.Tensor | None,
    dtype: torch.dtype,
    middle: int | None,
) -> torch.Tensor:
    shape: list[int] = []
    scale_shape: list[int] = []
    for size, blocks in zip(qdata.shape, scale.shape, strict=True):
        shape += [blocks, _block(size, blocks)]
        scale_shape += [blocks, 1]
    values = qdata.to(dtype).reshape(shape)
    factor = scale.reshape(scale_shape)
    zero = None if zero_point is None else zero_point.reshape(scale_shape)
    if middle is None:
        values = values if zero is None else values - zero.to(dtype)
        return (values * factor).to(dtype).reshape(qdata.shape)
    values = ((values - middle) * factor).to(dtype)
    values = values if zero is None else (values + zero).to(dtype)
    return values.reshape(qdata.shape)
