"""Weights a few rows at a time, in float32, for quantizers that work on blocks of a row."""

from collections.abc import Iterator
from math import prod

import torch

from qconfig.errors import UsageError
from qconfig.tensors.slab_size import slab_elements

# The codes of a slab need about four such buffers, each of 4 bytes an element.
_BYTES = 4 * 4
_SLAB_ELEMENTS = 1 << 18


def row_slabs(weight: torch.Tensor) -> Iterator[tuple[slice, torch.Tensor]]:
    """Yield rows of a weight, all its leading dimensions taken together, as float32 copies.

    A slab and its working copies stay in cache and take at most an eighth of the weight.

    Args:
        weight: (..., K), floating point, any strides.

    Yields:
        Which rows, and their values, (R, K) contiguous, which may be overwritten.
    """
    *leading, columns = weight.shape
    rows = prod(leading)
    elements = slab_elements(weight, _BYTES, most=_SLAB_ELEMENTS)
    step = max(1, elements // max(columns, 1))
    flat = weight.view(rows, columns) if weight.is_contiguous() else None
    buffer = torch.empty((min(step, rows), columns), dtype=torch.float32, device=weight.device)
    for start in range(0, rows, step):
        stop = min(start + step, rows)
        values = buffer[: stop - start]
        if flat is not None or weight.dim() == 2:
            values.copy_((weight if flat is None else flat)[start:stop])
        else:
            for row in range(start, stop):
                matrix, own = divmod(row, leading[-1])
                values[row - start].copy_(weight.flatten(0, -3)[matrix, own])
        yield slice(start, stop), values


def peaks(tiled: torch.Tensor) -> torch.Tensor:
    """Return the largest magnitude of each block; NaN where a block holds one.

    Args:
        tiled: (..., block) float32, contiguous.

    Returns:
        (...,) float32.
    """
    # Magnitudes are ordered like their bits, and the maximum of integers is many times as fast.
    bits = tiled.view(torch.int32) & 0x7FFFFFFF
    return bits.amax(-1).view(torch.float32)


def check_blocks_divide(columns: int, block_size: int) -> None:
    """Raise UsageError unless rows have whole blocks, as those of a transposed weight may not."""
    if columns % block_size:
        raise UsageError(
            "rows to be quantized have no whole blocks",
            found=f"{columns} columns",
            expected=f"a multiple of {block_size}",
            hint="call dequantize() on the weight for a product with ordinary numbers",
        )
