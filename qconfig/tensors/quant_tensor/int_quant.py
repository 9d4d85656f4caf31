"""IntQuantTensor: values on a grid of integers."""

from typing import Any, ClassVar, Self

from qconfig.layouts.int_quant import IntQuantTensorLayout
from qconfig.tensors.quant_tensor.base import QuantTensor
from qconfig.tensors.quant_tensor.fields import as_flag
from qconfig.tensors.quant_tensor.int_mixin import IntMixin
from qconfig.tensors.quant_tensor.int_rules import INT_RULES
from qconfig.tensors.quant_tensor.rules import RuleTable


class IntQuantTensor(IntMixin, QuantTensor):
    """Values `(int - zero_point) * scale`; integers have `bit_width` bits.

    Args:
        value: the values, dequantized; floating point, any shape.
        scale: step of the grid; a number, one entry, or a shape that broadcasts to `value`.
        zero_point: integer of the value zero, as `scale`.
        bit_width: bits of an integer; a number or a tensor, which may be learned.
        signed: whether integers lie in [-2**(b-1), 2**(b-1) - 1], or in [0, 2**b - 1].
        training: whether it is made in training: then scales of operands may differ.

    Raises:
        LayoutError: naming the argument that does not fit.
    """

    layout_class: ClassVar[type] = IntQuantTensorLayout
    kind: ClassVar[str] = "int"
    rules: ClassVar[RuleTable] = INT_RULES

    def __new__(  # noqa: PLR0917
        cls,
        value: Any,
        scale: Any,
        zero_point: Any,
        bit_width: Any,
        signed: Any,
        training: Any = False,  # noqa: FBT002
    ) -> Self:
        """Check that the fields fit together, and make the tensor."""
        return cls.checked(
            value=value,
            scale=scale,
            zero_point=zero_point,
            bit_width=bit_width,
            signed=as_flag(signed),
            training=as_flag(training),
        )
