"""GroupwiseFloatQuantTensorLayout: the NamedTuple of Brevitas, its fields by names and order.

| ours | Brevitas | what was new |
|---|---|---|
| 1 | 0.12 and 0.13, a NamedTuple of 14; 0.11 has 13, without dequant_shape | – |
| 2 | none | names without suffixes; the logical shape is always said; scales fit the groups |
"""

from attrs import frozen

from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import TensorValue
from qconfig.layouts.groupwise_quant import GroupwiseFloatQuantTensorLayout
from qconfig.migrations.quant_groups import logical_shape
from qconfig.versioning import Layout, attribute, migration, register_layout, tensor


@register_layout("GroupwiseFloatQuantTensorLayout", 1)
@frozen
class GroupwiseFloatQuantTensorLayoutV1(Layout):
    """Small floats times a scale for each group, as Brevitas keeps them."""

    value_: TensorValue = tensor("The values, dequantized, in groups.", "float", "*B")
    scale_: TensorValue = tensor("Factor of each group.", "float", "*S")
    zero_point_: TensorValue = tensor("Small float of the value zero.", "float", "*Z")
    group_size: int = attribute("Values of a group.", minimum=1, maximum=2**31 - 1)
    group_dim: int = attribute("Logical dimension of groups.", minimum=-16, maximum=15)
    exponent_bit_width: TensorValue = tensor("Bits of an exponent.", "float", "*E")
    mantissa_bit_width: TensorValue = tensor("Bits of a mantissa.", "float", "*M")
    exponent_bias: TensorValue = tensor("What is subtracted from an exponent.", "float", "*X")
    saturating_t: bool = attribute("Whether values out of range become the largest one.")
    inf_values: tuple[str, ...] | None = attribute("Mantissas that mean infinity.")
    nan_values: tuple[str, ...] | None = attribute("Mantissas that mean no number.")
    signed_t: bool = attribute("Whether there is a sign.")
    training_t: bool = attribute("Whether it was made in training.")
    dequant_shape: tuple[int, ...] | None = attribute(
        "Logical shape; null if the last group is full.", default=None, max_length=15
    )

    @property
    def shape(self) -> tuple[int, ...]:
        """Logical shape."""
        stored = tuple(self.value_.shape)
        shape: tuple[int, ...] = logical_shape(stored, self.group_dim, self.dequant_shape)
        return shape

    @property
    def dtype(self) -> DType:
        """Element type of the values."""
        return DType.parse(self.value_.dtype)


@migration()
def plain_names(old: GroupwiseFloatQuantTensorLayoutV1) -> GroupwiseFloatQuantTensorLayout:
    """Drop the suffixes and say the logical shape; refuse what is not in its groups."""
    return GroupwiseFloatQuantTensorLayout(
        value=old.value_,
        scale=old.scale_,
        zero_point=old.zero_point_,
        group_size=old.group_size,
        group_dim=old.group_dim,
        dequant_shape=old.shape,
        exponent_bit_width=old.exponent_bit_width,
        mantissa_bit_width=old.mantissa_bit_width,
        exponent_bias=old.exponent_bias,
        saturating=old.saturating_t,
        inf_values=old.inf_values,
        nan_values=old.nan_values,
        signed=old.signed_t,
        training=old.training_t,
    )
