"""Orders in which torch's int4 kernels keep codes, and how to bring codes back into rows.

No file says its order: it is that of the processor that wrote it.

CPU (`_convert_weight_to_int4pack_for_cpu`): rows lie in tiles of as many rows as the processor's
vectors take; within a tile, the column comes first and then bytes of two rows each. AVX512 and AVX2
pair a row of a whole tile's first half with one of its second half; neighbours pair in all other
tiles. Measured with torch 2.13 under each ATEN_CPU_CAPABILITY. As the kernel's source says, builds
for Arm have tiles of 16 rows, and those that a Microsoft compiler made pair neighbours everywhere.

GPU (`_convert_weight_to_int4pack`): the fragments of matrix B of the tensor core instruction
m16n8k16. An int32 holds 8 codes of a row, four of them from each of two neighbouring tiles of 16
columns: bits 0 to 15 the even columns, bits 16 to 31 the odd ones. AMD's devices have fragments of
16 rows and 64 lanes, in a tensor of the same shape.
"""

from enum import StrEnum
from math import prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

_K_TILE = 16
_SLAB = 1 << 20


class CpuInt4Order(StrEnum):
    """Order of the CPU kernel's bytes: how many rows a tile has, and which of them share a byte."""

    AVX512 = "avx512"
    """64 rows; row r of a whole tile with r + 32. What most servers write."""
    AVX2 = "avx2"
    """32 rows; row r of a whole tile with r + 16."""
    PAIRS_64 = "pairs_64"
    """64 rows, neighbours."""
    PAIRS_32 = "pairs_32"
    """32 rows, neighbours: processors without AVX2, ATEN_CPU_CAPABILITY=default."""
    PAIRS_16 = "pairs_16"
    """16 rows, neighbours: Arm."""

    @property
    def rows(self) -> int:
        """Rows of a whole tile."""
        return _TILES[self][0]

    @property
    def halves(self) -> bool:
        """Whether a byte of a whole tile has a row of either half."""
        return _TILES[self][1]


_TILES = {
    CpuInt4Order.AVX512: (64, True),
    CpuInt4Order.AVX2: (32, True),
    CpuInt4Order.PAIRS_64: (64, False),
    CpuInt4Order.PAIRS_32: (32, False),
    CpuInt4Order.PAIRS_16: (16, False),
}


class GpuInt4Order(StrEnum):
    """Order of the GPU kernel's words: which device's fragments."""

    CUDA = "cuda"
    """NVIDIA: 8 rows, 32 lanes."""
    ROCM = "rocm"
    """AMD: 16 rows, 64 lanes."""


def cpu_orders_agree(rows: int, first: CpuInt4Order, second: CpuInt4Order) -> bool:
    """Return whether two orders put all codes of a matrix at the same places.

    Args:
        rows: N of the matrix.
        first: an order.
        second: another.
    """
    return _tiles_of(rows, first) == _tiles_of(rows, second)


def _tiles_of(rows: int, order: CpuInt4Order) -> list[tuple[int, int, bool]]:
    """Return first row, rows, and whether halves are paired, of each tile."""
    size = order.rows
    tiles = [(start, min(size, rows - start)) for start in range(0, rows, size)]
    return [(start, count, order.halves and count == size) for start, count in tiles]


