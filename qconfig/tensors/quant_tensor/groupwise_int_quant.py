"""GroupwiseIntQuantTensor: values on a grid of integers for each group."""

from typing import Any, ClassVar, Self

from qconfig.layouts.groupwise_quant import GroupwiseIntQuantTensorLayout
from qconfig.tensors.quant_tensor.base import QuantTensor
from qconfig.tensors.quant_tensor.fields import as_flag
from qconfig.tensors.quant_tensor.groupwise_mixin import GroupwiseMixin, logical_shape
from qconfig.tensors.quant_tensor.groupwise_rules import GROUPWISE_RULES
from qconfig.tensors.quant_tensor.int_mixin import IntMixin
from qconfig.tensors.quant_tensor.rules import RuleTable


class GroupwiseIntQuantTensor(GroupwiseMixin, IntMixin, QuantTensor):
    """Values `(int - zero_point) * scale` with a scale for each group of values.

    Args:
        value: the values, dequantized and in groups: (…, groups, group_size, …); the last group
            is filled up with zeros.
        scale: (…, groups, 1, …), or one.
        zero_point: as `scale`.
        group_size: values of a group.
        group_dim: dimension of the logical shape that is cut into groups.
        bit_width: bits of an integer; a number or a tensor.
        signed: whether integers have a sign.
        training: whether it is made in training.
        dequant_shape: logical shape; None if no group is filled up.

    Raises:
        LayoutError: naming the argument that does not fit.
    """

    layout_class: ClassVar[type] = GroupwiseIntQuantTensorLayout
    kind: ClassVar[str] = "groupwise int"
    rules: ClassVar[RuleTable] = GROUPWISE_RULES

    def __new__(  # noqa: PLR0917
        cls,
        value: Any,
        scale: Any,
        zero_point: Any,
        group_size: int,
        group_dim: int,
        bit_width: Any,
        signed: Any,
        training: Any = False,  # noqa: FBT002
        dequant_shape: Any = None,
    ) -> Self:
        """Check that the fields fit together, and make the tensor."""
        return cls.checked(
            value=value,
            scale=scale,
            zero_point=zero_point,
            group_size=group_size,
            group_dim=group_dim,
            dequant_shape=logical_shape(value, group_dim, dequant_shape),
            bit_width=bit_width,
            signed=as_flag(signed),
            training=as_flag(training),
        )
