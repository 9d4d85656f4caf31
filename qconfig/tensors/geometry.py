"""How the inner tensors of a packed weight follow the dimensions that it shows."""

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING

import torch
from attrs import frozen

if TYPE_CHECKING:
    from qconfig.tensors.matrix import MatrixTensor


class Follows(Enum):
    """Which logical dimension each dimension of an inner tensor belongs to."""

    SAME = "same"
    """Dimension by dimension, one entry for one or several elements: codes, scales (N, K/g)."""
    SWAPPED = "swapped"
    """As SAME, the last two exchanged: scales (K/g, N)."""
    COLUMNS = "columns"
    """The last belongs to the columns, (..., K), or is of size 1: a factor for activations."""
    ROWS = "rows"
    """The last belongs to the rows, (..., N), or is of size 1: a scale of outputs."""
    MATRICES = "matrices"
    """As SAME, one entry for each matrix, (B, 1, 1), or a single one for all of them."""
    NOTHING = "nothing"
    """None does: one scale for the whole tensor."""


_VECTORS = (Follows.COLUMNS, Follows.ROWS)


@frozen
class Field:
    """An inner tensor that is there.

    Args:
        name: its name in the layout.
        tensor: the tensor.
        follows: how its dimensions follow the logical ones.
        is_payload: whether it holds the codes.
    """

    name: str
    tensor: torch.Tensor
    follows: Follows
    is_payload: bool

    @property
    def is_tiled(self) -> bool:
        """Whether it has a dimension for each logical one."""
        if self.follows is Follows.MATRICES:
            return self.tensor.numel() != 1
        return self.follows in (Follows.SAME, Follows.SWAPPED)

    @property
    def is_flipped(self) -> bool:
        """Whether it is a vector, (..., K, 1), of a tensor whose last two dimensions are swapped.

        Such a tensor is on its way into a product, which changes them back; no layout holds it.
        """
        return self.follows in _VECTORS and _is_flipped_vector(self.tensor)

    def followed(self, rank: int) -> int | None:
        """Return the logical dimension that a vector belongs to; None for one of a single entry."""
        if self.follows not in _VECTORS or self.tensor.numel() == 1:
            return None
        last = (self.follows is Follows.COLUMNS) != self.is_flipped
        return rank - 1 if last else rank - 2

    def dimension(self, dim: int, rank: int) -> int | None:
        """Return its dimension that belongs to a logical one of `rank`, or None.

        A vector of size 1 that follows rows or columns serves all of them, so it has none.
        """
        if self.is_tiled:
            is_last_two = dim >= rank - 2 and rank >= 2
            swapped = self.follows is Follows.SWAPPED and is_last_two
            return 2 * rank - 3 - dim if swapped else dim
        own = self.tensor.dim() - (2 if self.is_flipped else 1)
        return own if dim == self.followed(rank) and own >= 0 else None


def present_fields(weight: "MatrixTensor") -> list[Field]:
    """Return the inner tensors that are there, the payload first."""
    follows = weight.follows
    return [
        Field(name, tensor, follows[name], index == 0)
        for index, (name, tensor) in enumerate(weight.inner_tensors.items())
        if tensor is not None
    ]


def row_dimension(field: Field, shape: Sequence[int]) -> int | None:
    """Return a field's dimension that belongs to dimension 0 of a tensor of `shape`, or None.

    The only entry of a single row, or of a single matrix, may be its own: where such pieces are
    put together it counts as that.
    """
    own, rank, size = field.dimension(0, len(shape)), len(shape), field.tensor.dim()
    if own is not None or shape[0] != 1 or not size:
        return own
    if field.follows is Follows.ROWS and rank == 2:
        return size - 1
    return 0 if field.follows is Follows.MATRICES and size == rank > 2 else None


def flipped_field(weight: "MatrixTensor") -> str | None:
    """Return the name of a vector whose tensor is turned the wrong way for a product, or None."""
    for name, follows in weight.follows.items():
        tensor = getattr(weight, name) if follows in _VECTORS else None
        if tensor is None or not _is_flipped_vector(tensor):
            continue
        if tensor.shape[-2] == weight.logical_shape[-2 if follows is Follows.COLUMNS else -1]:
            return name
    return None


def _is_flipped_vector(tensor: torch.Tensor) -> bool:
    return tensor.dim() > 1 and tensor.shape[-1] == 1 and tensor.numel() > 1


def elements_per_entry(field: Field, dim: int, size: int, rank: int) -> int:
    """Return how many logical elements along a dimension share one entry; 0 if all of several do.

    Args:
        field: an inner tensor that has a dimension for `dim`.
        dim: the logical dimension.
        size: its size.
        rank: number of logical dimensions.
    """
    own = field.dimension(dim, rank)
    entries = field.tensor.shape[own] if own is not None else 1
    if entries in (0, size):
        return 1
    return 0 if entries == 1 and not field.is_payload else size // entries
