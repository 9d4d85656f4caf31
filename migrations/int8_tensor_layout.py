"""Int8TensorLayout: AffineQuantizedTensor's plain form, then Int8Tensor release by release.

| ours | torchao | what was new |
|---|---|---|
| 1 | 0.9 to 0.17, AffineQuantizedTensor with PlainAQTTensorImpl | – |
| 2 | 0.15, Int8Tensor (pull request 3407) | scale keeps its dimensions; block_size is required |
| 3 | 0.16 | act_quant_scale, act_pre_scale |
| 4 | 0.17 | zero_point, act_quant_zero_point |
| 5 | 0.18 | reduce_range; scales in float32 |

Up to 0.17 scales of activations, and products with them, were rounded to the activation's type. The
dialect of torchao says so in `arithmetic` of version 5; documents of ours never meant it, and have
it not. torchao 0.15 and 0.16 wrote no zero_point. Versions 2 and 3 have an optional one all the
same, so that one of version 1 reaches the present.
"""

from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any

from attrs import frozen

from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import TensorValue
from qconfig.errors import LayoutError, MigrationError
from qconfig.layouts.activation import QuantizeTensorToInt8Kwargs
from qconfig.layouts.blocks import scale_shape
from qconfig.layouts.int8 import Int8TensorLayout
from qconfig.versioning import Layout, attribute, migration, register_layout, tensor

if TYPE_CHECKING:
    import torch


_SHOWN = (DType.FLOAT16, DType.BFLOAT16, DType.FLOAT32, DType.FLOAT64)


class ZeroPointDomain(StrEnum):
    """Whether zero points are codes or absent; AffineQuantizedTensor kept it as an attribute."""

    INT = "INT"
    NONE = "NONE"


@register_layout("Int8TensorLayout", 1)
@frozen
class Int8TensorLayoutV1(Layout):
    """AffineQuantizedTensor with plain int8 data: one scale a row, (N,), or (N, K/g) a group."""

    int_data: TensorValue = tensor("Codes.", "int8", "*B N K")
    scale: TensorValue = tensor("Scales without the reduced dimension.", "float", "*S")
    block_size: tuple[int, ...] = attribute(
        "Elements that share a scale, along each dimension.", min_length=2
    )
    dtype: DType = attribute("Element type that the tensor shows.", converter=DType.parse)
    zero_point: TensorValue | None = tensor(
        "Code of the real value zero, shaped like scale.", "int64", "*S", default=None
    )
    quant_min: int | None = attribute("Smallest code; null is -128.", default=None, kw_only=True)
    quant_max: int | None = attribute("Largest code; null is 127.", default=None, kw_only=True)
    zero_point_domain: ZeroPointDomain = attribute(
        "Whether zero points are codes.", default=ZeroPointDomain.INT, kw_only=True
    )

    def check_relations(self) -> None:
        """Check the bounds of the codes, and that there are as many scales as blocks."""
        _check_dtype(self.dtype)
        low, high = _bounds(self)
        if not -128 <= low < high <= 127:
            raise LayoutError(
                "quant_min and quant_max are no bounds of int8 codes",
                pointer="/quant_min" if self.quant_min is not None else "/quant_max",
                found=(low, high),
                expected="-128 <= quant_min < quant_max <= 127",
            )
        _check_entries(self, self.int_data)


@register_layout("Int8TensorLayout", 2)
@frozen
class Int8TensorLayoutV2(Layout):
    """Int8Tensor of torchao 0.15: the scale keeps its dimensions.

    Scales of groups have one dimension more than those of later releases: (N, K/g, 1).
    """

    qdata: TensorValue = tensor("Codes.", "int8", "*B N K")
    scale: TensorValue = tensor("One scale a block.", "float", "*S _ _")
    block_size: tuple[int, ...] = attribute(
        "Elements that share a scale, along each dimension.", min_length=2
    )
    dtype: DType = attribute("Element type that the tensor shows.", converter=DType.parse)
    zero_point: TensorValue | None = tensor(
        "Code of the real value zero, shaped like scale.", "int8", "*S _ _", default=None
    )
    act_quant_kwargs: QuantizeTensorToInt8Kwargs | None = attribute(
        "How the activation is quantized.", default=None, kw_only=True
    )

    def check_relations(self) -> None:
        """Check that scales and zero points have one entry per block."""
        _check_dtype(self.dtype)
        _check_entries(self, self.qdata)


