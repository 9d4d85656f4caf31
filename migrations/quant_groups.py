"""What the retired layouts of fake-quantized groups share."""

from math import prod

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
