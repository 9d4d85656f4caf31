"""GroupwiseFloatQuantTensor: small floats times a scale for each group."""

from typing import Any, ClassVar, Self

from qconfig.layouts.groupwise_quant import GroupwiseFloatQuantTensorLayout
from qconfig.tensors.quant_tensor.base import QuantTensor
from qconfig.tensors.quant_tensor.fields import as_flag
from qconfig.tensors.quant_tensor.float_mixin import FloatMixin
from qconfig.tensors.quant_tensor.groupwise_mixin import GroupwiseMixin, logical_shape
from qconfig.tensors.quant_tensor.groupwise_rules import GROUPWISE_RULES
from qconfig.tensors.quant_tensor.rules import RuleTable


class GroupwiseFloatQuantTensor(GroupwiseMixin, FloatMixin, QuantTensor):
    """Values `(small float - zero_point) * scale` with a scale for each group of values.

    Args:
        value: the values, dequantized and in groups: (…, groups, group_size, …); the last group
            is filled up with zeros.
        scale: (…, groups, 1, …), or one.
        zero_point: as `scale`.
        group_size: values of a group.
        group_dim: dimension of the logical shape that is cut into groups.
        exponent_bit_width: bits of an exponent; a number or a tensor.
        mantissa_bit_width: bits of a mantissa.
        exponent_bias: what is subtracted from an exponent.
        saturating: whether values out of range become the largest one.
        inf_values: mantissas, in bits, that mean infinity at the largest exponent, or None.
        nan_values: mantissas, in bits, that mean no number at the largest exponent, or None.
        signed: whether there is a sign.
        training: whether it is made in training.
        dequant_shape: logical shape; None if no group is filled up.

    Raises:
        LayoutError: naming the argument that does not fit.
    """

    layout_class: ClassVar[type] = GroupwiseFloatQuantTensorLayout
    kind: ClassVar[str] = "groupwise float"
    rules: ClassVar[RuleTable] = GROUPWISE_RULES

    def __new__(  # noqa: PLR0917
        cls,
        value: Any,
        scale: Any,
        zero_point: Any,
        group_size: int,
        group_dim: int,
        exponent_bit_width: Any,
        mantissa_bit_width: Any,
        exponent_bias: Any,
        saturating: Any,
        inf_values: Any,
        nan_values: Any,
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
            exponent_bit_width=exponent_bit_width,
            mantissa_bit_width=mantissa_bit_width,
            exponent_bias=exponent_bias,
            saturating=as_flag(saturating),
            inf_values=inf_values,
            nan_values=nan_values,
            signed=as_flag(signed),
            training=as_flag(training),
        )
