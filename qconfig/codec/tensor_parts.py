"""Tensors a few rows at a time: how many, and what is made of the parts.

Rows are the entries of dimension 0.
"""

from collections.abc import Iterable, Iterator
from math import prod
from typing import TYPE_CHECKING

from qconfig.codec.dtypes import DType
from qconfig.codec.raw_memory import empty_bytes
from qconfig.errors import LayoutError

if TYPE_CHECKING:
    import torch

PART_BYTES = 2 * 2**20
"""Bytes of a part, unless as many rows as go together take more."""


def rows_at_once(row_bytes: int, multiple: int = 1) -> int:
    """Return how many rows a part has.

    Args:
        row_bytes: bytes of one.
        multiple: how many rows go together.
    """
    return max(1, PART_BYTES // (max(1, row_bytes) * multiple)) * multiple


def cut(whole: "torch.Tensor", rows: int) -> "Iterator[torch.Tensor]":
    """Yield views of so many rows of a tensor each."""
    for start in range(0, whole.shape[0], rows):
        yield whole.narrow(0, start, min(rows, whole.shape[0] - start))


def joined(parts: "Iterable[torch.Tensor]", dtype: DType, shape: tuple[int, ...]) -> "torch.Tensor":
    """Return a tensor whose rows are those of parts, one after the other.

    Raises:
        LayoutError: the parts have another type or shape, or other rows than `shape` says.
    """
    import torch

    whole = empty_bytes(prod(shape) * dtype.itemsize).view(dtype.to_torch()).view(shape)
    # Not every dtype can be copied; bytes can.
    target = whole.view(torch.uint8) if whole.element_size() == 1 else whole
    done = 0
    for part in parts:
        check_part(part, dtype, shape, done)
        target[done : done + part.shape[0]] = part.view(target.dtype)
        done += part.shape[0]
    check_end(dtype, shape, done)
    return whole


def check_part(part: "torch.Tensor", dtype: DType, shape: tuple[int, ...], done: int) -> None:
    """Check that a part has some of the rows of a tensor.

    Args:
        part: of it.
        dtype: of the tensor.
        shape: of the tensor.
        done: rows before this part.

    Raises:
        LayoutError: it has not.
    """
    is_there = done + part.shape[0] <= shape[0] if part.dim() else False
    if DType.parse(part.dtype) is not dtype or tuple(part.shape[1:]) != shape[1:] or not is_there:
        raise LayoutError(
            "a derived tensor differs from its declaration",
            found=f"{part.dtype} {tuple(part.shape)} after {done} rows",
            expected=f"some rows of {dtype} {shape}",
        )


def check_end(dtype: DType, shape: tuple[int, ...], done: int) -> None:
    """Check that all rows of a tensor have come.

    Raises:
        LayoutError: some are missing.
    """
    if done != shape[0]:
        raise LayoutError(
            "a derived tensor differs from its declaration",
            found=f"{done} rows",
            expected=f"{dtype} {shape}",
        )
