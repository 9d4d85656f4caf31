"""MXTensorLayout: MXTensor of torchao, release by release.

| ours | torchao | what was new |
|---|---|---|
| 1 | 0.4 to 0.9 | – |
| 2 | 0.10 to 0.12 | scales are float8_e8m0fnu; fp6 may be packed |
| 3 | 0.13 and 0.14 | scales are (N, K/block_size); act_quant_kwargs |
| 4 | 0.15 (pull requests 3123, 3164, 3382) | the first fp4 code of a byte is the low one; fp6 is |
|   |   | never packed; kernel_preference; scales may be swizzled |
| 5 | 0.16 and later | names without underscores, which ours never had |

Up to version 3 the first fp4 code of a byte lies in its high four bits. Element types of fp6 have
strings for names; that of fp4 had one up to 0.12, `fp4_e2m1`.
"""

from enum import StrEnum
from math import prod
from typing import TYPE_CHECKING, Any

from attrs import frozen

from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import TensorValue
from qconfig.configs.choices import KernelPreference, ScaleCalculationMode
from qconfig.errors import LayoutError
from qconfig.layouts.mx import (
    MXElementType,
    MXTensorLayout,
    QuantizeTensorToMXKwargs,
)
from qconfig.versioning import (
    Layout,
    attribute,
    migration,
    register_layout,
    register_value,
    tensor,
)

from .block_scaled import check_blocks, check_shown, swap_nibbles, two_a_byte

if TYPE_CHECKING:
    import torch

_CODES = ("uint8", "float8_e4m3fn", "float8_e5m2")
_BLOCK = "Elements of a row that share a scale."
_DTYPE = "Element type that the tensor shows."
_ELEMENT = "Element type of the codes."


class MXElementTypeV1(StrEnum):
    """Element types as torchao 0.4 to 0.12 named them."""

    FLOAT8_E4M3FN = "float8_e4m3fn"
    FLOAT8_E5M2 = "float8_e5m2"
    FP6_E2M3 = "fp6_e2m3"
    FP6_E3M2 = "fp6_e3m2"
    FP4_E2M1 = "fp4_e2m1"


class MXGemmKernelChoice(StrEnum):
    """Which kernel multiplied, up to torchao 0.14."""

    EMULATED = "EMULATED"
    CUTLASS = "CUTLASS"
    CUBLAS = "CUBLAS"


@register_value("QuantizeTensorToMXKwargs013")
@frozen
class QuantizeTensorToMXKwargs013:
    """QuantizeTensorToMXKwargs of torchao 0.13 and 0.14."""

    elem_dtype: MXElementType = attribute(
        "Element type of the activation.", default=MXElementType.FLOAT8_E4M3FN
    )
    block_size: int = attribute(_BLOCK, default=32, minimum=2, maximum=2**31 - 1)
    scaling_mode: ScaleCalculationMode = attribute(
        "How a block scale is rounded to a power of two.", default=ScaleCalculationMode.FLOOR
    )
    gemm_kernel_choice: MXGemmKernelChoice = attribute(
        "Which kernel multiplied.", default=MXGemmKernelChoice.EMULATED
    )
    pack_fp6: bool = attribute("Whether fp6 activations were packed.", default=False)


@register_layout("MXTensorLayout", 1)
@frozen
class MXTensorLayoutV1(Layout):
    """MXTensor of torchao 0.4 to 0.9: one scale byte a block, all in one row."""

    data: TensorValue = tensor("Codes: (N, K), or (N, K/2) bytes of fp4.", _CODES, "*B N _")
    scale_e8m0: TensorValue = tensor("Exponents of the blocks, row by row.", "uint8", "S")
    elem_dtype: MXElementTypeV1 = attribute(_ELEMENT)
    block_size: int = attribute(_BLOCK, minimum=2, maximum=2**31 - 1)
    dtype: DType = attribute(_DTYPE, converter=DType.parse)
    use_fp4_custom_triton_dequant_kernel: bool = attribute(
        "Whether a Triton kernel dequantized fp4.", default=False, kw_only=True
    )
    gemm_kernel_choice: MXGemmKernelChoice = attribute(
        "Which kernel multiplied.", default=MXGemmKernelChoice.EMULATED, kw_only=True
    )

    @property
    def shape(self) -> tuple[int, ...]:
        """Logical shape."""
        return _shape(self.data, self.elem_dtype)

    def check_relations(self) -> None:
        """Check that the codes have their type and that there are as many scales as blocks."""
        check_shown(self.dtype)
        _check_codes("data", self.data, self.elem_dtype)
        _check_flat_scale(self)


