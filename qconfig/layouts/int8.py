"""Layouts of the int8 family, current versions. Retired ones lie in `qconfig.migrations`."""

from math import prod

from attrs import frozen

from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import TensorValue
from qconfig.errors import LayoutError
from qconfig.layouts.activation import Int8Arithmetic, Int8Product, QuantizeTensorToInt8Kwargs
from qconfig.layouts.blocks import check_qparams
from qconfig.layouts.shown_dtype import check_shown_dtype
from qconfig.versioning import Layout, attribute, register_layout, tensor


@register_layout("Int8TensorLayout", 5)
@frozen
class Int8TensorLayout(Layout):
    """Int8 codes with a scale per block that keeps its dimensions: torchao's Int8Tensor of 0.18.

    A value is `(qdata - zero_point) * scale`, each block with its own scale and zero point.
    """

    qdata: TensorValue = tensor("Codes.", "int8", "*B N K")
    scale: TensorValue = tensor(
        "One scale a block: (N, 1) per row, (1, 1) per tensor, (N, K/g) per group.",
        "float",
        "*S _ _",
    )
    block_size: tuple[int, ...] = attribute(
        "Elements that share a scale, along each dimension of qdata.", min_length=2
    )
    dtype: DType = attribute(
        "Element type that the tensor shows and dequantizes to.", converter=DType.parse
    )
    zero_point: TensorValue | None = tensor(
        "Code of the real value zero, shaped like scale.", "int8", "*S _ _", default=None
    )
    act_quant_scale: TensorValue | None = tensor(
        "Static scale of the activation.", "float", "*A", default=None
    )
    act_quant_zero_point: TensorValue | None = tensor(
        "Static zero point of the activation.", "int8", "*A", default=None
    )
    act_pre_scale: TensorValue | None = tensor(
        "Factor by which the activation is multiplied before it is quantized.",
        "float",
        "*P K",
        default=None,
    )
    act_quant_kwargs: QuantizeTensorToInt8Kwargs | None = attribute(
        "How the activation is quantized; null leaves it as it is.", default=None, kw_only=True
    )
    reduce_range: bool = attribute(
        "Whether weight codes use 7 of the 8 bits.", default=False, kw_only=True
    )
    arithmetic: Int8Arithmetic | None = attribute(
        "How linear computes with quantized activations; null is as torchao 0.18 does.",
        default=None,
        kw_only=True,
        added=True,
        incidental=True,
    )

    def check_relations(self) -> None:
        """Check that scales and zero points have one entry per block, and the arithmetic.

        Raises:
            LayoutError: naming the field.
        """
        check_shown_dtype(self.dtype)
        check_qparams(tuple(self.qdata.shape), self.block_size, self.scale, self.zero_point)
        if self.arithmetic is not None and self.act_quant_kwargs is None:
            raise LayoutError(
                "an arithmetic is there, but activations are not quantized",
                pointer="/arithmetic",
                found=self.arithmetic,
                expected="null, or act_quant_kwargs",
            )
        if self.arithmetic is not None:
            _check_arithmetic(self, self.arithmetic)


def _check_arithmetic(layout: Int8TensorLayout, how: Int8Arithmetic) -> None:
    static = layout.act_quant_scale
    shape = () if static is None else tuple(static.shape)
    if prod(shape) != 1 and not (len(shape) > 1 and shape[-1] == 1):
        raise LayoutError(
            "an older arithmetic has no static scales of channels",
            pointer="/arithmetic",
            found=f"act_quant_scale of shape {shape}",
            expected="null, or one static scale, or one a row",
        )
    if how.product is not Int8Product.VALUES and layout.scale.shape[-1] != 1:
        raise LayoutError(
            "codes are multiplied with weights of one scale a row",
            pointer="/arithmetic/product",
            found=f"{how.product.value} with scale of shape {tuple(layout.scale.shape)}",
            expected=Int8Product.VALUES.value,
        )
