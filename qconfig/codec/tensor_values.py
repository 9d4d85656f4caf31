"""Tensors as layouts and steps see them: a dtype, a shape, and bytes that may still lie in a file.

A migration step works on these values alone. A value that a step only renames or reshapes keeps
its byte range, so that an upgrade copies it from file to file and never decodes it.
"""

from collections.abc import Callable, Iterator, Sequence
from math import gcd, lcm, prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from attrs import evolve, frozen

from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_parts import (
    PART_BYTES,
    check_end,
    check_part,
    cut,
    joined,
    rows_at_once,
)
from qconfig.errors import LayoutError, QconfigError

if TYPE_CHECKING:
    import torch


@frozen
class ByteRange:
    """Where the bytes of a tensor lie: little-endian, row-major, without gaps."""

    path: Path
    offset: int
    length: int


@runtime_checkable
class TensorValue(Protocol):
    """Anything with a dtype and a shape: a specification, a stored or derived tensor.

    `torch.Tensor` satisfies it for reading `dtype` and `shape` only.
    """

    @property
    def dtype(self) -> Any:
        """A DType, or a torch.dtype."""

    @property
    def shape(self) -> Any:
        """The dimensions, as a sequence of ints."""


def nbytes(value: TensorValue) -> int:
    """Return the bytes that the elements of `value` take, row-major without gaps."""
    return int(prod(value.shape)) * DType.parse(value.dtype).itemsize


@frozen
class TensorSpec:
    """A tensor of which only dtype and shape are known: enough for plans and schemas."""

    dtype: DType
    shape: tuple[int, ...]

    def reshape(self, *shape: int) -> "TensorSpec":
        """Return the spec with another shape of as many elements."""
        return TensorSpec(self.dtype, _reshaped(self.shape, shape))

    def map(
        self,
        function: "Callable[[torch.Tensor], torch.Tensor]",
        *,
        dtype: DType | None = None,
        shape: tuple[int, ...] | None = None,
        by_rows: int = 0,
        beside: "Sequence[TensorSpec]" = (),
    ) -> "TensorSpec":
        """Return the spec of what `function` would give; it is not called."""
        return TensorSpec(dtype or self.dtype, self.shape if shape is None else shape)

    def spread(
        self,
        function: "Callable[..., torch.Tensor]",
        *,
        shape: tuple[int, ...],
        dtype: DType | None = None,
        together: int = 1,
        beside: "Sequence[TensorSpec]" = (),
    ) -> "TensorSpec":
        """Return the spec of what `function` would give; it is not called."""
        return TensorSpec(dtype or self.dtype, shape)


