"""Checks and rearrangements that retired layouts of MX and NVFP4 share; frozen with them."""

from typing import TYPE_CHECKING

from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import TensorValue
from qconfig.errors import LayoutError

if TYPE_CHECKING:
    import torch

_SHOWN = (DType.FLOAT16, DType.BFLOAT16, DType.FLOAT32, DType.FLOAT64)


def two_a_byte(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the logical shape of codes that lie two in a byte along the last dimension."""
    return (*shape[:-1], shape[-1] * 2)


def swizzled_shape(shape: tuple[int, ...], block_size: int) -> tuple[int, ...]:
    """Return the shape of scales in tiles: 128 rows by 4 blocks become 32 x 16 entries."""
    rows, blocks = shape[-2], shape[-1] // block_size
    return (*shape[:-2], -(-rows // 128) * 32, -(-blocks // 4) * 16)


def swap_nibbles(codes: "torch.Tensor") -> "torch.Tensor":
    """Return bytes with their halves exchanged."""
    return (codes << 4) | (codes >> 4)


def check_shown(dtype: DType) -> None:
    """Raise LayoutError unless a tensor can show this element type."""
    if dtype not in _SHOWN:
        raise LayoutError(
            "dtype is not a floating-point type",
            pointer="/dtype",
            found=dtype.value,
            expected="float16, bfloat16, float32 or float64",
        )


def check_blocks(
    name: str,
    shape: tuple[int, ...],
    scale: TensorValue,
    block_size: int,
    *,
    swizzled: bool = False,
) -> None:
    """Raise LayoutError unless there is one scale for each block of each row, or tiles of them."""
    if shape[-1] % block_size:
        raise LayoutError(
            "block_size does not divide the rows",
            pointer="/block_size",
            found=block_size,
            expected=f"a divisor of {shape[-1]}",
        )
    if swizzled and len(shape) > 2 and shape[-2] % 128:
        raise LayoutError(
            "swizzled scales of several matrices need rows in whole tiles",
            pointer=f"/{name}",
            found=f"{shape[-2]} rows",
            expected="a multiple of 128",
        )
    expected = (*shape[:-1], shape[-1] // block_size)
    if swizzled:
        expected = swizzled_shape(shape, block_size)
    if tuple(scale.shape) != expected:
        raise LayoutError(
            f"{name} has a wrong shape for its blocks",
            pointer=f"/{name}",
            found=tuple(scale.shape),
            expected=f"shape {expected}",
        )
