"""Layouts of the MX formats, current versions. Retired ones lie in `qconfig.migrations`."""

from enum import StrEnum

from attrs import frozen

from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import TensorValue
from qconfig.configs.choices import KernelPreference, ScaleCalculationMode
from qconfig.errors import LayoutError
from qconfig.layouts.block_scaled import check_block_scale, logical_shape
from qconfig.layouts.shown_dtype import check_shown_dtype
from qconfig.versioning import Layout, attribute, register_layout, register_value, tensor

LEAST_PACKED_BLOCK = 4
"""Least elements of a block of fp4: with one byte a block, codes and scales have equal shapes."""


class MXElementType(StrEnum):
    """Element types of MX formats; names agree with torchao's, which has no dtype for fp6."""

    FLOAT8_E4M3FN = "float8_e4m3fn"
    FLOAT8_E5M2 = "float8_e5m2"
    FLOAT4_E2M1FN_X2 = "float4_e2m1fn_x2"
    FP6_E2M3 = "fp6_e2m3"
    FP6_E3M2 = "fp6_e3m2"

    @property
    def is_packed(self) -> bool:
        """Whether a byte holds two elements, the first in its low four bits."""
        return self is MXElementType.FLOAT4_E2M1FN_X2

    @property
    def stored(self) -> str:
        """Name of the torch dtype that holds the codes."""
        return self.value if self.value.startswith("float8") else "uint8"


@register_value("QuantizeTensorToMXKwargs")
@frozen
class QuantizeTensorToMXKwargs:
    """Dynamic MX quantization of activations, as torchao's class of that name since 0.15."""

    elem_dtype: MXElementType = attribute(
        "Element type of the activation.", default=MXElementType.FLOAT8_E4M3FN
    )
    block_size: int = attribute(
        "Elements of a row that share a scale.", default=32, minimum=2, maximum=2**31 - 1
    )
    scaling_mode: ScaleCalculationMode = attribute(
        "How a block scale is rounded to a power of two.", default=ScaleCalculationMode.FLOOR
    )
    kernel_preference: KernelPreference = attribute(
        "Which kernel torchao would use.", default=KernelPreference.EMULATED
    )
    is_swizzled_scales: bool = attribute(
        "Whether torchao rearranges the activation's scales into tiles.",
        default=False,
        incidental=True,
    )


@register_layout("MXTensorLayout", 5)
@frozen
class MXTensorLayout(Layout):
    """Codes of 4, 6 or 8 bits with a power of two per block: torchao's MXTensor since 0.16.

    A value is `qdata * 2**(scale - 127)`, each block of a row with its own scale byte (OCP
    Microscaling Formats 1.0). fp4 lies two codes a byte, the first in the low four bits; fp6 one
    code a byte.
    """

    qdata: TensorValue = tensor(
        "Codes: (N, K), or (N, K/2) bytes of fp4.",
        ("uint8", "float8_e4m3fn", "float8_e5m2"),
        "*B _ _",
    )
    scale: TensorValue = tensor(
        "Exponents of the blocks, (N, K/block_size), or tiles of them if swizzled.",
        "float8_e8m0fnu",
        "*B _ _",
    )
    elem_dtype: MXElementType = attribute("Element type of the codes.")
    block_size: int = attribute(
        "Elements of a row that share a scale.", minimum=2, maximum=2**31 - 1
    )
    dtype: DType = attribute(
        "Element type that the tensor shows and dequantizes to.", converter=DType.parse
    )
    kernel_preference: KernelPreference = attribute(
        "Which kernel torchao would use.", default=KernelPreference.AUTO, kw_only=True
    )
    act_quant_kwargs: QuantizeTensorToMXKwargs | None = attribute(
        "How the activation is quantized; null leaves it as it is.", default=None, kw_only=True
    )
    is_swizzled_scales: bool = attribute(
        "Whether scales lie in the 128 x 4 tiles of NVIDIA's block-scaled products.",
        default=False,
        kw_only=True,
        incidental=True,
    )

    @property
    def shape(self) -> tuple[int, ...]:
        """Logical shape: fp4 has two elements a byte along the dimension of the blocks."""
        if not self.elem_dtype.is_packed:
            return tuple(self.qdata.shape)
        scale = None if self.is_swizzled_scales else tuple(self.scale.shape)
        return logical_shape(tuple(self.qdata.shape), scale, self.block_size)

    def check_relations(self) -> None:
        """Check that the codes have their type and that each block has a scale.

        Raises:
            LayoutError: naming the field.
        """
        check_shown_dtype(self.dtype)
        found = str(self.qdata.dtype).removeprefix("torch.")
        if found != self.elem_dtype.stored:
            raise LayoutError(
                "qdata has another element type than elem_dtype says",
                pointer="/qdata",
                found=found,
                expected=f"{self.elem_dtype.stored} for {self.elem_dtype.value}",
            )
        if self.elem_dtype.is_packed and self.block_size < LEAST_PACKED_BLOCK:
            raise LayoutError(
                "blocks of fp4 are single bytes, and which way they lie does not show",
                pointer="/block_size",
                found=self.block_size,
                expected=f"{LEAST_PACKED_BLOCK} or more",
            )
        kwargs = self.act_quant_kwargs
        if kwargs is not None and kwargs.block_size != self.block_size:
            raise LayoutError(
                "blocks of the activation are not those of the weight",
                pointer="/act_quant_kwargs/block_size",
                found=kwargs.block_size,
                expected=str(self.block_size),
            )
        check_block_scale(
            self.shape, tuple(self.scale.shape), self.block_size, self.is_swizzled_scales
        )
