"""Layout of fake-quantized integers, current version; the one of Brevitas lies in migrations."""

from attrs import frozen

from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import TensorValue
from qconfig.layouts.quant_shapes import check_metadata, check_numbers
from qconfig.versioning import Layout, attribute, register_layout, tensor


@register_layout("IntQuantTensorLayout", 2)
@frozen
class IntQuantTensorLayout(Layout):
    """Values on a grid of integers, with what makes the integers: Brevitas' IntQuantTensor.

    The integer of a value is `value / scale + zero_point`; a value is `(int - zero_point) * scale`.
    """

    value: TensorValue = tensor("The values, dequantized.", "float", "*B")
    scale: TensorValue = tensor("Step of the grid; broadcasts to value.", "float", "*S")
    zero_point: TensorValue = tensor("Integer of the value zero, in steps.", "float", "*Z")
    bit_width: TensorValue = tensor("Bits of an integer; one number.", "float", "*W")
    signed: bool = attribute(
        "Whether integers lie in [-2**(b-1), 2**(b-1) - 1], or in [0, 2**b - 1]."
    )
    training: bool = attribute(
        "Whether it was made in training, where scales of operands may differ.", default=False
    )

    @property
    def dtype(self) -> DType:
        """Element type of the values."""
        return DType.parse(self.value.dtype)

    def check_relations(self) -> None:
        """Check that scale and zero point fit the values, and that there is one bit width.

        Raises:
            LayoutError: naming the field.
        """
        check_metadata(self, ("scale", "zero_point"), tuple(self.value.shape))
        check_numbers(self, ("bit_width",))
