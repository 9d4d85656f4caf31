"""Layout of the int4 family, current version. Retired ones lie in `qconfig.migrations`."""

from attrs import frozen

from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import TensorValue
from qconfig.configs.supported import check_supported
from qconfig.errors import LayoutError
from qconfig.layouts.blocks import check_scale, scale_shape
from qconfig.layouts.shown_dtype import check_shown_dtype
from qconfig.versioning import Layout, attribute, register_layout, tensor

ACTIVATION_DTYPES = (
    DType.FLOAT16,
    DType.BFLOAT16,
    DType.FLOAT32,
    DType.FLOAT64,
    DType.FLOAT8_E4M3FN,
)
"""Types of activations; float8_e4m3fn means that `linear` quantizes them, row by row."""


@register_layout("Int4TensorLayout", 4)
@frozen
class Int4TensorLayout(Layout):
    """Int4 codes, two a byte, with scales and zero points for groups: torchao's Int4Tensor.

    Codes are -8 to 7 in two's complement, the even column in the low half of a byte. A value is
    `code * scale + zero_point`: the zero point is the value of code 0.
    """

    qdata: TensorValue = tensor(
        "Codes, two a byte along the dimension where shape is twice as large.", "int8", "*B _ _"
    )
    scale: TensorValue = tensor(
        "One scale a group, the last two dimensions exchanged: (K/g, N).", "float", "*B _ _"
    )
    zero_point: TensorValue = tensor(
        "Value of code 0 of each group, shaped like scale.", "float", "*B _ _"
    )
    block_size: tuple[int, ...] = attribute(
        "Elements that share a scale, along each dimension of shape; larger than that is all.",
        min_length=2,
    )
    shape: tuple[int, ...] = attribute("Shape that the tensor shows: (N, K).", min_length=2)
    dtype: DType = attribute(
        "Element type that the tensor shows and dequantizes to.", converter=DType.parse
    )
    act_pre_scale: TensorValue | None = tensor(
        "Factor by which the activation is multiplied before anything else.",
        "float",
        "*P _",
        default=None,
    )
    activation_dtype: DType = attribute(
        "Type of the activation in the product; float8_e4m3fn quantizes it row by row.",
        default=DType.BFLOAT16,
        converter=DType.parse,
        kw_only=True,
    )
    rounds_products: bool = attribute(
        "Whether a value's `code * scale` is rounded to the value's type before the zero point is "
        "added, as torchao's AffineQuantizedTensor did; linear multiplies without that rounding.",
        default=False,
        kw_only=True,
        added=True,
        incidental=True,
    )

    def check_relations(self) -> None:
        """Check shape, block size, scales, factor and types.

        Raises:
            LayoutError or FieldError: naming the field.
        """
        check_shown_dtype(self.dtype)
        packed_dimension(tuple(self.qdata.shape), self.shape)
        expected = list(scale_shape(self.shape, clipped(self.block_size, self.shape)))
        expected[-2:] = reversed(expected[-2:])
        check_scale("scale", tuple(self.scale.shape), tuple(expected))
        check_scale("zero_point", tuple(self.zero_point.shape), tuple(expected))
        factor = self.act_pre_scale
        if factor is not None and factor.shape[-1] not in {1, self.shape[-1]}:
            raise LayoutError(
                "act_pre_scale has a wrong size for K",
                pointer="/act_pre_scale",
                found=tuple(factor.shape),
                expected=f"(..., {self.shape[-1]})",
            )
        check_supported(self.activation_dtype, "activation_dtype", ACTIVATION_DTYPES)


def clipped(block_size: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a block size without what is larger than the tensor, as torchao stores for short rows.

    Args:
        block_size: elements that share a scale, along each dimension.
        shape: the tensor's.
    """
    if len(block_size) != len(shape):
        return block_size
    return tuple(min(b, n) if n else b for b, n in zip(block_size, shape, strict=True))


def packed_dimension(packed: tuple[int, ...], shape: tuple[int, ...]) -> int:
    """Return the dimension along which codes are two a byte: the last for an untransposed tensor.

    Args:
        packed: shape of the bytes.
        shape: shape of the codes.

    Raises:
        LayoutError: not one dimension is twice as large, and the others equal.
    """
    if len(packed) == len(shape):
        for dim in reversed(range(len(shape))):
            if (*packed[:dim], 2 * packed[dim], *packed[dim + 1 :]) == shape:
                return dim
    raise LayoutError(
        "qdata has a wrong size for shape, two codes a byte",
        pointer="/qdata",
        found=packed,
        expected=f"shape {tuple(shape)} with one dimension halved",
    )
