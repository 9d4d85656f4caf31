"""Tensors as layouts and steps see them: a dtype, a shape, and bytes that may still lie in a file.

A migration step works on these values alone. A value that a step only renames or reshapes keeps
its byte range, so that an upgrade copies it from file to file and never decodes it.
"""

from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from attrs import frozen

from qconfig.codec.dtypes import DType
from qconfig.errors import LayoutError

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
    ) -> "TensorSpec":
        """Return the spec of what `function` would give; it is not called."""
        return TensorSpec(dtype or self.dtype, self.shape if shape is None else shape)


@frozen
class LazyTensor:
    """A tensor whose elements are produced when they are asked for.

    Args:
        dtype: element type.
        shape: dimensions.
        load: gives the tensor, contiguous, with exactly that dtype and shape.
        source: the bytes in a file, as long as nothing but the shape has changed.
    """

    dtype: DType
    shape: tuple[int, ...]
    load: "Callable[[], torch.Tensor]"
    source: ByteRange | None = None

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
        load = self.load
        return LazyTensor(self.dtype, target, lambda: load().reshape(target), self.source)

    def map(
        self,
        function: "Callable[[torch.Tensor], torch.Tensor]",
        *,
        dtype: DType | None = None,
        shape: tuple[int, ...] | None = None,
    ) -> "LazyTensor":
        """Return what `function` makes of the tensor, computed on demand.

        Args:
            function: pure; gets the tensor and returns one of the declared dtype and shape.
            dtype: element type of the result, where it changes.
            shape: shape of the result, where it changes.
        """
        load, target = self.load, shape if shape is not None else self.shape
        kind = dtype or self.dtype

        def derived() -> "torch.Tensor":
            result = function(load())
            if DType.parse(result.dtype) is not kind or tuple(result.shape) != target:
                raise LayoutError(
                    "a derived tensor differs from its declaration",
                    found=f"{result.dtype} {tuple(result.shape)}",
                    expected=f"{kind} {target}",
                )
            return result

        return LazyTensor(kind, target, derived)


def _reshaped(old: tuple[int, ...], new: tuple[int, ...]) -> tuple[int, ...]:
    known = prod(n for n in new if n != -1)
    if -1 in new and known:
        new = tuple(prod(old) // known if n == -1 else n for n in new)
    if prod(new) != prod(old) or min(new, default=0) < 0:
        raise LayoutError("a reshape changes the number of elements", found=new, expected=str(old))
    return new
