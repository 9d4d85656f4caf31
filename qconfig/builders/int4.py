"""Builder of int4 weights."""

from functools import partial
from typing import TYPE_CHECKING

from attrs import evolve

from qconfig.builders.base import Target, register_builder
from qconfig.builders.weights import LINEAR, served_target, weight_refusal
from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import TensorSpec
from qconfig.configs.choices import Int4ChooseQParamsAlgorithm, Int4PackingFormat
from qconfig.configs.granularity import PerGroup
from qconfig.configs.int4 import (
    Float8DynamicActivationInt4WeightConfig,
    Int4WeightOnlyConfig,
)
from qconfig.errors import FieldError
from qconfig.layouts.blocks import check_qparams, scale_shape
from qconfig.layouts.int4 import Int4TensorLayout

if TYPE_CHECKING:
    import torch


@register_builder(Int4WeightOnlyConfig)
class Int4WeightOnlyBuilder:
    """Quantizes weights of Linear, and matrices of experts stacked in rank 3."""

    def refusal(self, config: Int4WeightOnlyConfig, target: Target) -> str | None:
        """Return why this parameter cannot become an Int4Tensor, or None; see `weight_refusal`."""
        return weight_refusal(target, "int4", modules=LINEAR)

    def layout(self, config: Int4WeightOnlyConfig, target: Target) -> Int4TensorLayout:
        """Return the layout that `build` would give, with specs in place of tensors.

        Raises:
            FieldError: another packing format, an odd K, or a group size that does not divide K.
        """
        block = _block(config, target.shape)
        *leading, rows, columns = target.shape
        qdata = TensorSpec(DType.INT8, (*leading, rows, columns // 2))
        *_, groups = scale_shape(target.shape, block)
        scale = TensorSpec(target.dtype, (*leading, groups, rows))
        return Int4TensorLayout(qdata, scale, scale, block, target.shape, target.dtype)

    def rows_together(self, config: Int4WeightOnlyConfig, target: Target) -> int:
        """Return how many rows go together: HQQ searches for those of a matrix together."""
        return 0 if _is_hqq(config) and len(target.shape) == 2 else 1

    def build(self, config: Int4WeightOnlyConfig, weight: "torch.Tensor") -> "torch.Tensor":
        """Return the weight as an Int4Tensor.

        Args:
            config: group size and algorithm.
            weight: (N, K) or (B, N, K), float16, bfloat16, float32 or float64.

        Raises:
            BuildError: another type or rank, values that are not finite, or too large.
            FieldError: another packing format, an odd K, or a group size that does not divide K.
        """
        from qconfig.tensors.int4_hqq import quantize_hqq
        from qconfig.tensors.int4_quantize import quantize_tinygemm

        block = _checked_block(config, weight)
        quantize = quantize_hqq if _is_hqq(config) else quantize_tinygemm
        return _tensor(weight, block, *quantize(weight, block[-1]))

    def build_with_qparams(
        self,
        config: Int4WeightOnlyConfig,
        weight: "torch.Tensor",
        scale: "torch.Tensor",
        zero_point: "torch.Tensor | None",
    ) -> "torch.Tensor":
        """Return the weight with given scales and zero points, such as learned ones.

        Args:
            config: the group size.
            weight: (N, K) or (B, N, K), float16, bfloat16, float32 or float64.
            scale: positive, floating point, one a group: (N, K/g) or (B, N, K/g).
            zero_point: floating point, shaped like `scale`, the value of code 0; None for zeros.

        Raises:
            BuildError: another type or rank, values that are not finite, or a scale that is not
                positive.
            FieldError: another packing format, an odd K, or a group size that does not divide K.
            LayoutError: scale or zero point have not one entry a group.
        """
        from qconfig.tensors.int4_quantize import checked_qparams, quantize_with

        block = _checked_block(config, weight)
        check_qparams(tuple(weight.shape), block, scale, zero_point)
        scale, zero_point = checked_qparams(scale, zero_point)
        return _tensor(weight, block, quantize_with(weight, scale, zero_point), scale, zero_point)


def _is_hqq(config: Int4WeightOnlyConfig) -> bool:
    return config.int4_choose_qparams_algorithm is Int4ChooseQParamsAlgorithm.HQQ


_GROUP = 128
"""Size of the groups of weights that meet float8 activations."""


@register_builder(Float8DynamicActivationInt4WeightConfig)
class Float8DynamicActivationInt4WeightBuilder:
    """Quantizes weights of Linear, and matrices of experts stacked in rank 3, symmetrically."""

    def refusal(
        self, config: Float8DynamicActivationInt4WeightConfig, target: Target
    ) -> str | None:
        """Return why this parameter cannot become an Int4Tensor, or None; see `weight_refusal`."""
        return weight_refusal(target, "int4", modules=LINEAR)

    def layout(
        self, config: Float8DynamicActivationInt4WeightConfig, target: Target
    ) -> Int4TensorLayout:
        """Return the layout that `build` would give; see `Int4WeightOnlyBuilder.layout`."""
        scheme = Int4WeightOnlyConfig(
            _group(target.shape), int4_packing_format=config.int4_packing_format
        )
        layout = Int4WeightOnlyBuilder().layout(scheme, target)
        return evolve(layout, activation_dtype=DType.FLOAT8_E4M3FN)

    def rows_together(self, config: Float8DynamicActivationInt4WeightConfig, target: Target) -> int:
        """Return how many rows go together, see `BuildsByRows`."""
        return 1

    def build(
        self, config: Float8DynamicActivationInt4WeightConfig, weight: "torch.Tensor"
    ) -> "torch.Tensor":
        """Return the weight as an Int4Tensor whose `linear` quantizes activations to float8.

        Args:
            config: the packing format.
            weight: (N, K) or (B, N, K), float16, bfloat16, float32 or float64.

        Raises:
            BuildError: another type or rank, or values that are not finite.
            FieldError: another packing format, an odd K, or a K above 128 that 128 does not divide.
        """
        from qconfig.tensors.int4_quantize import quantize_symmetric

        block = _checked_block(config, weight)
        fields = quantize_symmetric(weight, block[-1])
        return _tensor(weight, block, *fields, activation_dtype=DType.FLOAT8_E4M3FN)


def _group(shape: tuple[int, ...]) -> int:
    return min(_GROUP, shape[-1]) or _GROUP


_Int4Config = Int4WeightOnlyConfig | Float8DynamicActivationInt4WeightConfig


def _checked_block(config: _Int4Config, weight: "torch.Tensor") -> tuple[int, ...]:
    target = served_target(weight, "int4", partial(weight_refusal, what="int4", modules=LINEAR))
    return _block(config, target.shape)


def _block(config: _Int4Config, shape: tuple[int, ...]) -> tuple[int, ...]:
    if config.int4_packing_format is not Int4PackingFormat.PLAIN:
        raise FieldError(
            "only the packing format PLAIN is built",
            pointer="/int4_packing_format",
            found=config.int4_packing_format.value,
            expected=Int4PackingFormat.PLAIN.value,
            hint="set int4_packing_format to PLAIN: the order that a device's kernel reads is made "
            "when the weight is used",
        )
    if shape[-1] % 2:
        raise FieldError(
            "int4 codes are two a byte, and K is odd",
            pointer="/group_size",
            found=f"shape {shape}",
            expected="an even K",
            hint="skip this parameter",
        )
    if isinstance(config, Int4WeightOnlyConfig):
        return PerGroup(config.group_size).block_of(shape)
    return PerGroup(_group(shape)).block_of(shape)


def _tensor(
    weight: "torch.Tensor",
    block: tuple[int, ...],
    qdata: "torch.Tensor",
    scale: "torch.Tensor",
    zero_point: "torch.Tensor",
    *,
    activation_dtype: DType = DType.BFLOAT16,
) -> "torch.Tensor":
    from qconfig.tensors.int4 import Int4Tensor

    swapped = (t.transpose(-1, -2).contiguous() for t in (scale, zero_point))
    return Int4Tensor.from_fields(
        qdata,
        *swapped,
        block,
        tuple(weight.shape),
        DType.parse(weight.dtype),
        activation_dtype=activation_dtype,
    )
