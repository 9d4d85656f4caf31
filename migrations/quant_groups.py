"""What the retired layouts of fake-quantized values share."""

from math import prod
from typing import Any

from qconfig.codec.tensor_values import TensorValue
from qconfig.errors import MigrationError


def logical_shape(
    stored: tuple[int, ...], group_dim: int, dequant_shape: tuple[int, ...] | None
) -> tuple[int, ...]:
    """Return the logical shape; Brevitas may not say it, and then no group is filled up.

    Args:
        stored: shape of the values in groups.
        group_dim: logical dimension that is cut into groups.
        dequant_shape: what was said.

    Raises:
        MigrationError: nothing was said, and group_dim is no dimension of the values.
    """
    if dequant_shape is not None:
        return dequant_shape
    rank = len(stored) - 1
    if not -rank <= group_dim < rank:
        raise MigrationError(
            "group_dim is no dimension of the values",
            pointer="/group_dim",
            found=group_dim,
            expected=f"a dimension of {rank}",
        )
    dim = group_dim % rank
    return (*stored[:dim], prod(stored[dim : dim + 2]), *stored[dim + 2 :])


def metadata_of(old: Any) -> tuple[TensorValue, TensorValue]:
    """Return scale and zero point; one entry with more dimensions than the values loses them.

    Args:
        old: a layout with `value`, `scale` and `zero_point`.
    """
    rank = len(old.value.shape)

    def fitting(metadata: Any) -> TensorValue:
        shape = tuple(metadata.shape)
        found: TensorValue = metadata
        if len(shape) > rank and prod(shape) == 1:
            found = metadata.reshape()
        return found

    return fitting(old.scale), fitting(old.zero_point)