@frozen
class LazyTensor:
    """A tensor whose elements are produced when they are asked for.

    Args:
        dtype: element type.
        shape: dimensions.
        load: gives the tensor, contiguous, with exactly that dtype and shape.
        source: the bytes in a file, as long as nothing but the shape has changed.
        read: gives a part of `source`, as a vector of uint8, without reading the rest.
        parts: yields some rows at a time, that is entries of dimension 0, as many as a multiple of
            its argument but for the last time, and needs memory for these only.
        work: bytes of memory that making it takes, with what it is made of; 0 if nobody says.
    """

    dtype: DType
    shape: tuple[int, ...]
    load: "Callable[[], torch.Tensor]"
    source: ByteRange | None = None
    read: "Callable[[ByteRange], torch.Tensor] | None" = None
    parts: "Callable[[int], Iterator[torch.Tensor]] | None" = None
    work: int = 0

    def __repr__(self) -> str:
        """Return what an error may say of it."""
        return f"a tensor of {self.dtype} {self.shape}"

    @classmethod
    def of(cls, tensor: "torch.Tensor") -> "LazyTensor":
        """Wrap a tensor that is already in memory."""
        return cls(DType.parse(tensor.dtype), tuple(tensor.shape), lambda: tensor)

    def reshape(self, *shape: int) -> "LazyTensor":
        """Return the same bytes under another shape (one entry may be -1)."""
        target = _reshaped(self.shape, shape)
        load, parts = self.load, self.parts
        again = None if parts is None else _reshaped_parts(parts, self.shape, target)
        return LazyTensor(
            self.dtype,
            target,
            lambda: load().reshape(target),
            self.source,
            self.read,
            again,
            self.work,
        )

    def in_parts(self, multiple: int = 1, row_bytes: int = 0) -> "Iterator[torch.Tensor]":
        """Yield some megabytes of rows at a time, in order; a scalar is one part.

        What lies in a file is read part by part. What can only be made as a whole is in memory as
        a whole.

        Args:
            multiple: how many rows go together; only the last part may have others.
            row_bytes: what a row takes after what is done with it, if that is more.
        """
        if self.parts is not None:
            yield from self.parts(multiple)
            return
        rows = (
            rows_at_once(max(row_bytes, _row_bytes(self.shape, self.dtype)), multiple)
            if self.shape
            else 1
        )
        if not self.shape or rows >= self.shape[0]:
            yield self.load()
        elif self.source is None or self.read is None:
            yield from cut(self.load(), rows)
        else:
            for start in range(0, self.shape[0], rows):
                yield self.narrow(0, start, min(rows, self.shape[0] - start)).load()

    def narrow(self, dim: int, start: int, length: int) -> "LazyTensor":
        """Return `length` entries of a dimension from `start` on, without what they lie in.

        Of a tensor in a file only those bytes are read that lie between the first and the last
        entry; entries of dimension 0 lie together, so that nothing else is.

        Args:
            dim: the dimension, from 0.
            start: the first entry.
            length: how many, all there.

        Raises:
            LayoutError: there are no such entries.
        """
        rank, size = len(self.shape), self.shape[dim] if 0 <= dim < len(self.shape) else 0
        if not (0 <= dim < rank and 0 <= start <= start + length <= size):
            raise LayoutError(
                "there are no such entries",
                found=f"{start} to {start + length} along dimension {dim}",
                expected=f"a part of shape {self.shape}",
            )
        shape = (*self.shape[:dim], length, *self.shape[dim + 1 :])
        if shape == self.shape:
            return self
        load, dtype, source, read = self.load, self.dtype, self.source, self.read
        if source is None or read is None:
            # A copy, so that the rest can go.
            return LazyTensor(dtype, shape, lambda: load().narrow(dim, start, length).clone())
        entry = prod(self.shape[dim + 1 :]) * dtype.itemsize
        first, taken = start * entry, length * entry
        if prod(self.shape[:dim]) == 1:
            part = ByteRange(source.path, source.offset + first, taken)
            return LazyTensor(dtype, shape, lambda: _typed(read(part), dtype, shape), part, read)
        rows, row = prod(self.shape[:dim]), self.shape[dim] * entry
        return LazyTensor(
            dtype,
            shape,
            lambda: _typed(_columns(read, source, (rows, row), (first, taken)), dtype, shape),
        )

    def map(
        self,
        function: "Callable[[torch.Tensor], torch.Tensor]",
        *,
        dtype: DType | None = None,
        shape: tuple[int, ...] | None = None,
        by_rows: int = 0,
        beside: "Sequence[LazyTensor]" = (),
    ) -> "LazyTensor":
        """Return what `function` makes of the tensor, computed on demand.

        Args:
            function: pure; gets the tensor, and those beside it, and returns one of the declared
                dtype and shape.
            dtype: element type of the result, where it changes.
            shape: shape of the result, where it changes.
            by_rows: how many rows go together: rows of the result depend on these same rows alone,
                and `function` can be given any number of them, all but the last time a multiple of
                this. Large tensors need little memory then. 0 if it needs the whole.
            beside: further tensors, with as many rows.
        """
        load, target = self.load, shape if shape is not None else self.shape
        kind = dtype or self.dtype
        if by_rows and target:

            def parts(multiple: int) -> "Iterator[torch.Tensor]":
                done, others = 0, [t if t.read else LazyTensor.of(t.load()) for t in beside]
                for part in self.in_parts(lcm(multiple, by_rows), _row_bytes(target, kind)):
                    count = part.shape[0]
                    try:
                        result = function(part, *(t.narrow(0, done, count).load() for t in others))
                    except QconfigError:
                        function(load(), *(t.load() for t in others))  # speaks of the whole tensor
                        raise
                    check_part(result, kind, target, done)
                    done += count
                    yield result
                check_end(kind, target, done)

            return LazyTensor(kind, target, lambda: joined(parts(1), kind, target), parts=parts)

        def derived() -> "torch.Tensor":
            result = function(load(), *(t.load() for t in beside))
            if DType.parse(result.dtype) is not kind or tuple(result.shape) != target:
                raise LayoutError(
                    "a derived tensor differs from its declaration",
                    found=f"{result.dtype} {tuple(result.shape)}",
                    expected=f"{kind} {target}",
                )
            return result

        taken = sum(nbytes(value) for value in (self, *beside)) + prod(target) * kind.itemsize
        return LazyTensor(kind, target, derived, work=max(2 * taken, self.work + taken))

    def spread(
        self,
        function: "Callable[..., torch.Tensor]",
        *,
        shape: tuple[int, ...],
        dtype: DType | None = None,
        together: int = 1,
        beside: "Sequence[LazyTensor]" = (),
    ) -> "LazyTensor":
        """Return what `function` makes of the whole tensor, some rows of the result at a time.

        The tensor is in memory as a whole then; the result is not.

        Args:
            function: pure; gets the first row that it makes, the one after the last, the tensor and
                those beside it, and returns these rows.
            shape: shape of the result; it has dimensions.
            dtype: element type of the result, where it changes.
            together: how many rows go together: only the last time it is asked for others.
            beside: further tensors.
        """
        kind, sources = dtype or self.dtype, (self, *beside)

        def parts(multiple: int) -> "Iterator[torch.Tensor]":
            whole = [tensor.load() for tensor in sources]
            rows = rows_at_once(_row_bytes(shape, kind), lcm(multiple, together))
            for first in range(0, shape[0], rows):
                stop = min(first + rows, shape[0])
                part = function(first, stop, *whole)
                check_part(part, kind, (stop, *shape[1:]), first)
                yield part
                del part

        work = sum(max(nbytes(tensor), tensor.work) for tensor in sources) + 32 * PART_BYTES
        made = LazyTensor(kind, shape, lambda: joined(parts(1), kind, shape), parts=parts)
        return evolve(made, work=work)


