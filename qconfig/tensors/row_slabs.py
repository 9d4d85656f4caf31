"""Weights a few rows at a time, in float32, for quantizers that work on blocks of a row."""

from collections.abc import Iterator
from math import prod

import torch

from qconfig.errors import BuildError

_SLAB_ELEMENTS = 1 << 18
_LEAST = 1 << 12


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
    # The codes of a slab need about four such buffers, each of 4 bytes an element.
    most = max(_LEAST, min(_SLAB_ELEMENTS, weight.numel() * weight.itemsize // (8 * 16)))
    step = max(1, most // max(columns, 1)) if weight.device.type == "cpu" else rows
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


def not_finite(weight: torch.Tensor) -> BuildError:
    """Return the error of a weight that holds NaN or infinity, or is too large for float32."""
    bad = ~weight.isfinite()
    if not bool(bad.any()):
        return BuildError(
            "a float64 weight is too large for float32",
            found=float(weight.abs().max()),
            expected=f"values up to {torch.finfo(torch.float32).max}",
        )
    first = tuple(bad.nonzero()[0].tolist())
    return BuildError(
        f"the weight holds {int(bad.sum())} values that are NaN or infinite, "
        f"the first at {list(first)}",
        found=weight[first].item(),
        expected="finite values",
        hint="quantize the weights of a sound checkpoint, or skip this parameter",
    )
