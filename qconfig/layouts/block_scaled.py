"""Shapes of codes with a scale for each block of a row: MX and NVFP4.

Which dimension the blocks lie along follows from the shapes, so that a transposed tensor needs no
further attribute: it is the one in which codes and scales differ in size.
"""

from qconfig.errors import LayoutError

_TILE_ROWS, _TILE_COLUMNS = 128, 4
_STORED_ROWS, _STORED_COLUMNS = 32, 16


def block_dimension(
    shape: tuple[int, ...], scale: tuple[int, ...] | None, block_size: int, per_byte: int
) -> int:
    """Return the dimension of `shape` that the blocks lie along; the last if nothing tells.

    Args:
        shape: shape of the codes as they are stored.
        scale: shape of the scales, or None where they are swizzled: then it is the last.
        block_size: elements of a block.
        per_byte: elements of an entry of the codes, 1 or 2.
    """
    last = len(shape) - 1
    if scale is None or len(scale) != len(shape):
        return last
    sizes = list(enumerate(zip(shape, scale, strict=True)))
    found = [d for d, (n, s) in sizes if n != s and n * per_byte == s * block_size]
    # Without columns there are no blocks, and codes and scales have the same size.
    found = found or [d for d, (n, s) in sizes if n == s == 0]
    return found[-1] if found else last


def logical_shape(
    stored: tuple[int, ...], scale: tuple[int, ...] | None, block_size: int
) -> tuple[int, ...]:
    """Return the shape of the values of codes that lie two in a byte along the blocks.

    Arguments are those of `block_dimension`.
    """
    dim = block_dimension(stored, scale, block_size, 2)
    return (*stored[:dim], stored[dim] * 2, *stored[dim + 1 :])


def swizzled_shape(shape: tuple[int, ...], block_size: int) -> tuple[int, ...]:
    """Return the shape of scales in tiles: 128 rows by 4 blocks become 32 x 16 entries.

    Source: cuBLAS, "1D Block Scaling Factors Layout"; the shape is that of torchao since 0.15.

    Args:
        shape: logical shape, (..., N, K).
        block_size: elements of a block.
    """
    rows, blocks = shape[-2], shape[-1] // block_size
    return (
        *shape[:-2],
        -(-rows // _TILE_ROWS) * _STORED_ROWS,
        -(-blocks // _TILE_COLUMNS) * _STORED_COLUMNS,
    )


def check_block_scale(
    shape: tuple[int, ...],
    scale: tuple[int, ...],
    block_size: int,
    is_swizzled: bool,  # noqa: FBT001
) -> None:
    """Raise LayoutError unless there is one scale for each block of each row.

    Args:
        shape: logical shape.
        scale: shape of the scales.
        block_size: elements of a block.
        is_swizzled: whether the scales lie in tiles.
    """
    if is_swizzled:
        rows = shape[-2]
        if len(shape) > 2 and rows % _TILE_ROWS:
            raise LayoutError(
                "swizzled scales of several matrices need rows in whole tiles",
                pointer="/scale",
                found=f"{rows} rows",
                expected=f"a multiple of {_TILE_ROWS}",
            )
        fits = shape[-1] % block_size == 0
        expected = swizzled_shape(shape, block_size)
    else:
        dim = block_dimension(shape, scale, block_size, 1)
        fits = shape[dim] % block_size == 0
        expected = (*shape[:dim], shape[dim] // block_size, *shape[dim + 1 :])
    if not fits:
        raise LayoutError(
            "block_size does not divide the rows",
            pointer="/block_size",
            found=block_size,
            expected=f"a divisor of a dimension of shape {shape}",
        )
    if scale != expected:
        raise LayoutError(
            "scale has a wrong shape for its blocks",
            pointer="/scale",
            found=scale,
            expected=f"shape {expected}",
        )
