"""Tensors a few rows at a time: how many, and what is made of the parts.

Rows are the entries of dimension 0.
"""

from collections.abc import Iterable, Iterator
from math import prod
from typing import TYPE_CHECKING, Any

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
    whole = empty(dtype, shape)
    target = _bytes(whole)
    done = 0
    for part in parts:
        check_part(part, dtype, shape, done)
        target[done : done + part.shape[0]] = _bytes(part)
        done += part.shape[0]
    check_end(dtype, shape, done)
    return whole


class Whole:
    """A tensor that is put together of parts, each with fewer entries in one dimension.

    What comes with its whole shape each time is one and the same.

    Args:
        spec: its dtype and shape.
    """

    def __init__(self, spec: Any) -> None:
        self._dtype, self._shape = DType.parse(spec.dtype), tuple(spec.shape)
        self._dim, self._done = 0, 0
        self._tensor: torch.Tensor | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing was put into it."""
        return self._tensor is None

    @property
    def tensor(self) -> "torch.Tensor":
        """The tensor.

        Raises:
            LayoutError: some of it is missing.
        """
        if self._tensor is None or (self._shape and self._done < self._shape[self._dim]):
            raise _differs(f"{self._done} entries", self._dtype, self._shape)
        return self._tensor

    def passes(self, part: "torch.Tensor") -> bool:
        """Return whether parts like this one follow each other in the bytes of the tensor."""
        return self.is_empty and self._cut(part) == 0

    def put(self, part: "torch.Tensor") -> None:
        """Add the next part.

        Raises:
            LayoutError: it has another type or shape, or is too much.
        """
        dim = self._cut(part)
        if dim is None:
            if self._tensor is None:
                self._tensor, self._done = part, self._shape[0] if self._shape else 0
            elif not self._tensor.equal(part):
                raise _differs("other elements with each part", self._dtype, self._shape)
            return
        if self._tensor is None:
            self._dim, self._tensor = dim, empty(self._dtype, self._shape)
        count = part.shape[dim]
        if dim != self._dim or self._done + count > self._shape[dim]:
            raise _differs(f"a part of {tuple(part.shape)}", self._dtype, self._shape)
        _bytes(self._tensor).narrow(dim, self._done, count).copy_(_bytes(part))
        self._done += count

    def _cut(self, part: "torch.Tensor") -> int | None:
        """Return the dimension of which a part has fewer entries; None if it has all."""
        shape = tuple(part.shape)
        if DType.parse(part.dtype) is self._dtype and len(shape) == len(self._shape):
            differing = [d for d, n in enumerate(shape) if n != self._shape[d]]
            if not differing:
                return None
            if len(differing) == 1:
                return differing[0]
        raise _differs(f"{part.dtype} {shape}", self._dtype, self._shape)


def empty(dtype: DType, shape: tuple[int, ...]) -> "torch.Tensor":
    """Return a tensor on the CPU whose elements are undefined, see `empty_bytes`."""
    return empty_bytes(prod(shape) * dtype.itemsize).view(dtype.to_torch()).view(shape)


def _bytes(tensor: "torch.Tensor") -> "torch.Tensor":
    """Return a tensor that can be copied: not every dtype can, bytes can."""
    import torch

    return tensor.view(torch.uint8) if tensor.element_size() == 1 else tensor


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
        raise _differs(f"{part.dtype} {tuple(part.shape)} after {done} rows", dtype, shape)


def check_end(dtype: DType, shape: tuple[int, ...], done: int) -> None:
    """Check that all rows of a tensor have come.

    Raises:
        LayoutError: some are missing.
    """
    if done != shape[0]:
        raise _differs(f"{done} rows", dtype, shape)


def _differs(found: str, dtype: DType, shape: tuple[int, ...]) -> LayoutError:
    return LayoutError(
        "a derived tensor differs from its declaration",
        found=found,
        expected=f"{dtype} {shape}",
    )
