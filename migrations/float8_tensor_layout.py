"""Float8TensorLayout: AffineQuantizedTensor's float8 form, then Float8Tensor release by release.

| ours | torchao | what was new |
|---|---|---|
| 1 | 0.5 to 0.15, AffineQuantizedTensor with Float8AQTTensorImpl | – |
| 2 | 0.13, Float8Tensor (pull request 2650) | scale keeps its dimensions |
| 3 | 0.14 and later (pull request 2935) | no bounds of the weight |

Version 1 has scales of several shapes: () or (N,) up to 0.12, bfloat16 for weight-only; (1, 1) or
(N, 1) from 0.13 on. Its `quant_min`, `quant_max`, `zero_point_domain` and `transposed` say nothing
that the element type and the shapes do not, so they have no field. The wrappers for activations are
fields: `activation_granularity` and `activation_dtype` of the dynamic one as `act_quant_kwargs`,
the `scale` of the static one as `act_quant_scale`, which version 2 has too for that reason.
"""

from typing import Any

from attrs import frozen

from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import TensorValue
from qconfig.configs.choices import KernelPreference
from qconfig.configs.float8 import Float8MMConfig
from qconfig.errors import LayoutError
from qconfig.layouts.blocks import scale_shape
from qconfig.layouts.float8 import Float8TensorLayout, QuantizeTensorToFloat8Kwargs
from qconfig.versioning import Layout, attribute, migration, register_layout, tensor

_CODES = ("float8_e4m3fn", "float8_e5m2")
_SCALES = ("float16", "bfloat16", "float32")
_SHOWN = (DType.FLOAT16, DType.BFLOAT16, DType.FLOAT32, DType.FLOAT64)


@register_layout("Float8TensorLayout", 1)
@frozen
class Float8TensorLayoutV1(Layout):
    """AffineQuantizedTensor with float8 data: a scale for all, (), or one a row, (N,) or (N, 1)."""

    float8_data: TensorValue = tensor("Codes.", _CODES, "*B N K")
    scale: TensorValue = tensor("Scales, with or without dimensions of size 1.", _SCALES, "*S")
    block_size: tuple[int, ...] = attribute(
        "Elements that share a scale, along each dimension.", min_length=2
    )
    dtype: DType = attribute("Element type that the tensor shows.", converter=DType.parse)
    act_quant_scale: TensorValue | None = tensor(
        "Static scale of the activation, one element.", "float", "*A", default=None
    )
    act_quant_kwargs: QuantizeTensorToFloat8Kwargs | None = attribute(
        "How the activation is quantized.", default=None, kw_only=True
    )
    mm_config: Float8MMConfig | None = attribute(
        "How torchao's product is computed.", default=None, kw_only=True
    )

    def check_relations(self) -> None:
        """Check dtype, that there are as many scales as blocks, and the activation's scale."""
        _check_dtype(self.dtype)
        expected = scale_shape(tuple(self.float8_data.shape), self.block_size)
        found = tuple(self.scale.shape)
        if tuple(n for n in found if n != 1) != tuple(n for n in expected if n != 1):
            raise _wrong_scale(found, f"the entries of shape {expected}, ones aside")
        _check_activation(self, self.float8_data.shape[-1])


@register_layout("Float8TensorLayout", 2)
@frozen
class Float8TensorLayoutV2(Layout):
    """Float8Tensor of torchao 0.13: the scale keeps its dimensions; bounds of the weight."""

    qdata: TensorValue = tensor("Codes.", _CODES, "*B N K")
    scale: TensorValue = tensor("One scale a block.", _SCALES, "*S _ _")
    block_size: tuple[int, ...] = attribute(
        "Elements that share a scale, along each dimension.", min_length=2
    )
    dtype: DType = attribute("Element type that the tensor shows.", converter=DType.parse)
    act_quant_scale: TensorValue | None = tensor(
        "Static scale of the activation, one element.", "float", "*A", default=None
    )
    act_quant_kwargs: QuantizeTensorToFloat8Kwargs | None = attribute(
        "How the activation is quantized.", default=None, kw_only=True
    )
    mm_config: Float8MMConfig | None = attribute(
        "How torchao's product is computed.", default=None, kw_only=True
    )
    kernel_preference: KernelPreference = attribute(
        "Which of torchao's kernels to use.", default=KernelPreference.AUTO, kw_only=True
    )
    hp_value_lb: float | None = attribute(
        "Least absolute maximum that the weight's scales were made for.",
        default=None,
        kw_only=True,
    )
    hp_value_ub: float | None = attribute(
        "Greatest absolute maximum that the weight's scales were made for.",
        default=None,
        kw_only=True,
    )

    def check_relations(self) -> None:
        """Check dtype, that scales have one entry per block, and the activation's scale."""
        _check_dtype(self.dtype)
        expected = scale_shape(tuple(self.qdata.shape), self.block_size)
        if tuple(self.scale.shape) != expected:
            raise _wrong_scale(tuple(self.scale.shape), f"shape {expected}")
        _check_activation(self, self.qdata.shape[-1])


@migration()
def keep_scale_dimensions(old: Float8TensorLayoutV1) -> Float8TensorLayoutV2:
    """Give scales the dimensions of their blocks; their element type stays."""
    scale: Any = old.scale
    shape = scale_shape(tuple(old.float8_data.shape), old.block_size)
    return Float8TensorLayoutV2(
        old.float8_data,
        scale.reshape(*shape),
        old.block_size,
        old.dtype,
        act_quant_scale=old.act_quant_scale,
        act_quant_kwargs=old.act_quant_kwargs,
        mm_config=old.mm_config,
    )


@migration(drops="hp_value_lb and hp_value_ub: the weight's scales are made, no value needs them")
def drop_weight_bounds(old: Float8TensorLayoutV2) -> Float8TensorLayout:
    """Leave out the bounds that the weight was quantized with; those of activations stay."""
    return Float8TensorLayout(
        old.qdata,
        old.scale,
        old.block_size,
        old.dtype,
        act_quant_scale=old.act_quant_scale,
        act_quant_kwargs=old.act_quant_kwargs,
        mm_config=old.mm_config,
        kernel_preference=old.kernel_preference,
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


def _wrong_scale(found: tuple[int, ...], expected: str) -> LayoutError:
    return LayoutError(
        "scale has a wrong shape for its blocks", pointer="/scale", found=found, expected=expected
    )


def _check_activation(layout: Any, columns: int) -> None:
    kwargs, scale = layout.act_quant_kwargs, layout.act_quant_scale
    group = None if kwargs is None else kwargs.group
    if group and columns % group:
        raise LayoutError(
            "groups of a float8 activation do not divide its channels",
            pointer="/act_quant_kwargs",
            found=group,
            expected=f"a divisor of {columns}",
        )
    if scale is None:
        return
    if group != 0 or any(n != 1 for n in scale.shape):
        raise LayoutError(
            "act_quant_scale is not one scale for all elements",
            pointer="/act_quant_scale",
            found=tuple(scale.shape),
            expected="one element, and act_quant_kwargs with granularity PerTensor()",
        )
