"""FloatQuantTensor: values that are small floats times a scale."""

from typing import Any, ClassVar, Self

from qconfig.layouts.float_quant import FloatQuantTensorLayout
from qconfig.tensors.quant_tensor.base import QuantTensor
from qconfig.tensors.quant_tensor.fields import as_flag
from qconfig.tensors.quant_tensor.float_mixin import FloatMixin
from qconfig.tensors.quant_tensor.float_rules import FLOAT_RULES
from qconfig.tensors.quant_tensor.rules import RuleTable


class FloatQuantTensor(FloatMixin, QuantTensor):
    """Values `(small float - zero_point) * scale`.

    Args:
        value: the values, dequantized; floating point, any shape.
        scale: factor of the small floats; a number, one entry, or a shape that broadcasts.
        zero_point: small float of the value zero, as `scale`.
        exponent_bit_width: bits of an exponent; a number or a tensor.
        mantissa_bit_width: bits of a mantissa.
        exponent_bias: what is subtracted from an exponent.
        saturating: whether values out of range become the largest one.
        inf_values: mantissas, in bits, that mean infinity at the largest exponent, or None.
        nan_values: mantissas, in bits, that mean no number at the largest exponent, or None.
        signed: whether there is a sign.
        training: whether it is made in training.

    Raises:
        LayoutError: naming the argument that does not fit.
    """

    layout_class: ClassVar[type] = FloatQuantTensorLayout
    kind: ClassVar[str] = "float"
    rules: ClassVar[RuleTable] = FLOAT_RULES

    def __new__(  # noqa: PLR0917
        cls,
        value: Any,
        scale: Any,
        zero_point: Any,
        exponent_bit_width: Any,
        mantissa_bit_width: Any,
        exponent_bias: Any,
        saturating: Any,
        inf_values: Any,
        nan_values: Any,
        signed: Any,
        training: Any = False,  # noqa: FBT002
    ) -> Self:
        """Check that the fields fit together, and make the tensor."""
        return cls.checked(
            value=value,
            scale=scale,
            zero_point=zero_point,
            exponent_bit_width=exponent_bit_width,
            mantissa_bit_width=mantissa_bit_width,
            exponent_bias=exponent_bias,
            saturating=as_flag(saturating),
            inf_values=inf_values,
            nan_values=nan_values,
            signed=as_flag(signed),
            training=as_flag(training),
        )
