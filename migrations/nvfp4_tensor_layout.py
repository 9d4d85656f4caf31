"""NVFP4TensorLayout: NVFP4Tensor of torchao, release by release.

| ours | torchao | what was new |
|---|---|---|
| 1 | 0.12 | – |
| 2 | 0.13 and 0.14 | act_quant_kwargs in place of mm_config; act_per_tensor_scale |
| 3 | 0.15 (pull request 3123) | the first code of a byte is the low one; swizzled scales are 2-D |
| 4 | 0.16 and later | names without underscores, which ours never had |

Up to version 2 the first code of a byte lies in its high four bits. Up to 0.17 torchao rounded a
per_tensor_scale without dimensions, and its product with a block scale, to the type that the tensor
shows; the dialect of torchao says so in `rounds_scales` of version 4.
"""

from enum import StrEnum
from math import prod
from typing import Any

from attrs import frozen

from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import TensorValue
from qconfig.errors import LayoutError
from qconfig.layouts.nvfp4 import NVFP4TensorLayout, QuantizeTensorToNVFP4Kwargs
from qconfig.versioning import Layout, attribute, migration, register_layout, tensor

from .block_scaled import check_blocks, check_shown, swap_nibbles, swizzled_shape, two_a_byte

_BLOCK = "Elements of a row that share a scale."
_DTYPE = "Element type that the tensor shows."
_SECOND = "Second scale, for the whole tensor or each matrix."
_ACT_SECOND = "Static second scale of the activation."
_SWIZZLED = "Whether scales lie in tiles of 128 x 4."
_TRITON = "Whether torchao used its Triton kernel."
_KWARGS = "How the activation is quantized."


class NVFP4MMConfig(StrEnum):
    """Whether torchao 0.12 quantized activations."""

    DYNAMIC = "DYNAMIC"
    WEIGHT_ONLY = "WEIGHT_ONLY"


@register_layout("NVFP4TensorLayout", 1)
@frozen
class NVFP4TensorLayoutV1(Layout):
    """NVFP4Tensor of torchao 0.12: mm_config says whether activations are quantized."""

    data: TensorValue = tensor("Codes, two a byte: (N, K/2).", "uint8", "*B N _")
    scale_e4m3: TensorValue = tensor(
        "Scales of the blocks; in one row if swizzled.", "float8_e4m3fn", "*S"
    )
    block_size: int = attribute(_BLOCK, minimum=16, maximum=16)
    dtype: DType = attribute(_DTYPE, converter=DType.parse)
    per_tensor_scale: TensorValue | None = tensor(_SECOND, "float32", "*P", default=None)
    mm_config: NVFP4MMConfig = attribute(
        "Whether activations are quantized.", default=NVFP4MMConfig.DYNAMIC, kw_only=True
    )
    is_swizzled_scales: bool = attribute(_SWIZZLED, default=False, kw_only=True)
    use_triton_kernel: bool = attribute(_TRITON, default=False, kw_only=True)

    @property
    def shape(self) -> tuple[int, ...]:
        """Logical shape."""
        return two_a_byte(tuple(self.data.shape))

    def check_relations(self) -> None:
        """Check that each block has a scale."""
        check_shown(self.dtype)
        _check_scale(self)
        _check_second(self)


@register_layout("NVFP4TensorLayout", 2)
@frozen
class NVFP4TensorLayoutV2(Layout):
    """NVFP4Tensor of torchao 0.13 and 0.14: act_quant_kwargs, a static scale of activations."""

    qdata: TensorValue = tensor("Codes, two a byte: (N, K/2).", "uint8", "*B N _")
    scale_e4m3: TensorValue = tensor(
        "Scales of the blocks; in one row if swizzled.", "float8_e4m3fn", "*S"
    )
    block_size: int = attribute(_BLOCK, minimum=16, maximum=16)
    dtype: DType = attribute(_DTYPE, converter=DType.parse)
    per_tensor_scale: TensorValue | None = tensor(_SECOND, "float32", "*P", default=None)
    act_per_tensor_scale: TensorValue | None = tensor(_ACT_SECOND, "float32", "*A", default=None)
    is_swizzled_scales: bool = attribute(_SWIZZLED, default=False, kw_only=True)
    use_triton_kernel: bool = attribute(_TRITON, default=False, kw_only=True)
    act_quant_kwargs: QuantizeTensorToNVFP4Kwargs | None = attribute(
        _KWARGS, default=None, kw_only=True
    )

    @property
    def shape(self) -> tuple[int, ...]:
        """Logical shape."""
        return two_a_byte(tuple(self.qdata.shape))

    def check_relations(self) -> None:
        """Check that each block has a scale."""
        check_shown(self.dtype)
        _check_scale(self)
        _check_second(self)


