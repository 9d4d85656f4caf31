"""Builders of intx weights: weight-only, and with activations quantized to int8 token by token."""

from typing import TYPE_CHECKING

from attrs import frozen

from qconfig.builders.base import Target, register_builder
from qconfig.builders.weights import LINEAR, LINEAR_AND_EMBEDDING, served_target, weight_refusal
from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import TensorSpec
from qconfig.configs.choices import IntxChooseQParamsAlgorithm, IntxPackingFormat, MappingType
from qconfig.configs.granularity import PerAxis, PerGroup
from qconfig.configs.intx import Int8DynamicActivationIntxWeightConfig, IntxWeightOnlyConfig
from qconfig.errors import FieldError
from qconfig.layouts.blocks import check_qparams, scale_shape
from qconfig.layouts.intx import (
    ActivationQuantization,
    IntxUnpackedToInt8TensorLayout,
    check_mapping,
)

if TYPE_CHECKING:
    import torch


@frozen
class _Scheme:
    """What both configs say, under one name each; `prefix` stands before the config's names."""

    prefix: str
    modules: tuple[str, ...]
    weight_dtype: DType
    granularity: PerGroup | PerAxis
    mapping_type: MappingType
    scale_dtype: DType | None
    packing_format: IntxPackingFormat
    algorithm: IntxChooseQParamsAlgorithm
    activation: ActivationQuantization | None

    def refusal(self, target: Target) -> str | None:
        return weight_refusal(target, "intx", modules=self.modules, ranks=(2,))

    def block(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Check what depends on the config alone, and return the block.

        Raises:
            FieldError: an opaque format, a mapping that does not exist, or groups that do not fit.
        """
        if self.packing_format is not IntxPackingFormat.UNPACKED_TO_INT8:
            raise FieldError(
                "opaque formats of torchao are not built here",
                pointer="/intx_packing_format",
                found=self.packing_format.value,
                expected=IntxPackingFormat.UNPACKED_TO_INT8.value,
                hint="their bytes are those of one kernel library; the codes are the same",
            )
        name = f"{self.prefix}mapping_type"
        check_mapping(self.mapping_type, self.weight_dtype, self.algorithm, name)
        return self.granularity.block_of(shape)

    def layout(self, target: Target) -> IntxUnpackedToInt8TensorLayout:
        block = self.block(target.shape)
        blocks = scale_shape(target.shape, block)
        asymmetric = self.mapping_type is MappingType.ASYMMETRIC
        return IntxUnpackedToInt8TensorLayout(
            TensorSpec(DType.INT8, target.shape),
            TensorSpec(self.scale_dtype or target.dtype, blocks),
            self.weight_dtype,
            block,
            target.dtype,
            zero_point=TensorSpec(DType.INT8, blocks) if asymmetric else None,
            activation_quantization=self.activation,
        )

    def rows_together(self) -> int:
        is_hqq = self.algorithm is IntxChooseQParamsAlgorithm.HQQ_SCALE_ONLY
        return 0 if is_hqq else 1  # whose rounds end for all rows at once

    def build(self, weight: "torch.Tensor") -> "torch.Tensor":
        from qconfig.tensors.intx_quantize import quantize_intx

        block = self._checked_block(weight)
        codes, scale, zero_point = quantize_intx(
            weight,
            block,
            self.weight_dtype,
            self.mapping_type,
            scale_dtype=None if self.scale_dtype is None else self.scale_dtype.to_torch(),
            algorithm=self.algorithm,
        )
        return self._tensor(weight, block, codes, scale, zero_point)

    def build_with_qparams(
        self, weight: "torch.Tensor", scale: "torch.Tensor", zero_point: "torch.Tensor | None"
    ) -> "torch.Tensor":
        from qconfig.tensors.intx_quantize import checked_qparams, quantize_with_qparams

        block = self._checked_block(weight)
        check_qparams(tuple(weight.shape), block, scale, zero_point)
        scale, zero_point = checked_qparams(scale, zero_point, self.weight_dtype)
        codes = quantize_with_qparams(weight, scale, zero_point, self.weight_dtype)
        return self._tensor(weight, block, codes, scale, zero_point)

    def _checked_block(self, weight: "torch.Tensor") -> tuple[int, ...]:
        return self.block(served_target(weight, self.weight_dtype.value, self.refusal).shape)

    def _tensor(
        self,
        weight: "torch.Tensor",
        block: tuple[int, ...],
        codes: "torch.Tensor",
        scale: "torch.Tensor",
        zero_point: "torch.Tensor | None",
    ) -> "torch.Tensor":
        from qconfig.tensors.intx import IntxUnpackedToInt8Tensor

        return IntxUnpackedToInt8Tensor.from_fields(
            codes,
            scale,
            self.weight_dtype,
            block,
            DType.parse(weight.dtype),
            zero_point=zero_point,
            activation_quantization=self.activation,
        )


def _weight_only(config: IntxWeightOnlyConfig) -> _Scheme:
    return _Scheme(
        "",
        LINEAR_AND_EMBEDDING,
        config.weight_dtype,
        config.granularity,
        config.mapping_type,
        config.scale_dtype,
        config.intx_packing_format,
        config.intx_choose_qparams_algorithm,
        None,
    )


def _dynamic(config: Int8DynamicActivationIntxWeightConfig) -> _Scheme:
    symmetric = config.act_mapping_type is MappingType.SYMMETRIC
    kinds = ActivationQuantization
    return _Scheme(
        "weight_",
        LINEAR,
        config.weight_dtype,
        config.weight_granularity,
        config.weight_mapping_type,
        config.weight_scale_dtype,
        config.intx_packing_format,
        config.intx_choose_qparams_algorithm,
        kinds.INT8_SYM_PER_TOKEN if symmetric else kinds.INT8_ASYM_PER_TOKEN,
    )


@register_builder(IntxWeightOnlyConfig)
class IntxWeightOnlyBuilder:
    """Quantizes weights of Linear and Embedding."""

    def refusal(self, config: IntxWeightOnlyConfig, target: Target) -> str | None:
        """Return why this parameter cannot become an IntxUnpackedToInt8Tensor, or None."""
        return _weight_only(config).refusal(target)

    def layout(
        self, config: IntxWeightOnlyConfig, target: Target
    ) -> IntxUnpackedToInt8TensorLayout:
        """Return the layout that `build` would give, with specs in place of tensors.

        Raises:
            FieldError: the group size does not divide K, the packing format is opaque, or the
                mapping does not exist for these codes.
        """
        return _weight_only(config).layout(target)

    def rows_together(self, config: IntxWeightOnlyConfig, target: Target) -> int:
        """Return how many rows go together, see `BuildsByRows`."""
        return _weight_only(config).rows_together()

    def build(self, config: IntxWeightOnlyConfig, weight: "torch.Tensor") -> "torch.Tensor":
        """Return the weight as an IntxUnpackedToInt8Tensor.

        Args:
            config: the scheme.
            weight: (N, K), float16, bfloat16, float32 or float64.

        Raises:
            BuildError: another type or rank, or values that are not finite.
            FieldError: as `layout`.
        """
        return _weight_only(config).build(weight)

    def build_with_qparams(
        self,
        config: IntxWeightOnlyConfig,
        weight: "torch.Tensor",
        scale: "torch.Tensor",
        zero_point: "torch.Tensor | None",
    ) -> "torch.Tensor":
        """Return the weight in codes of scales and zero points that are given.

        Args:
            config: the scheme.
            weight: (N, K), floating point.
            scale: (N, K/g), floating point, positive; it keeps its type.
            zero_point: shaped like `scale`, whole numbers that are codes, or None for zeros.

        Raises:
            BuildError: as `build`, or a scale or zero point that is none.
            LayoutError: scale or zero point have not one entry a block.
        """
        return _weight_only(config).build_with_qparams(weight, scale, zero_point)


@register_builder(Int8DynamicActivationIntxWeightConfig)
class Int8DynamicActivationIntxWeightBuilder:
    """Quantizes weights of Linear, whose activations `linear` quantizes token by token."""

    def refusal(self, config: Int8DynamicActivationIntxWeightConfig, target: Target) -> str | None:
        """Return why this parameter cannot become an IntxUnpackedToInt8Tensor, or None."""
        return _dynamic(config).refusal(target)

    def layout(
        self, config: Int8DynamicActivationIntxWeightConfig, target: Target
    ) -> IntxUnpackedToInt8TensorLayout:
        """Return the layout that `build` would give; see `IntxWeightOnlyBuilder.layout`."""
        return _dynamic(config).layout(target)

    def rows_together(self, config: Int8DynamicActivationIntxWeightConfig, target: Target) -> int:
        """Return how many rows go together, see `BuildsByRows`."""
        return _dynamic(config).rows_together()

    def build(
        self, config: Int8DynamicActivationIntxWeightConfig, weight: "torch.Tensor"
    ) -> "torch.Tensor":
        """Return the weight as a tensor; see `IntxWeightOnlyBuilder.build`."""
        return _dynamic(config).build(weight)

    def build_with_qparams(
        self,
        config: Int8DynamicActivationIntxWeightConfig,
        weight: "torch.Tensor",
        scale: "torch.Tensor",
        zero_point: "torch.Tensor | None",
    ) -> "torch.Tensor":
        """Return the weight in given codes; see `IntxWeightOnlyBuilder.build_with_qparams`."""
        return _dynamic(config).build_with_qparams(weight, scale, zero_point)
