"""Which scales share what: the shape that the scales of a config have, from the shape alone."""

from typing import Any

from qconfig.configs.granularity import PerTensor
from qconfig.configs.groupwise_quant import GroupwiseFloatQuantConfig, GroupwiseIntQuantConfig
from qconfig.configs.quant_choices import ScaleKind, ZeroPointKind
from qconfig.errors import FieldError

GroupwiseConfig = GroupwiseIntQuantConfig | GroupwiseFloatQuantConfig
Shape = tuple[int, ...]


def axis_of(config: Any, rank: int) -> int | None:
    """Return the axis with a scale an index, from 0; None for one scale.

    Raises:
        FieldError: there is no such axis.
    """
    if isinstance(config.granularity, PerTensor):
        return None
    return _dimension(config.granularity.axis, rank, "/granularity/axis")


def group_dim_of(config: GroupwiseConfig, rank: int) -> int:
    """Return the dimension along which groups lie, from 0.

    Raises:
        FieldError: there is no such dimension.
    """
    return _dimension(config.group_dim, rank, "/group_dim")


def value_shape(shape: Shape, config: Any) -> Shape:
    """Return the shape in which values are stored: that of groups, where there are groups.

    Raises:
        FieldError: the groups' dimension does not exist.
    """
    if not isinstance(config, GroupwiseConfig):
        return shape
    dim, size = group_dim_of(config, len(shape)), config.group_size
    return (*shape[:dim], -(-shape[dim] // size), size, *shape[dim + 1 :])


def scale_shape(shape: Shape, config: Any) -> Shape:
    """Return the shape of scales that are statistics of values, or learned: 1 where shared.

    Raises:
        FieldError: the axis, or the groups' dimension, does not exist.
    """
    if isinstance(config, GroupwiseConfig):
        dim, stored = group_dim_of(config, len(shape)), value_shape(shape, config)
        return (*stored[: dim + 1], 1, *stored[dim + 2 :])
    axis = axis_of(config, len(shape))
    if axis is None:
        return ()
    return tuple(size if dim == axis else 1 for dim, size in enumerate(shape))


def given_scale_shape(shape: Shape, config: Any) -> Shape:
    """Return the shape of the scales that a weight gets, constant ones too.

    Raises:
        FieldError: the axis, or the groups' dimension, does not exist.
    """
    found = scale_shape(shape, config)
    return {ScaleKind.CONST: (), ScaleKind.UNSCALED: (1,)}.get(config.scale_kind, found)


def zero_point_shape(shape: Shape, config: Any) -> Shape:
    """Return the shape of the zero points that a weight of integers gets.

    Raises:
        FieldError: the axis, or the groups' dimension, does not exist.
    """
    found = scale_shape(shape, config)
    return () if config.zero_point_kind is ZeroPointKind.NONE else found


def _dimension(value: int, rank: int, pointer: str) -> int:
    if not -rank <= value < rank:
        raise FieldError(
            "no dimension of the tensor",
            pointer=pointer,
            found=value,
            expected=f"a dimension of a tensor of rank {rank}",
        )
    return value % rank