@register_layout("NVFP4TensorLayout", 3)
@frozen
class NVFP4TensorLayoutV3(Layout):
    """NVFP4Tensor of torchao 0.15: the first code of a byte lies in its low four bits."""

    qdata: TensorValue = tensor("Codes, two a byte: (N, K/2).", "uint8", "*B N _")
    scale: TensorValue = tensor(
        "Scales of the blocks, or tiles of them if swizzled.", "float8_e4m3fn", "*B _ _"
    )
    block_size: int = attribute(_BLOCK, minimum=16, maximum=16)
    dtype: DType = attribute(_DTYPE, converter=DType.parse)
    per_tensor_scale: TensorValue | None = tensor(_SECOND, "float32", "*P", default=None)
    act_per_tensor_scale: TensorValue | None = tensor(_ACT_SECOND, "float32", "*A", default=None)
    is_swizzled_scales: bool = attribute(_SWIZZLED, default=False, kw_only=True)
    use_triton_kernel: bool = attribute(_TRITON, default=False, kw_only=True)
    act_quant_kwargs: QuantizeTensorToNVFP4Kwargs | None = attribute(
        _KWARGS, default=None, kw_only=True
    )

    @property
    def shape(self) -> tuple[int, ...]:
        """Logical shape."""
        return two_a_byte(tuple(self.qdata.shape))

    def check_relations(self) -> None:
        """Check that each block has a scale."""
        check_shown(self.dtype)
        check_blocks(
            "scale", self.shape, self.scale, self.block_size, swizzled=self.is_swizzled_scales
        )
        _check_second(self)


@migration()
def kwargs_of_activations(old: NVFP4TensorLayoutV1) -> NVFP4TensorLayoutV2:
    """Say mm_config as how activations are quantized: torchao 0.12 gave them block scales only."""
    dynamic = old.mm_config is NVFP4MMConfig.DYNAMIC
    kwargs = QuantizeTensorToNVFP4Kwargs(use_triton_kernel=old.use_triton_kernel)
    return NVFP4TensorLayoutV2(
        old.data,
        old.scale_e4m3,
        old.block_size,
        old.dtype,
        per_tensor_scale=old.per_tensor_scale,
        is_swizzled_scales=old.is_swizzled_scales,
        use_triton_kernel=old.use_triton_kernel,
        act_quant_kwargs=kwargs if dynamic else None,
    )


@migration()
def order_of_codes(old: NVFP4TensorLayoutV2) -> NVFP4TensorLayoutV3:
    """Put the first code of a byte into its low four bits, and scales into their two dimensions."""
    codes: Any = old.qdata
    scale: Any = old.scale_e4m3
    return NVFP4TensorLayoutV3(
        codes.map(swap_nibbles, by_rows=1),
        scale.reshape(*_scale_shape(old)),
        old.block_size,
        old.dtype,
        per_tensor_scale=old.per_tensor_scale,
        act_per_tensor_scale=old.act_per_tensor_scale,
        is_swizzled_scales=old.is_swizzled_scales,
        use_triton_kernel=old.use_triton_kernel,
        act_quant_kwargs=old.act_quant_kwargs,
    )


@migration()
def names_without_underscores(old: NVFP4TensorLayoutV3) -> NVFP4TensorLayout:
    """Change nothing: torchao's names of orig_dtype and is_swizzled_scales changed."""
    return NVFP4TensorLayout(
        old.qdata,
        old.scale,
        old.block_size,
        old.dtype,
        per_tensor_scale=old.per_tensor_scale,
        act_per_tensor_scale=old.act_per_tensor_scale,
        is_swizzled_scales=old.is_swizzled_scales,
        use_triton_kernel=old.use_triton_kernel,
        act_quant_kwargs=old.act_quant_kwargs,
    )


# Checks of retired classes are frozen with them: they do not follow those of the current class.


def _scale_shape(layout: Any) -> tuple[int, ...]:
    shape: tuple[int, ...] = layout.shape
    if layout.is_swizzled_scales:
        return swizzled_shape(shape, layout.block_size)
    return (*shape[:-1], shape[-1] // layout.block_size)


def _check_scale(layout: Any) -> None:
    """Check scales that may lie in one row, or have their dimensions."""
    if layout.shape[-1] % layout.block_size or len(layout.scale_e4m3.shape) > 1:
        swizzled = layout.is_swizzled_scales
        check_blocks(
            "scale_e4m3", layout.shape, layout.scale_e4m3, layout.block_size, swizzled=swizzled
        )
        return
    found, expected = tuple(layout.scale_e4m3.shape), prod(_scale_shape(layout))
    if found != (expected,):
        raise LayoutError(
            "scale_e4m3 has a wrong shape for its blocks",
            pointer="/scale_e4m3",
            found=found,
            expected=f"shape {(expected,)} or {_scale_shape(layout)}",
        )


def _check_second(layout: Any) -> None:
    each = (*layout.shape[:-2], 1, 1)
    for name, allowed in (("per_tensor_scale", each), ("act_per_tensor_scale", None)):
        value = getattr(layout, name, None)
        found = () if value is None else tuple(value.shape)
        if set(found) - {1} and found != allowed:
            expected = "one entry" if allowed is None else f"one entry, or shape {allowed}"
            raise LayoutError(
                f"{name} has a wrong shape", pointer=f"/{name}", found=found, expected=expected
            )
