"""Layout of the uintx family, current version: unsigned codes of 1 to 8 bits, one a byte."""

from enum import StrEnum

from attrs import frozen

from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import TensorValue
from qconfig.configs.supported import choice_of
from qconfig.errors import LayoutError
from qconfig.layouts.blocks import check_qparams
from qconfig.layouts.shown_dtype import check_shown_dtype
from qconfig.versioning import Layout, attribute, register_layout, tensor


class UintxZeroPointDomain(StrEnum):
    """What zero points are; names agree with torchao's `ZeroPointDomain`."""

    INT = "INT"
    """Codes: a value is `(qdata - zero_point) * scale`."""
    FLOAT = "FLOAT"
    """Values of the middle code: a value is `(qdata - 2**(bit_width - 1)) * scale + zero_point`."""


@register_layout("UintxTensorLayout", 2)
@frozen
class UintxTensorLayout(Layout):
    """Unsigned codes of 1 to 8 bits, one a byte: torchao's AffineQuantizedTensor of such codes.

    A value is `(qdata - zero_point) * scale`, or `(qdata - 2**(bit_width - 1)) * scale +
    zero_point` where zero points are values, each block with its own scale and zero point.
    """

    qdata: TensorValue = tensor("Codes, from 0 to 2**bit_width - 1.", "uint8", "*B N K")
    scale: TensorValue = tensor("One scale a block: (N, K/g).", "float", "*S _ _")
    bit_width: int = attribute("Bits of a code.", minimum=1, maximum=8)
    block_size: tuple[int, ...] = attribute(
        "Elements that share a scale, along each dimension of qdata.", min_length=2
    )
    dtype: DType = attribute(
        "Element type that the tensor shows and dequantizes to.", converter=DType.parse
    )
    zero_point: TensorValue | None = tensor(
        "Zero points, shaped like scale; null for none.",
        ("uint8", "int8", "int32", "int64", "float"),
        "*S _ _",
        default=None,
    )
    act_pre_scale: TensorValue | None = tensor(
        "Factor by which the activation is multiplied first.", "float", "*P K", default=None
    )
    zero_point_domain: UintxZeroPointDomain = attribute(
        "Whether zero points are codes or values of the middle code.",
        default=UintxZeroPointDomain.INT,
        converter=choice_of(UintxZeroPointDomain),
        kw_only=True,
    )

    def check_relations(self) -> None:
        """Check that scales and zero points have one entry a block, and the zero points' type.

        Raises:
            LayoutError: naming the field.
        """
        check_shown_dtype(self.dtype)
        check_qparams(tuple(self.qdata.shape), self.block_size, self.scale, self.zero_point)
        if self.zero_point is None or self.zero_point_domain is UintxZeroPointDomain.INT:
            return
        found = DType.parse(self.zero_point.dtype)
        if not found.is_float:
            raise LayoutError(
                "zero_point is not supported in the domain FLOAT",
                pointer="/zero_point",
                found=found.value,
                expected="float16, bfloat16, float32 or float64",
            )