@register_layout("MXTensorLayout", 2)
@frozen
class MXTensorLayoutV2(Layout):
    """MXTensor of torchao 0.10 to 0.12: scales have a type of their own, fp6 may be packed."""

    data: TensorValue = tensor(
        "Codes: (N, K), (N, K/2) bytes of fp4, or (N, 3K/4) bytes of packed fp6.",
        _CODES,
        "*B N _",
    )
    scale_e8m0: TensorValue = tensor("Exponents of the blocks, row by row.", "float8_e8m0fnu", "S")
    elem_dtype: MXElementTypeV1 = attribute(_ELEMENT)
    block_size: int = attribute(_BLOCK, minimum=2, maximum=2**31 - 1)
    dtype: DType = attribute(_DTYPE, converter=DType.parse)
    use_fp4_custom_triton_dequant_kernel: bool = attribute(
        "Whether a Triton kernel dequantized fp4.", default=False, kw_only=True
    )
    gemm_kernel_choice: MXGemmKernelChoice = attribute(
        "Which kernel multiplied.", default=MXGemmKernelChoice.EMULATED, kw_only=True
    )
    pack_fp6: bool = attribute(
        "Whether fp6 codes lie four in three bytes.", default=False, kw_only=True
    )

    @property
    def shape(self) -> tuple[int, ...]:
        """Logical shape."""
        return _shape(self.data, self.elem_dtype, self.pack_fp6)

    def check_relations(self) -> None:
        """Check that the codes have their type and that there are as many scales as blocks."""
        check_shown(self.dtype)
        _check_codes("data", self.data, self.elem_dtype, self.pack_fp6)
        _check_flat_scale(self)


@register_layout("MXTensorLayout", 3)
@frozen
class MXTensorLayoutV3(Layout):
    """MXTensor of torchao 0.13 and 0.14: scales are (N, K/block_size), activations may be MX."""

    qdata: TensorValue = tensor(
        "Codes: (N, K), (N, K/2) bytes of fp4, or (N, 3K/4) bytes of packed fp6.",
        _CODES,
        "*B N _",
    )
    scale_e8m0: TensorValue = tensor("Exponents of the blocks.", "float8_e8m0fnu", "*B N _")
    elem_dtype: MXElementType = attribute(_ELEMENT)
    block_size: int = attribute(_BLOCK, minimum=2, maximum=2**31 - 1)
    dtype: DType = attribute(_DTYPE, converter=DType.parse)
    gemm_kernel_choice: MXGemmKernelChoice = attribute(
        "Which kernel multiplied.", default=MXGemmKernelChoice.EMULATED, kw_only=True
    )
    pack_fp6: bool = attribute(
        "Whether fp6 codes lie four in three bytes.", default=False, kw_only=True
    )
    act_quant_kwargs: QuantizeTensorToMXKwargs013 | None = attribute(
        "How the activation is quantized.", default=None, kw_only=True
    )

    @property
    def shape(self) -> tuple[int, ...]:
        """Logical shape."""
        return _shape(self.qdata, self.elem_dtype, self.pack_fp6)

    def check_relations(self) -> None:
        """Check that the codes have their type and each block a scale."""
        check_shown(self.dtype)
        _check_codes("qdata", self.qdata, self.elem_dtype, self.pack_fp6)
        _check_kwargs(self)
        check_blocks("scale_e8m0", self.shape, self.scale_e8m0, self.block_size)


