"""Layout of floating-point weights of 2 to 7 bits with a scale a row, current version."""

from attrs import frozen

from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import TensorValue
from qconfig.errors import LayoutError
from qconfig.layouts.shown_dtype import check_shown_dtype
from qconfig.versioning import Layout, attribute, register_layout, tensor

MOST_BITS = 7
"""Most bits of a code, its sign among them."""


@register_layout("FloatxTensorLayout", 2)
@frozen
class FloatxTensorLayout(Layout):
    """Codes of small floating-point types, one a byte, with a scale for each row.

    A code has a sign, `ebits` of exponent and `mbits` of mantissa, right-aligned, without infinity
    and NaN; a value is that of the code times the scale.
    """

    qdata: TensorValue = tensor("Codes.", "uint8", "*B N K")
    scale: TensorValue = tensor("One scale a row: (N, 1).", "float", "*S _ _")
    ebits: int = attribute("Bits of the exponent.", minimum=1, maximum=6)
    mbits: int = attribute("Bits of the mantissa.", minimum=0, maximum=5)
    dtype: DType = attribute(
        "Element type that the tensor shows and dequantizes to.", converter=DType.parse
    )

    def check_relations(self) -> None:
        """Check the number of bits, and that dimensions of the scale are 1 or those of the codes.

        Raises:
            LayoutError: naming the field.
        """
        check_shown_dtype(self.dtype)
        if 1 + self.ebits + self.mbits > MOST_BITS:
            raise LayoutError(
                f"mbits has a wrong size for {self.ebits} bits of exponent",
                pointer="/mbits",
                found=self.mbits,
                expected=f"{MOST_BITS} bits or fewer, with the sign",
            )
        shape, found = tuple(self.qdata.shape), tuple(self.scale.shape)
        fits = len(shape) == len(found) and all(
            s in (1, n) for s, n in zip(found, shape, strict=True)
        )
        if not fits:
            raise LayoutError(
                "scale has a wrong shape for its blocks",
                pointer="/scale",
                found=found,
                expected=f"shape {(*shape[:-1], 1)}",
            )
