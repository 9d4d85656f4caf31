"""FloatQuantTensorLayout: the NamedTuple of Brevitas, its fields by their names and order.

| ours | Brevitas | what was new |
|---|---|---|
| 1 | 0.11 to 0.13, a NamedTuple of 11 | – |
| 2 | none | flags lose their suffix; scale and zero point have to fit the values |
"""

from attrs import frozen

from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import TensorValue
from qconfig.layouts.float_quant import FloatQuantTensorLayout
from qconfig.migrations.quant_groups import metadata_of
from qconfig.versioning import Layout, attribute, migration, register_layout, tensor


@register_layout("FloatQuantTensorLayout", 1)
@frozen
class FloatQuantTensorLayoutV1(Layout):
    """Small floats times a scale, as Brevitas keeps them."""

    value: TensorValue = tensor("The values, dequantized.", "float", "*B")
    scale: TensorValue = tensor("Factor of the small floats.", "float", "*S")
    zero_point: TensorValue = tensor("Small float of the value zero.", "float", "*Z")
    exponent_bit_width: TensorValue = tensor("Bits of an exponent.", "float", "*E")
    mantissa_bit_width: TensorValue = tensor("Bits of a mantissa.", "float", "*M")
    exponent_bias: TensorValue = tensor("What is subtracted from an exponent.", "float", "*X")
    saturating_t: bool = attribute("Whether values out of range become the largest one.")
    inf_values: tuple[str, ...] | None = attribute("Mantissas that mean infinity.")
    nan_values: tuple[str, ...] | None = attribute("Mantissas that mean no number.")
    signed_t: bool = attribute("Whether there is a sign.")
    training_t: bool = attribute("Whether it was made in training.")

    @property
    def dtype(self) -> DType:
        """Element type of the values."""
        return DType.parse(self.value.dtype)


@migration()
def plain_flags(old: FloatQuantTensorLayoutV1) -> FloatQuantTensorLayout:
    """Drop suffixes, and dimensions of one entry that values lack; refuse what is not aligned."""
    scale, zero_point = metadata_of(old)
    return FloatQuantTensorLayout(
        old.value,
        scale,
        zero_point,
        old.exponent_bit_width,
        old.mantissa_bit_width,
        old.exponent_bias,
        old.saturating_t,
        old.inf_values,
        old.nan_values,
        old.signed_t,
        old.training_t,
    )
