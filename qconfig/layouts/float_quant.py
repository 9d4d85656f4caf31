"""Layout of fake-quantized small floats, current version; that of Brevitas lies in migrations."""

from attrs import frozen

from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import TensorValue
from qconfig.layouts.quant_shapes import check_codes, check_metadata, check_numbers
from qconfig.versioning import Layout, attribute, register_layout, tensor

FORMAT = ("exponent_bit_width", "mantissa_bit_width", "exponent_bias")
"""The fields that are numbers of a floating-point format."""


@register_layout("FloatQuantTensorLayout", 2)
@frozen
class FloatQuantTensorLayout(Layout):
    """Values that are small floats times a scale: Brevitas' FloatQuantTensor.

    The small float of a value is `value / scale + zero_point`.
    """

    value: TensorValue = tensor("The values, dequantized.", "float", "*B")
    scale: TensorValue = tensor("Factor of the small floats; broadcasts to value.", "float", "*S")
    zero_point: TensorValue = tensor("Small float of the value zero.", "float", "*Z")
    exponent_bit_width: TensorValue = tensor("Bits of an exponent; one number.", "float", "*E")
    mantissa_bit_width: TensorValue = tensor("Bits of a mantissa; one number.", "float", "*M")
    exponent_bias: TensorValue = tensor("What is subtracted from an exponent.", "float", "*X")
    saturating: bool = attribute("Whether values out of range become the largest one.")
    inf_values: tuple[str, ...] | None = attribute(
        "Mantissas, in bits, that mean infinity at the largest exponent."
    )
    nan_values: tuple[str, ...] | None = attribute(
        "Mantissas, in bits, that mean no number at the largest exponent."
    )
    signed: bool = attribute("Whether there is a sign.")
    training: bool = attribute("Whether it was made in training.", default=False)

    @property
    def dtype(self) -> DType:
        """Element type of the values."""
        return DType.parse(self.value.dtype)

    def check_relations(self) -> None:
        """Check that scale and zero point fit the values, and the numbers of the format.

        Raises:
            LayoutError: naming the field.
        """
        check_metadata(self, ("scale", "zero_point"), tuple(self.value.shape))
        check_numbers(self, FORMAT)
        check_codes(self, ("inf_values", "nan_values"))
