"""IntQuantTensorLayout: the NamedTuple of Brevitas, its fields by their names and order.

| ours | Brevitas | what was new |
|---|---|---|
| 1 | 0.2 to 0.13, a NamedTuple of 6 | – |
| 2 | none | flags lose their suffix; scale and zero point have to fit the values |

Flags are tensors of one element in Brevitas; who reads a file says them as booleans.
"""

from attrs import frozen

from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import TensorValue
from qconfig.layouts.int_quant import IntQuantTensorLayout
from qconfig.migrations.quant_groups import metadata_of
from qconfig.versioning import Layout, attribute, migration, register_layout, tensor


@register_layout("IntQuantTensorLayout", 1)
@frozen
class IntQuantTensorLayoutV1(Layout):
    """Values on a grid of integers, as Brevitas keeps them."""

    value: TensorValue = tensor("The values, dequantized.", "float", "*B")
    scale: TensorValue = tensor("Step of the grid.", "float", "*S")
    zero_point: TensorValue = tensor("Integer of the value zero.", "float", "*Z")
    bit_width: TensorValue = tensor("Bits of an integer.", "float", "*W")
    signed_t: bool = attribute("Whether integers have a sign.")
    training_t: bool = attribute("Whether it was made in training.")

    @property
    def dtype(self) -> DType:
        """Element type of the values."""
        return DType.parse(self.value.dtype)


@migration()
def plain_flags(old: IntQuantTensorLayoutV1) -> IntQuantTensorLayout:
    """Drop suffixes, and dimensions of one entry that values lack; refuse what is not aligned."""
    scale, zero_point = metadata_of(old)
    return IntQuantTensorLayout(
        old.value, scale, zero_point, old.bit_width, old.signed_t, old.training_t
    )
