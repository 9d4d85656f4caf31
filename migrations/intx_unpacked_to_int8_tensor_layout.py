"""IntxUnpackedToInt8TensorLayout: AffineQuantizedTensor's form, then torchao's own class.

| ours | torchao | what was new |
|---|---|---|
| 1 | 0.11 to 0.15, AffineQuantizedTensor with QDQTensorImpl | – |
| 2 | 0.13, IntxUnpackedTensor | scale keeps its dimensions; an integer type for the bounds |
| 3 | 0.14 and later, IntxUnpackedToInt8Tensor (pull request 2861) | activation_quantization |

In torchao a LinearActivationQuantizedTensor around version 1 named the function that quantizes the
activation; here it is a field. torchao 0.13 quantized no activations in version 2, which has the
field all the same, so that one of version 1 reaches the present. A PlainAQTTensorImpl with int4
codes, as Int8DynamicActivationInt4WeightConfig made it, is of version 1 too; its zero points are
floating-point numbers.
"""

from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any

from attrs import frozen

from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import TensorValue
from qconfig.errors import LayoutError, MigrationError
from qconfig.layouts.blocks import scale_shape
from qconfig.layouts.intx import ActivationQuantization, IntxUnpackedToInt8TensorLayout
from qconfig.versioning import Layout, attribute, migration, register_layout, tensor

if TYPE_CHECKING:
    import torch


_SHOWN = (DType.FLOAT16, DType.BFLOAT16, DType.FLOAT32, DType.FLOAT64)
_TYPES = tuple(DType(f"int{bits}") for bits in range(1, 9))


class ZeroPointDomain(StrEnum):
    """Whether zero points are codes or absent; AffineQuantizedTensor kept it as an attribute."""

    INT = "INT"
    NONE = "NONE"


class InputQuantFunction(StrEnum):
    """The function of LinearActivationQuantizedTensor that quantizes an activation."""

    INT8_ASYMM_PER_TOKEN = "_int8_asymm_per_token_quant"  # noqa: S105 (no secret)