_APART = 1 << 20
"""Bytes of a row from which on a cut of columns reads row by row, and not what lies between."""

_AT_ONCE = 1 << 24
"""Bytes that a cut of columns reads at once otherwise, if a row is not more."""


def _columns(
    read: "Callable[[ByteRange], torch.Tensor]",
    source: ByteRange,
    matrix: tuple[int, int],
    columns: tuple[int, int],
) -> "torch.Tensor":
    """Return some columns of a matrix of bytes, as (rows, taken) uint8.

    Args:
        read: gives a part of the matrix.
        source: where it lies.
        matrix: its rows, and bytes of a row.
        columns: the first byte of a row that is taken, and how many are.
    """
    import torch

    (rows, row), (first, taken) = matrix, columns
    result = torch.empty(rows, taken, dtype=torch.uint8, device="cpu")
    if not result.numel():
        return result
    at_once = 1 if taken >= _APART else max(_AT_ONCE // row, 1)
    for top in range(0, rows, at_once):
        count = min(at_once, rows - top)
        # From the first byte that is taken to the last one.
        length = (count - 1) * row + taken
        flat = read(ByteRange(source.path, source.offset + top * row + first, length))
        result[top : top + count] = flat.as_strided((count, taken), (row, 1))
    return result


def _typed(flat: "torch.Tensor", dtype: DType, shape: tuple[int, ...]) -> "torch.Tensor":
    return flat.reshape(-1).view(dtype.to_torch()).reshape(shape)


def _row_bytes(shape: tuple[int, ...], dtype: DType) -> int:
    return prod(shape[1:]) * dtype.itemsize


def _reshaped_parts(
    parts: "Callable[[int], Iterator[torch.Tensor]]", old: tuple[int, ...], new: tuple[int, ...]
) -> "Callable[[int], Iterator[torch.Tensor]] | None":
    """Return what gives parts in another shape, or None where a row would be less than one."""
    row = prod(new[1:])
    if not new or not row or prod(old[1:]) % row:
        return None
    times = prod(old[1:]) // row

    def again(multiple: int) -> "Iterator[torch.Tensor]":
        for part in parts(multiple // gcd(multiple, times)):
            yield part.reshape(part.numel() // row, *new[1:])

    return again


def _reshaped(old: tuple[int, ...], new: tuple[int, ...]) -> tuple[int, ...]:
    known = prod(n for n in new if n != -1)
    if -1 in new and known:
        new = tuple(prod(old) // known if n == -1 else n for n in new)
    if prod(new) != prod(old) or min(new, default=0) < 0:
        raise LayoutError("a reshape changes the number of elements", found=new, expected=str(old))
    return new