@register_layout("Int8TensorLayout", 3)
@frozen
class Int8TensorLayoutV3(Layout):
    """Int8Tensor of torchao 0.16: static activation scale and pre-scale."""

    qdata: TensorValue = tensor("Codes.", "int8", "*B N K")
    scale: TensorValue = tensor("One scale a block.", "float", "*S _ _")
    block_size: tuple[int, ...] = attribute(
        "Elements that share a scale, along each dimension.", min_length=2
    )
    dtype: DType = attribute("Element type that the tensor shows.", converter=DType.parse)
    zero_point: TensorValue | None = tensor(
        "Code of the real value zero, shaped like scale.", "int8", "*S _ _", default=None
    )
    act_quant_scale: TensorValue | None = tensor(
        "Static scale of the activation.", "float", "*A", default=None
    )
    act_pre_scale: TensorValue | None = tensor(
        "Factor for the activation before it is quantized.", "float", "*P K", default=None
    )
    act_quant_kwargs: QuantizeTensorToInt8Kwargs | None = attribute(
        "How the activation is quantized.", default=None, kw_only=True
    )

    def check_relations(self) -> None:
        """Check that scales and zero points have one entry per block."""
        _check_dtype(self.dtype)
        _check_blocks(self)


@register_layout("Int8TensorLayout", 4)
@frozen
class Int8TensorLayoutV4(Layout):
    """Int8Tensor of torchao 0.17: zero points of weight and activation."""

    qdata: TensorValue = tensor("Codes.", "int8", "*B N K")
    scale: TensorValue = tensor("One scale a block.", "float", "*S _ _")
    block_size: tuple[int, ...] = attribute(
        "Elements that share a scale, along each dimension.", min_length=2
    )
    dtype: DType = attribute("Element type that the tensor shows.", converter=DType.parse)
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
        "Factor for the activation before it is quantized.", "float", "*P K", default=None
    )
    act_quant_kwargs: QuantizeTensorToInt8Kwargs | None = attribute(
        "How the activation is quantized.", default=None, kw_only=True
    )

    def check_relations(self) -> None:
        """Check that scales and zero points have one entry per block."""
        _check_dtype(self.dtype)
        _check_blocks(self)


@migration(drops="quant_min, quant_max and zero_point_domain: no value depends on them")
def keep_scale_dimensions(old: Int8TensorLayoutV1) -> Int8TensorLayoutV2:
    """Give scales their reduced dimensions back and zero points the type of a code."""
    codes: Any = old.int_data
    scale: Any = old.scale
    zero_point: Any = old.zero_point
    shape = scale_shape(tuple(codes.shape), old.block_size)
    if _bounds(old) != (-128, 127):
        codes = codes.map(partial(_within, bounds=_bounds(old)), by_rows=1)
    if zero_point is not None:
        zero_point = zero_point.map(_to_int8, dtype=DType.INT8).reshape(*shape)
    return Int8TensorLayoutV2(
        codes, scale.reshape(*shape), old.block_size, old.dtype, zero_point=zero_point
    )


@migration()
def add_activation_scales(old: Int8TensorLayoutV2) -> Int8TensorLayoutV3:
    """Add optional activation scales, absent so far; scales of groups lose their last dimension."""
    scale: Any = old.scale
    zero_point: Any = old.zero_point
    shape = scale_shape(tuple(old.qdata.shape), old.block_size)
    return Int8TensorLayoutV3(
        old.qdata,
        scale.reshape(*shape),
        old.block_size,
        old.dtype,
        zero_point=None if zero_point is None else zero_point.reshape(*shape),
        act_quant_kwargs=old.act_quant_kwargs,
    )