@register_layout("IntxUnpackedToInt8TensorLayout", 1)
@frozen
class IntxUnpackedToInt8TensorLayoutV1(Layout):
    """AffineQuantizedTensor with codes of 1 to 8 bits: one scale a row, (N,), or a group, (N, K/g).

    A value is `(int_data - zero_point) * scale`.
    """

    int_data: TensorValue = tensor("Codes.", "int8", "*B N K")
    scale: TensorValue = tensor("Scales without the reduced dimension.", "float", "*S")
    block_size: tuple[int, ...] = attribute(
        "Elements that share a scale, along each dimension.", min_length=2
    )
    dtype: DType = attribute("Element type that the tensor shows.", converter=DType.parse)
    zero_point: TensorValue | None = tensor(
        "Code of the real value zero, shaped like scale.",
        ("int8", "int32", "int64", "float"),
        "*S",
        default=None,
    )
    quant_min: int | None = attribute("Smallest code; null is -128.", default=None, kw_only=True)
    quant_max: int | None = attribute("Largest code; null is 127.", default=None, kw_only=True)
    zero_point_domain: ZeroPointDomain = attribute(
        "Whether zero points are codes.", default=ZeroPointDomain.INT, kw_only=True
    )
    input_quant_func: InputQuantFunction | None = attribute(
        "How the activation is quantized; null leaves it as it is.", default=None, kw_only=True
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
        shape = scale_shape(tuple(self.int_data.shape), self.block_size)
        _check_shapes(self, tuple(n for n in shape if n != 1), keeps_dimensions=False)


@register_layout("IntxUnpackedToInt8TensorLayout", 2)
@frozen
class IntxUnpackedToInt8TensorLayoutV2(Layout):
    """IntxUnpackedTensor of torchao 0.13: the scale keeps its dimensions."""

    qdata: TensorValue = tensor("Codes, within the range of target_dtype.", "int8", "*B N K")
    scale: TensorValue = tensor("One scale a block.", "float", "*S _ _")
    target_dtype: DType = attribute(
        "Integer type, int1 to int8, whose range the codes keep to.", converter=DType.parse
    )
    block_size: tuple[int, ...] = attribute(
        "Elements that share a scale, along each dimension.", min_length=2
    )
    dtype: DType = attribute("Element type that the tensor shows.", converter=DType.parse)
    zero_point: TensorValue | None = tensor(
        "Code of the real value zero, shaped like scale.",
        ("int8", "float"),
        "*S _ _",
        default=None,
    )
    activation_quantization: ActivationQuantization | None = attribute(
        "How the activation is quantized; null leaves it as it is.", default=None, kw_only=True
    )

    def check_relations(self) -> None:
        """Check the integer type, and that scales and zero points have one entry per block."""
        _check_dtype(self.dtype)
        if self.target_dtype not in _TYPES:
            raise LayoutError(
                "target_dtype is not a signed integer type of 1 to 8 bits",
                pointer="/target_dtype",
                found=self.target_dtype.value,
                expected="int1 to int8",
            )
        shape = scale_shape(tuple(self.qdata.shape), self.block_size)
        _check_shapes(self, shape, keeps_dimensions=True)


@migration(
    drops="quant_min and quant_max where they are narrower than an integer type, and "
    "zero_point_domain: no value depends on them"
)
def bounds_to_target_dtype(
    old: IntxUnpackedToInt8TensorLayoutV1,
) -> IntxUnpackedToInt8TensorLayoutV2:
    """Name the narrowest integer type that holds the bounds; scales get their dimensions back."""
    codes: Any = old.int_data
    scale: Any = old.scale
    zero_point: Any = old.zero_point
    shape = scale_shape(tuple(codes.shape), old.block_size)
    low, high = _bounds(old)
    bits = max((-low - 1).bit_length() if low < 0 else 0, high.bit_length() if high > 0 else 0)
    half = 1 << bits
    if (low, high) != (-half, half - 1):
        codes = codes.map(partial(_within, bounds=(low, high)), by_rows=1)
    if zero_point is not None:
        if DType.parse(zero_point.dtype) in {DType.INT32, DType.INT64}:
            zero_point = zero_point.map(_to_int8, dtype=DType.INT8)
        zero_point = zero_point.reshape(*shape)
    dynamic = old.input_quant_func is InputQuantFunction.INT8_ASYMM_PER_TOKEN
    return IntxUnpackedToInt8TensorLayoutV2(
        codes,
        scale.reshape(*shape),
        _TYPES[bits],
        old.block_size,
        old.dtype,
        zero_point=zero_point,
        activation_quantization=ActivationQuantization.INT8_ASYM_PER_TOKEN if dynamic else None,
    )


@migration()
def add_activation_quantization(
    old: IntxUnpackedToInt8TensorLayoutV2,
) -> IntxUnpackedToInt8TensorLayout:
    """Change the name only: the field is part of version 2 here."""
    return IntxUnpackedToInt8TensorLayout(
        old.qdata,
        old.scale,
        old.target_dtype,
        old.block_size,
        old.dtype,
        zero_point=old.zero_point,
        activation_quantization=old.activation_quantization,
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


def _check_shapes(layout: Any, expected: tuple[int, ...], *, keeps_dimensions: bool) -> None:
    """Check that there are as many scales and zero points as blocks."""
    for name in ("scale", "zero_point"):
        value = getattr(layout, name)
        if value is None:
            continue
        found = tuple(value.shape)
        if found != expected if keeps_dimensions else _squeezed(found) != expected:
            raise LayoutError(
                f"{name} has a wrong shape for its blocks",
                pointer=f"/{name}",
                found=found,
                expected=f"shape {expected}" + ("" if keeps_dimensions else ", ones aside"),
            )


def _squeezed(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(n for n in shape if n != 1)


def _bounds(layout: IntxUnpackedToInt8TensorLayoutV1) -> tuple[int, int]:
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
