"""What retired int4 layouts of torch's tinygemm kernels share; frozen with them.

The kernels keep scale and zero point of a group side by side, (K/g, N, 2), and mean
`(q - 8) * scale + zero` with codes q from 0 to 15: the value of Int4TensorLayout, whose codes are
8 less.
"""

from functools import partial
from math import gcd
from typing import TYPE_CHECKING, Any

from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import TensorValue
from qconfig.errors import LayoutError, MigrationError
from qconfig.layouts.int4 import Int4TensorLayout

if TYPE_CHECKING:
    import torch

_SHOWN = (DType.FLOAT16, DType.BFLOAT16, DType.FLOAT32, DType.FLOAT64)


def check_shown(dtype: DType) -> None:
    """Raise LayoutError unless a tensor can show this element type."""
    if dtype not in _SHOWN:
        raise LayoutError(
            "dtype is not a floating-point type",
            pointer="/dtype",
            found=dtype.value,
            expected="float16, bfloat16, float32 or float64",
        )


def group_of(block_size: tuple[int, ...], *, transposed: bool) -> int:
    """Return the columns that share a scale.

    Args:
        block_size: as stored: 1 but for the last dimension; but for the first if transposed.
        transposed: whether rows and columns were exchanged after packing.

    Raises:
        LayoutError: blocks of more than one row.
    """
    *rows, group = reversed(block_size) if transposed else block_size
    if group < 1 or any(size != 1 for size in rows):
        raise LayoutError(
            "block_size does not tile the tensor in groups of one row",
            pointer="/block_size",
            found=block_size,
            expected="(g, 1), as the tensor is transposed" if transposed else "(1, g)",
        )
    return group


def check_pairs(
    scale_and_zero: TensorValue, expected: tuple[int, ...], *, padded: bool = False
) -> None:
    """Raise LayoutError unless there is a scale and a zero point for each group of each row.

    Args:
        scale_and_zero: (..., K/g, N, 2).
        expected: (..., K/g, N) of the matrix.
        padded: whether there may be more groups and rows than that.
    """
    found = tuple(scale_and_zero.shape)
    *leading, groups, rows = expected
    enough = found[-3] >= groups and found[-2] >= rows if padded else found[-3:-1] == (groups, rows)
    if found[:-3] != tuple(leading) or not enough:
        raise LayoutError(
            "scale_and_zero has a wrong shape for its blocks",
            pointer="/scale_and_zero",
            found=found,
            expected=f"shape {(*expected, 2)}" + (" or more groups and rows" if padded else ""),
        )


def int4_layout(
    qdata: Any,
    scale_and_zero: Any,
    *,
    shape: tuple[int, ...],
    group: int,
    dtype: DType,
    act_pre_scale: TensorValue | None = None,
    transposed: bool = False,
) -> Int4TensorLayout:
    """Return the layout of a matrix, or of several, whose codes are signed and two a byte.

    Groups that columns of padding complete become smaller ones, so that they tile the columns; a
    scale then stands as often as it is needed.

    Args:
        qdata: int8, (..., N, K/2).
        scale_and_zero: (..., K'/g, N', 2), with padding or without.
        shape: (..., N, K).
        group: columns that share a scale.
        dtype: element type that the tensor shows.
        act_pre_scale: factor for the activation.
        transposed: whether the tensor shows (K, N).

    Raises:
        MigrationError: an odd number of columns.
    """
    *leading, rows, columns = shape
    if columns % 2:
        raise MigrationError(
            "Int4TensorLayout holds two columns a byte and has no odd number of them",
            pointer="/shape",
            found=columns,
            expected="an even number of columns",
        )
    group = min(group, columns) or 1
    size = gcd(group, columns)
    scales = (*leading, columns // size, rows)
    scale, zero_point = (
        scale_and_zero.map(partial(_half, index=i, times=group // size, shape=scales), shape=scales)
        for i in (0, 1)
    )
    block_size = (*(1 for _ in shape[:-1]), size)
    if transposed:
        shape, block_size, scales = shape[::-1], block_size[::-1], scales[::-1]
        qdata = qdata.spread(_transposed_rows, shape=tuple(qdata.shape)[::-1])
        scale, zero_point = (t.map(_transposed, shape=scales) for t in (scale, zero_point))
    return Int4TensorLayout(
        qdata,
        scale,
        zero_point,
        block_size,
        shape,
        dtype,
        act_pre_scale=act_pre_scale,
        activation_dtype=DType.BFLOAT16,
    )


def _half(
    pairs: "torch.Tensor", *, index: int, times: int, shape: tuple[int, ...]
) -> "torch.Tensor":
    values = pairs[..., index]
    if times > 1:
        values = values.repeat_interleave(times, -2)
    return values[..., : shape[-2], : shape[-1]].contiguous()


def _transposed(value: "torch.Tensor") -> "torch.Tensor":
    return value.t().contiguous()


def _transposed_rows(first: int, stop: int, value: "torch.Tensor") -> "torch.Tensor":
    return value[:, first:stop].t().contiguous()