@register_layout("MXTensorLayout", 4)
@frozen
class MXTensorLayoutV4(Layout):
    """MXTensor of torchao 0.15: fp4 has its first code in the low four bits."""

    qdata: TensorValue = tensor("Codes: (N, K), or (N, K/2) bytes of fp4.", _CODES, "*B N _")
    scale: TensorValue = tensor(
        "Exponents of the blocks, or tiles of them if swizzled.", "float8_e8m0fnu", "*B _ _"
    )
    elem_dtype: MXElementType = attribute(_ELEMENT)
    block_size: int = attribute(_BLOCK, minimum=2, maximum=2**31 - 1)
    dtype: DType = attribute(_DTYPE, converter=DType.parse)
    kernel_preference: KernelPreference = attribute(
        "Which kernel torchao would use.", default=KernelPreference.AUTO, kw_only=True
    )
    act_quant_kwargs: QuantizeTensorToMXKwargs | None = attribute(
        "How the activation is quantized.", default=None, kw_only=True
    )
    is_swizzled_scales: bool = attribute(
        "Whether scales lie in tiles of 128 x 4.", default=False, kw_only=True
    )

    @property
    def shape(self) -> tuple[int, ...]:
        """Logical shape."""
        return _shape(self.qdata, self.elem_dtype)

    def check_relations(self) -> None:
        """Check that the codes have their type and each block a scale."""
        check_shown(self.dtype)
        _check_codes("qdata", self.qdata, self.elem_dtype)
        _check_kwargs(self)
        check_blocks(
            "scale", self.shape, self.scale, self.block_size, swizzled=self.is_swizzled_scales
        )


@migration()
def type_of_scales(old: MXTensorLayoutV1) -> MXTensorLayoutV2:
    """Read the scale bytes as float8_e8m0fnu, which they always were."""
    scale: Any = old.scale_e8m0
    return MXTensorLayoutV2(
        old.data,
        scale.map(_to_e8m0, dtype=DType.FLOAT8_E8M0FNU),
        old.elem_dtype,
        old.block_size,
        old.dtype,
        use_fp4_custom_triton_dequant_kernel=old.use_fp4_custom_triton_dequant_kernel,
        gemm_kernel_choice=old.gemm_kernel_choice,
    )


