"""One of several equal parts of a tensor, cut before it is read: a tensor-parallel shard."""

from typing import TYPE_CHECKING, Any

from attrs import frozen

from qconfig.codec.layout_values import present_fields, with_values, wrapped
from qconfig.codec.tensor_values import LazyTensor
from qconfig.errors import CheckpointError, UsageError
from qconfig.versioning import Layout, registry

if TYPE_CHECKING:
    import torch


@frozen
class TensorSlice:
    """One of several equal parts of a tensor: what one process of a tensor-parallel group holds.

    Raises:
        UsageError: no integers, or no such part.

    Args:
        dim: the dimension that is divided, from the end where negative.
        index: which part, from 0: the rank of the process in its group.
        count: how many parts: the size of the group.
    """

    dim: int
    index: int
    count: int

    def __attrs_post_init__(self) -> None:
        """Check that there is such a part."""
        if not all(type(n) is int for n in (self.dim, self.index, self.count)):
            raise UsageError("dim, index and count are integers", found=str(self))
        if not 0 <= self.index < self.count:
            raise UsageError(
                "there is no such part", found=str(self), expected="index from 0 to count - 1"
            )

    def bounds(self, shape: tuple[int, ...]) -> tuple[int, int, int]:
        """Return the dimension from 0, the first entry and the number of entries.

        Raises:
            CheckpointError: there is no such dimension, or it has no such equal parts.
        """
        rank = len(shape)
        if not -rank <= self.dim < rank:
            raise CheckpointError(
                "the tensor has no such dimension to cut",
                found=f"dimension {self.dim}",
                expected=f"one of shape {shape}",
            )
        dim = self.dim % rank
        if shape[dim] % self.count:
            raise CheckpointError(
                f"dimension {dim} cannot be cut into {self.count} equal parts",
                found=f"shape {shape}",
                expected=f"a multiple of {self.count}",
            )
        length = shape[dim] // self.count
        return dim, self.index * length, length

    def of(self, tensor: LazyTensor) -> LazyTensor:
        """Return this part of a plain tensor.

        Raises:
            CheckpointError: see `bounds`.
        """
        return tensor.narrow(*self.bounds(tensor.shape))

    def of_layout(self, layout: Layout) -> Layout:
        """Return this part of a quantized tensor in the current version, its fields cut alike.

        The tensor class says how: a tensor without elements is cut, and what was taken of each of
        its inner tensors is taken of the stored ones.

        Raises:
            CheckpointError: see `bounds`; or elements that share a scale would be parted.
            LayoutError, UnsupportedOperationError: the tensor cannot be cut there.
        """
        from qconfig.tensors.classes import tensor_class_of

        current: Any = wrapped(registry.convert(layout))
        dim, start, length = self.bounds(tuple(current.shape))
        if self.count == 1:
            return layout
        stored = {name: getattr(current, name) for name in present_fields(current)}
        outlines = {name: outline(tensor) for name, tensor in stored.items()}
        whole = tensor_class_of(type(current)).from_layout(with_values(current, outlines))
        part = whole.narrow(dim, start, length)
        if type(part) is not type(whole):
            raise CheckpointError(
                f"a cut along dimension {dim} would part elements that share a scale",
                found=f"{start}:{start + length}",
                expected="a cut between groups",
            )
        result: Layout = part.to_layout()
        taken = {
            name: _taken(name, stored[name], outlines[name], getattr(result, name))
            for name in present_fields(result)
        }
        return with_values(result, taken)


def outline(tensor: LazyTensor) -> "torch.Tensor":
    """Return a tensor on the meta device, of the same type and shape: nothing is read."""
    import torch

    return torch.empty(tensor.shape, dtype=tensor.dtype.to_torch(), device="meta")


def _taken(
    name: str, stored: LazyTensor, whole: "torch.Tensor", part: "torch.Tensor"
) -> LazyTensor:
    """Return of a stored tensor what `part`, a view, is of `whole`."""
    sizes = zip(whole.shape, part.shape, strict=False)
    cut = [dim for dim, (old, new) in enumerate(sizes) if old != new]
    is_part = (
        _storage(part) == _storage(whole)
        and part.dim() == whole.dim()
        and part.stride() == whole.stride()
        and len(cut) <= 1
    )
    if not is_part:
        raise CheckpointError(
            f"{name} cannot be cut before it is read",
            found=f"shape {tuple(whole.shape)}",
            expected="a part of it along one dimension",
            hint="load the tensor whole, and cut it then",
        )
    if not cut:
        return stored
    dim = cut[0]
    return stored.narrow(dim, part.storage_offset() // whole.stride(dim), part.shape[dim])


def _storage(tensor: "torch.Tensor") -> int:
    storage: int = tensor.untyped_storage()._cdata  # noqa: SLF001 (meta has no addresses)
    return storage
