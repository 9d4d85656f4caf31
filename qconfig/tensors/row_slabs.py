"""Weights a few rows at a time, in float32, for quantizers that work on blocks of a row."""

from collections.abc import Iterator
from math import prod

import torch

from qconfig.errors import UsageError
from qconfig.tensors.slab_size import slab_elements

# Rows and their bits, each of 4 bytes an element, and a few numbers a block.
FLOAT8_BYTES = 10
"""Bytes for an element where torch writes the codes."""
SMALL_BYTES = 16
"""Bytes for an element where codes are made here."""
_MAGNITUDE = 0x7FFFFFFF  # all bits of a float32 but its sign
_INFINITY = 0x7F800000


def row_slabs(
    weight: torch.Tensor, bytes_per_element: int = SMALL_BYTES
) -> Iterator[tuple[slice, torch.Tensor, torch.Tensor]]:
    """Yield rows of a weight, all its leading dimensions taken together, as float32 copies.

    A slab and its working copies stay in cache and take at most an eighth of the weight.

    Args:
        weight: (..., K), floating point, any strides.
        bytes_per_element: what all copies of an element take.

    Yields:
        Which rows; their values, (R, K) contiguous, which may be overwritten; and int32 of at
        least that size for the work.
    """
    *leading, columns = weight.shape
    rows = prod(leading)
    elements = slab_elements(weight, bytes_per_element)
    step = max(1, elements // max(columns, 1))
    flat = weight.view(rows, columns) if weight.is_contiguous() else None
    buffer = torch.empty((min(step, rows), columns), dtype=torch.float32, device=weight.device)
    work = torch.empty_like(buffer, dtype=torch.int32)
    for start in range(0, rows, step):
        stop = min(start + step, rows)
        values = buffer[: stop - start]
        if flat is not None or weight.dim() == 2:
            values.copy_((weight if flat is None else flat)[start:stop])
        else:
            for row in range(start, stop):
                matrix, own = divmod(row, leading[-1])
                values[row - start].copy_(weight.flatten(0, -3)[matrix, own])
        yield slice(start, stop), values, work


def peaks(tiled: torch.Tensor, work: torch.Tensor) -> torch.Tensor:
    """Return the largest magnitude of each block; NaN where a block holds one.

    Args:
        tiled: (..., block) float32, contiguous.
        work: int32 of at least as many elements, contiguous, for the work.

    Returns:
        (...,) float32.
    """
    # Magnitudes are ordered like their bits, and the maximum of integers is many times as fast.
    bits = work.view(-1)[: tiled.numel()].view(tiled.shape)
    torch.bitwise_and(tiled.view(torch.int32), _MAGNITUDE, out=bits)
    return bits.amax(-1).view(torch.float32)


def all_finite(peak: torch.Tensor) -> bool:
    """Return whether no block has a NaN or an infinity, given the magnitudes of `peaks`."""
    return int(peak.view(torch.int32).amax()) < _INFINITY


def check_blocks_divide(columns: int, block_size: int) -> None:
    """Raise UsageError unless rows have whole blocks, as those of a transposed weight may not."""
    if columns % block_size:
        raise UsageError(
            "rows to be quantized have no whole blocks",
            found=f"{columns} columns",
            expected=f"a multiple of {block_size}",
            hint="call dequantize() on the weight for a product with ordinary numbers",
        )