@migration(drops="use_fp4_custom_triton_dequant_kernel: no value depends on it")
def shape_of_scales(old: MXTensorLayoutV2) -> MXTensorLayoutV3:
    """Give the scales the rows of the codes, and fp4 its present name."""
    scale: Any = old.scale_e8m0
    *leading, columns = old.shape
    element = old.elem_dtype.value
    return MXTensorLayoutV3(
        old.data,
        scale.reshape(*leading, columns // old.block_size),
        MXElementType.FLOAT4_E2M1FN_X2 if element == "fp4_e2m1" else MXElementType(element),
        old.block_size,
        old.dtype,
        gemm_kernel_choice=old.gemm_kernel_choice,
        pack_fp6=old.pack_fp6,
    )


@migration(
    drops="which of two kernels for GPUs multiplied, and whether fp6 activations were packed"
)
def order_of_codes(old: MXTensorLayoutV3) -> MXTensorLayoutV4:
    """Put the first fp4 code of a byte into its low four bits, and fp6 codes one in a byte."""
    codes: Any = old.qdata
    if old.elem_dtype.is_packed:
        codes = codes.map(swap_nibbles, by_rows=1)
    elif old.pack_fp6 and _is_fp6(old.elem_dtype):
        codes = codes.map(_unpack_fp6, shape=old.shape, by_rows=1)
    kwargs = old.act_quant_kwargs
    return MXTensorLayoutV4(
        codes,
        old.scale_e8m0,
        old.elem_dtype,
        old.block_size,
        old.dtype,
        kernel_preference=_preference(old.gemm_kernel_choice),
        act_quant_kwargs=None
        if kwargs is None
        else QuantizeTensorToMXKwargs(
            kwargs.elem_dtype,
            kwargs.block_size,
            kwargs.scaling_mode,
            _preference(kwargs.gemm_kernel_choice),
        ),
    )


@migration()
def names_without_underscores(old: MXTensorLayoutV4) -> MXTensorLayout:
    """Change nothing: torchao's names of elem_dtype, orig_dtype and is_swizzled_scales changed."""
    return MXTensorLayout(
        old.qdata,
        old.scale,
        old.elem_dtype,
        old.block_size,
        old.dtype,
        kernel_preference=old.kernel_preference,
        act_quant_kwargs=old.act_quant_kwargs,
        is_swizzled_scales=old.is_swizzled_scales,
    )


# Checks of retired classes are frozen with them: they do not follow those of the current class.


def _preference(choice: MXGemmKernelChoice) -> KernelPreference:
    if choice is MXGemmKernelChoice.EMULATED:
        return KernelPreference.EMULATED
    return KernelPreference.AUTO


def _is_fp6(element: StrEnum) -> bool:
    return element.value.startswith("fp6")


def _shape(codes: TensorValue, element: StrEnum, pack_fp6: bool = False) -> tuple[int, ...]:  # noqa: FBT001, FBT002
    shape = tuple(codes.shape)
    if element.value in ("fp4_e2m1", "float4_e2m1fn_x2"):
        return two_a_byte(shape)
    if pack_fp6 and _is_fp6(element):
        return (*shape[:-1], shape[-1] // 3 * 4)
    return shape


def _check_codes(
    name: str,
    codes: TensorValue,
    element: StrEnum,
    pack_fp6: bool = False,  # noqa: FBT001, FBT002
) -> None:
    expected = element.value if element.value.startswith("float8") else "uint8"
    found = str(codes.dtype).removeprefix("torch.")
    if found != expected:
        raise LayoutError(
            f"{name} has another element type than elem_dtype says",
            pointer=f"/{name}",
            found=found,
            expected=f"{expected} for {element.value}",
        )
    if pack_fp6 and _is_fp6(element) and codes.shape[-1] % 3:
        raise LayoutError(
            f"{name} holds no whole groups of packed fp6 codes",
            pointer=f"/{name}",
            found=tuple(codes.shape),
            expected="rows of a multiple of 3 bytes",
        )


def _check_flat_scale(layout: Any) -> None:
    shape, block = layout.shape, layout.block_size
    found = tuple(layout.scale_e8m0.shape)
    if shape[-1] % block or found != (prod(shape) // block,):
        raise LayoutError(
            "scale_e8m0 has a wrong shape for its blocks",
            pointer="/scale_e8m0",
            found=found,
            expected=f"one entry for each {block} elements of a row of shape {shape}",
        )


def _check_kwargs(layout: Any) -> None:
    kwargs = layout.act_quant_kwargs
    if kwargs is not None and kwargs.block_size != layout.block_size:
        raise LayoutError(
            "blocks of the activation are not those of the weight",
            pointer="/act_quant_kwargs/block_size",
            found=kwargs.block_size,
            expected=str(layout.block_size),
        )


def _to_e8m0(scale: "torch.Tensor") -> "torch.Tensor":
    import torch

    return scale.contiguous().view(torch.float8_e8m0fnu)


def _unpack_fp6(data: "torch.Tensor") -> "torch.Tensor":
    # Of codes a, b, c, d: the four high bits of a and b, of d and c; then the two low bits of
    # a, b, d, c.
    import torch

    first, second, low = data.view(*data.shape[:-1], -1, 3).unbind(-1)
    codes = (
        (first >> 4 << 2) | (low >> 6),
        ((first & 15) << 2) | ((low >> 4) & 3),
        ((second & 15) << 2) | (low & 3),
        (second >> 4 << 2) | ((low >> 2) & 3),
    )
    return torch.stack(codes, dim=-1).flatten(-2)
