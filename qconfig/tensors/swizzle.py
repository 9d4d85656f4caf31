"""Scales of blocks in the tiles that NVIDIA's block-scaled products read, and back.

A tile holds the scales of 128 rows and 4 blocks: row `32 i + j` of the tile, block `k`, lies at
entry `16 j + 4 i + k`. Rows and blocks are padded to whole tiles, tiles lie row by row.

Source: cuBLAS documentation, "1D Block Scaling Factors Layout".
"""

from math import prod

import torch


def swizzled(scale: torch.Tensor) -> torch.Tensor:
    """Return scales in tiles, zeros in the padding.

    Args:
        scale: (..., N, K/block), one byte an element; of several matrices, N is a multiple of 128.

    Returns:
        (..., 32 ceil(N / 128), 16 ceil(K/block / 4)), same type.
    """
    *leading, rows, blocks = scale.shape
    flat = scale.contiguous().view(torch.uint8).view(prod(leading) * rows, blocks)
    high, wide = -(-flat.shape[0] // 128), -(-blocks // 4)
    padded = flat.new_zeros((high * 128, wide * 4))
    padded[: flat.shape[0], :blocks] = flat
    tiles = padded.view(high, 4, 32, wide, 4).permute(0, 3, 2, 1, 4).reshape(-1)
    return tiles.view(scale.dtype).view(*leading, -(-rows // 128) * 32, wide * 16)


def unswizzled(tiles: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    """Return scales row by row: the inverse of `swizzled`.

    Args:
        tiles: what `swizzled` gives, any shape.
        shape: (..., N, K/block) of the result.
    """
    *leading, rows, blocks = shape
    total = prod(leading) * rows
    high, wide = -(-total // 128), -(-blocks // 4)
    flat = tiles.reshape(-1).view(torch.uint8).view(high, wide, 32, 4, 4)
    padded = flat.permute(0, 3, 2, 1, 4).reshape(high * 128, wide * 4)
    found = padded[:total, :blocks].contiguous()
    return found.view(tiles.dtype).view(*leading, rows, blocks)
