"""Layouts of fake-quantized values in groups, current versions; those of Brevitas are retired."""

from typing import Any

from attrs import frozen

from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import TensorValue
from qconfig.layouts.float_quant import FORMAT
from qconfig.layouts.quant_shapes import check_codes, check_groups, check_numbers
from qconfig.versioning import Layout, attribute, register_layout, tensor

_SIZE = 2**31 - 1
_VALUE = (
    "The values, dequantized, in groups: the logical dimension group_dim is two, "
    "(groups, group_size); the last group is filled up with zeros."
)


def _group_size() -> Any:
    return attribute("Values of a group.", minimum=1, maximum=_SIZE)


def _group_dim() -> Any:
    return attribute(
        "Logical dimension that is cut into groups; negative ones count from the end.",
        minimum=-16,
        maximum=15,
    )


def _dequant_shape() -> Any:
    return attribute("Logical shape.", min_length=1, max_length=15)


@register_layout("GroupwiseIntQuantTensorLayout", 2)
@frozen
class GroupwiseIntQuantTensorLayout(Layout):
    """Values on grids of integers, one grid a group: Brevitas' GroupwiseIntQuantTensor."""

    value: TensorValue = tensor(_VALUE, "float", "*B")
    scale: TensorValue = tensor("Step of each group, (…, groups, 1, …), or one.", "float", "*S")
    zero_point: TensorValue = tensor("Integer of the value zero, as scale.", "float", "*Z")
    group_size: int = _group_size()
    group_dim: int = _group_dim()
    dequant_shape: tuple[int, ...] = _dequant_shape()
    bit_width: TensorValue = tensor("Bits of an integer; one number.", "float", "*W")
    signed: bool = attribute("Whether integers have a sign.")
    training: bool = attribute("Whether it was made in training.", default=False)

    @property
    def shape(self) -> tuple[int, ...]:
        """Logical shape."""
        return self.dequant_shape

    @property
    def dtype(self) -> DType:
        """Element type of the values."""
        return DType.parse(self.value.dtype)

    def check_relations(self) -> None:
        """Check that values, scale and zero point are in groups, and that there is one bit width.

        Raises:
            LayoutError: naming the field.
        """
        check_groups(self)
        check_numbers(self, ("bit_width",))


@register_layout("GroupwiseFloatQuantTensorLayout", 2)
@frozen
class GroupwiseFloatQuantTensorLayout(Layout):
    """Small floats times a scale for each group: Brevitas' GroupwiseFloatQuantTensor."""

    value: TensorValue = tensor(_VALUE, "float", "*B")
    scale: TensorValue = tensor("Factor of each group, (…, groups, 1, …), or one.", "float", "*S")
    zero_point: TensorValue = tensor("Small float of the value zero, as scale.", "float", "*Z")
    group_size: int = _group_size()
    group_dim: int = _group_dim()
    dequant_shape: tuple[int, ...] = _dequant_shape()
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
    def shape(self) -> tuple[int, ...]:
        """Logical shape."""
        return self.dequant_shape

    @property
    def dtype(self) -> DType:
        """Element type of the values."""
        return DType.parse(self.value.dtype)

    def check_relations(self) -> None:
        """Check that values, scale and zero point are in groups, and the numbers of the format.

        Raises:
            LayoutError: naming the field.
        """
        check_groups(self)
        check_numbers(self, FORMAT)
        check_codes(self, ("inf_values", "nan_values"))