def unpack_cpu_int4(packed: "torch.Tensor", order: CpuInt4Order) -> "torch.Tensor":
    """Return the codes of a matrix that the CPU kernel's packing made.

    Args:
        packed: uint8, (N, K/2), contiguous, N even.
        order: of the processor that packed it.

    Returns:
        uint8, 0 to 15, (N, K).
    """
    import torch

    rows, half = packed.shape
    columns = 2 * half
    flat = packed.reshape(-1)
    codes = torch.empty((rows, columns), dtype=torch.uint8)
    whole = rows - rows % order.rows
    for start, stop, size in ((0, whole, order.rows), (whole, rows, rows - whole)):
        if start == stop:
            continue
        tiles = flat[start * half : stop * half].view(-1, columns, size // 2)
        low, high = (tiles & 15).transpose(1, 2), (tiles >> 4).transpose(1, 2)
        halves = order.halves and size == order.rows
        joined = torch.cat((low, high), 1) if halves else torch.stack((low, high), 2)
        codes[start:stop] = joined.reshape(stop - start, columns)
    return codes


def unpack_gpu_int4(
    packed: "torch.Tensor", shape: tuple[int, int], order: GpuInt4Order = GpuInt4Order.CUDA
) -> "torch.Tensor":
    """Return the codes of a matrix that the GPU kernel's packing made, without its padding.

    Args:
        packed: int32, (N'/8, K'/(16 T), 32, T/2) for T tiles of 16 columns at a time: 2, 4 or 8.
        shape: (N, K) of the matrix, at most (N', K').
        order: of the device that packed it.

    Returns:
        uint8, 0 to 15, (N, K).
    """
    import torch

    outer, inner = packed.shape[1], packed.shape[3]
    lanes, rows = (64, 16) if order is GpuInt4Order.ROCM else (32, 8)
    words = packed.reshape(-1, outer, lanes, inner)
    shifts = torch.arange(0, 32, 4, dtype=torch.int32)
    # Bits from low to high: the four even columns, then the four odd ones.
    nibbles = (words.unsqueeze(-1) >> shifts).bitwise_and_(15).to(torch.uint8)
    tiles, wide = words.shape[0], 2 * inner * _K_TILE * outer
    if order is GpuInt4Order.ROCM:
        # lane = 16 * quarter + row; a quarter has columns 4 q to 4 q + 3 of a tile of 16.
        parts = nibbles.view(tiles, outer, 4, rows, inner, 2, 2, 2)
        # tile, outer, quarter, row, pair of k tiles, odd, k tile, pair of columns
        codes = parts.permute(0, 3, 1, 4, 6, 2, 7, 5)
    else:
        # lane = 4 * row + quarter; a quarter has columns 2 q, 2 q + 1 and the same plus 8.
        parts = nibbles.view(tiles, outer, rows, 4, inner, 2, 2, 2)
        # tile, outer, row, quarter, pair of k tiles, odd, k tile, upper half of it
        codes = parts.permute(0, 2, 1, 4, 6, 7, 3, 5)
    return codes.reshape(tiles * rows, wide)[: shape[0], : shape[1]].contiguous()


def unpack_words_int4(packed: "torch.Tensor") -> "torch.Tensor":
    """Return the codes of int32 words that hold 8 columns each, the first in the lowest bits.

    Args:
        packed: int32, (..., K/8), contiguous.

    Returns:
        uint8, 0 to 15, (..., K).
    """
    import torch

    codes = torch.empty((*packed.shape, 8), dtype=torch.uint8)
    for i in range(8):
        codes[..., i] = (packed >> 4 * i).bitwise_and_(15)
    return codes.reshape(*packed.shape[:-1], 8 * packed.shape[-1])


def signed_pairs(codes: "torch.Tensor") -> "torch.Tensor":
    """Return unsigned codes as Int4TensorLayout holds them: less 8, two a byte, even columns low.

    Args:
        codes: uint8, 0 to 15, (..., K) with an even K.

    Returns:
        int8, (..., K/2).
    """
    import torch

    pairs = codes[..., ::2] | codes[..., 1::2] << 4
    # In two's complement, taking 8 from a code of 4 bits flips its highest bit.
    return (pairs ^ 0x88).view(torch.int8)


def cpu_pairs(packed: "torch.Tensor", order: CpuInt4Order) -> "torch.Tensor":
    """Return `signed_pairs` of `unpack_cpu_int4`, in slabs that need little memory.

    Args:
        packed: uint8, (N, K/2), contiguous, N even.
        order: of the processor that packed it.

    Returns:
        int8, (N, K/2).
    """
    import torch

    result = torch.empty(packed.shape, dtype=torch.int8)
    rows, half = packed.shape
    step = order.rows * max(1, _SLAB // max(1, half * order.rows))
    for start in range(0, rows, step):
        slab = packed[start : start + step]
        result[start : start + step] = signed_pairs(unpack_cpu_int4(slab, order))
    return result


def gpu_pairs(
    packed: "torch.Tensor", shape: tuple[int, int], order: GpuInt4Order = GpuInt4Order.CUDA
) -> "torch.Tensor":
    """Return `signed_pairs` of `unpack_gpu_int4`, in slabs that need little memory.

    Args:
        packed: int32, (N'/8, K'/(16 T), 32, T/2) for T tiles of 16 columns at a time: 2, 4 or 8.
        shape: (N, K) of the matrix, at most (N', K'), with an even K.
        order: of the device that packed it.

    Returns:
        int8, (N, K/2).
    """
    import torch

    rows, columns = shape
    result = torch.empty((rows, columns // 2), dtype=torch.int8)
    # AMD's fragments have the rows of two entries.
    step = 2 * max(1, _SLAB // max(1, 8 * packed[0].numel()))
    for first in range(0, rows, 8 * step):
        stop = min(rows, first + 8 * step)
        slab = packed[first // 8 : first // 8 + step]
        result[first:stop] = signed_pairs(unpack_gpu_int4(slab, (stop - first, columns), order))
    return result


def gpu_shape(packed: tuple[int, ...]) -> tuple[int, int]:
    """Return (N', K') of the padded matrix in a tensor of words.

    Args:
        packed: (N'/8, K'/(16 T), 32, T/2).
    """
    return 8 * packed[0], prod(packed[1:]) // 32 * 2 * _K_TILE