@migration()
def add_activation_zero_point(old: Int8TensorLayoutV3) -> Int8TensorLayoutV4:
    """Add an optional activation zero point, absent so far."""
    return Int8TensorLayoutV4(
        old.qdata,
        old.scale,
        old.block_size,
        old.dtype,
        zero_point=old.zero_point,
        act_quant_scale=old.act_quant_scale,
        act_pre_scale=old.act_pre_scale,
        act_quant_kwargs=old.act_quant_kwargs,
    )


@migration()
def add_reduce_range(old: Int8TensorLayoutV4) -> Int8TensorLayout:
    """Say that codes use the whole range; scales keep the element type they were written with."""
    return Int8TensorLayout(
        old.qdata,
        old.scale,
        old.block_size,
        old.dtype,
        zero_point=old.zero_point,
        act_quant_scale=old.act_quant_scale,
        act_quant_zero_point=old.act_quant_zero_point,
        act_pre_scale=old.act_pre_scale,
        act_quant_kwargs=old.act_quant_kwargs,
    )


# Checks of retired classes are frozen with them: they do not follow those of the current class.


def _check_dtype(dtype: DType) -> None:
    if dtype not in _SHOWN:
        raise LayoutError(
            "dtype is not a floating-point type",
            pointer="/dtype",
            found=dtype.value,
            expected="float16, bfloat16, float32 or float64",
        )


def _check_blocks(layout: Any) -> None:
    """Check that scales and zero points have one entry per block and keep all dimensions."""
    shape = scale_shape(tuple(layout.qdata.shape), layout.block_size)
    for name in ("scale", "zero_point"):
        value = getattr(layout, name)
        if value is not None and tuple(value.shape) != shape:
            raise LayoutError(
                f"{name} has a wrong shape for its blocks",
                pointer=f"/{name}",
                found=tuple(value.shape),
                expected=f"shape {shape}",
            )


def _check_entries(layout: Any, codes: TensorValue) -> None:
    """Check that there are as many scales and zero points as blocks, dimensions of size 1 aside."""
    shape = scale_shape(tuple(codes.shape), layout.block_size)
    squeezed = tuple(n for n in shape if n != 1)
    for name in ("scale", "zero_point"):
        value = getattr(layout, name)
        if value is not None and tuple(n for n in value.shape if n != 1) != squeezed:
            raise LayoutError(
                f"{name} has a wrong shape for its blocks",
                pointer=f"/{name}",
                found=tuple(value.shape),
                expected=f"the entries of shape {shape}, with or without those of size 1",
            )


def _bounds(layout: Int8TensorLayoutV1) -> tuple[int, int]:
    low, high = layout.quant_min, layout.quant_max
    return -128 if low is None else low, 127 if high is None else high


def _within(codes: "torch.Tensor", *, bounds: tuple[int, int]) -> "torch.Tensor":
    low, high = bounds
    outside = (codes < low) | (codes > high)
    if bool(outside.any()):
        first = outside.nonzero()[0].tolist()
        raise MigrationError(
            f"int_data holds {int(outside.sum())} codes outside their range, the first at {first}",
            pointer="/int_data",
            found=int(codes[outside][0]),
            expected=f"codes from {low} to {high}, as quant_min and quant_max say",
        )
    return codes


def _to_int8(zero_point: "torch.Tensor") -> "torch.Tensor":
    import torch

    outside = (zero_point < -128) | (zero_point > 127)
    if bool(outside.any()):
        raise MigrationError(
            "zero_point does not fit int8",
            pointer="/zero_point",
            found=int(zero_point[outside][0]),
            expected="codes from -128 to 127",
        )
    return zero_point.to(torch.int8)
