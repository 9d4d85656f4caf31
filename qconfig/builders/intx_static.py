"""Builder of intx weights whose activations have static int8 scales."""

from functools import partial
from typing import TYPE_CHECKING, Any

from qconfig.builders.base import Target, register_builder
from qconfig.builders.intx_static_scales import StaticScales, announced_scales, static_scales
from qconfig.builders.layer_calibration import LayerCalibration
from qconfig.builders.weights import served_target, weight_refusal
from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import TensorSpec
from qconfig.configs.choices import IntxChooseQParamsAlgorithm, MappingType
from qconfig.configs.granularity import PerGroup
from qconfig.configs.intx import Int8StaticActivationIntxWeightConfig
from qconfig.layouts.blocks import check_qparams, scale_shape
from qconfig.layouts.intx_static import IntxStaticActivationTensorLayout

if TYPE_CHECKING:
    import torch


@register_builder(Int8StaticActivationIntxWeightConfig)
class IntxStaticBuilder:
    """Quantizes weights of Linear and Embedding, and matrices of experts stacked in rank 3.

    Scales of activations come from the config, and what it lacks from the calibration of the
    layer; either way they lie on the tensor, in copies of its own.
    """

    def refusal(self, config: Int8StaticActivationIntxWeightConfig, target: Target) -> str | None:
        """Return why this parameter cannot become an IntxStaticActivationTensor, or None.

        A granularity or scale that does not fit the shape is no refusal but an error of `layout`.
        """
        return weight_refusal(target, "static int8")

    def needs_calibration(self, config: Int8StaticActivationIntxWeightConfig) -> bool:
        """Return whether the config lacks a scale of activations, or of outputs that it wants."""
        lacks_output = (
            config.quantize_and_dequantize_output and config.output_act_quant_scale is None
        )
        return config.act_quant_scale is None or lacks_output

    def layout(
        self, config: Int8StaticActivationIntxWeightConfig, target: Target
    ) -> IntxStaticActivationTensorLayout:
        """Return the layout that `build` would give, with specs in place of tensors.

        Raises:
            FieldError: the group size does not divide K.
            LayoutError: scales in the config do not fit the shape.
        """
        block = _block(config, target.shape)
        blocks = scale_shape(target.shape, block)
        scale = TensorSpec(config.weight_scale_dtype or target.dtype, blocks)
        asymmetric = config.weight_mapping_type is MappingType.ASYMMETRIC
        scales = announced_scales(config, target.shape)
        sums = TensorSpec(DType.INT32, (*target.shape[:-1], 1))
        return IntxStaticActivationTensorLayout(
            TensorSpec(DType.INT8, target.shape),
            scale,
            scales.act_scale,
            config.weight_dtype,
            block,
            target.dtype,
            zero_point=TensorSpec(DType.INT8, blocks) if asymmetric else None,
            act_quant_zero_point=scales.act_zero_point,
            output_act_quant_scale=scales.output_scale,
            output_act_quant_zero_point=scales.output_zero_point,
            weight_sums=sums if _has_sums(target.shape, block, scales) else None,
        )

    def rows_together(self, config: Int8StaticActivationIntxWeightConfig, target: Target) -> int:
        """Return how many rows go together: the rounds of HQQ end for all rows at once."""
        algorithm = config.intx_choose_qparams_algorithm
        return 0 if algorithm is IntxChooseQParamsAlgorithm.HQQ_SCALE_ONLY else 1

    def build(
        self,
        config: Int8StaticActivationIntxWeightConfig,
        weight: "torch.Tensor",
        calibration: LayerCalibration | None = None,
    ) -> "torch.Tensor":
        """Return the weight as an IntxStaticActivationTensor.

        Args:
            config: the scheme, with scales of activations or without.
            weight: (N, K) or (B, N, K), float16, bfloat16, float32 or float64.
            calibration: what was observed of the layer; only what the config lacks is used.

        Raises:
            BuildError: another type or rank, values that are not finite, or scales that are
                neither in the config nor in the calibration, or fit not what the config says.
            FieldError: the group size does not divide K.
            LayoutError: scales that do not fit the shape.
        """
        from qconfig.tensors.intx_quantize import quantize_intx

        block = _checked_block(self, config, weight)
        scales = static_scales(config, calibration, weight)
        scale_dtype = config.weight_scale_dtype
        codes, scale, zero_point = quantize_intx(
            weight,
            block,
            config.weight_dtype,
            config.weight_mapping_type,
            scale_dtype=None if scale_dtype is None else scale_dtype.to_torch(),
            algorithm=config.intx_choose_qparams_algorithm,
        )
        return _tensor(config, codes, scale, zero_point, block, weight, scales)

    def build_with_qparams(
        self,
        config: Int8StaticActivationIntxWeightConfig,
        weight: "torch.Tensor",
        scale: "torch.Tensor",
        zero_point: "torch.Tensor | None",
    ) -> "torch.Tensor":
        """Return the weight in codes of scales and zero points that are given.

        Args:
            config: the scheme; it carries the scales of activations.
            weight: (N, K) or (B, N, K), floating point.
            scale: floating point, one entry a block.
            zero_point: whole numbers that are codes, shaped like `scale`, or None for 0.

        Raises:
            BuildError: as `build`; or a scale that is not positive, a zero point that is no code.
            LayoutError: scale or zero point have not one entry a block.
        """
        from qconfig.tensors.intx_quantize import checked_qparams, quantize_with_qparams

        block = _checked_block(self, config, weight)
        scales = static_scales(config, None, weight)
        check_qparams(tuple(weight.shape), block, scale, zero_point)
        scale, zero_point = checked_qparams(scale, zero_point, config.weight_dtype)
        codes = quantize_with_qparams(weight, scale, zero_point, config.weight_dtype)
        return _tensor(config, codes, scale, zero_point, block, weight, scales)


def _tensor(  # noqa: PLR0917
    config: Int8StaticActivationIntxWeightConfig,
    codes: "torch.Tensor",
    scale: "torch.Tensor",
    zero_point: "torch.Tensor | None",
    block: tuple[int, ...],
    weight: "torch.Tensor",
    scales: StaticScales[Any],
) -> "torch.Tensor":
    from qconfig.tensors.intx_static import IntxStaticActivationTensor
    from qconfig.tensors.intx_static_product import row_sums

    has_sums = _has_sums(tuple(weight.shape), block, scales)
    return IntxStaticActivationTensor.from_fields(
        codes,
        scale,
        scales.act_scale,
        config.weight_dtype,
        block,
        DType.parse(weight.dtype),
        zero_point=zero_point,
        act_quant_zero_point=scales.act_zero_point,
        output_act_quant_scale=scales.output_scale,
        output_act_quant_zero_point=scales.output_zero_point,
        weight_sums=row_sums(codes) if has_sums else None,
    )


def _checked_block(
    builder: IntxStaticBuilder,
    config: Int8StaticActivationIntxWeightConfig,
    weight: "torch.Tensor",
) -> tuple[int, ...]:
    refusal = partial(builder.refusal, config)
    return _block(config, served_target(weight, config.weight_dtype.value, refusal).shape)


def _block(config: Int8StaticActivationIntxWeightConfig, shape: tuple[int, ...]) -> tuple[int, ...]:
    granularity = config.weight_granularity
    if isinstance(granularity, PerGroup):
        return granularity.block_of(shape)
    return (*(1 for _ in shape[:-1]), shape[-1])


def _has_sums(shape: tuple[int, ...], block: tuple[int, ...], scales: StaticScales[Any]) -> bool:
    if scales.act_zero_point is None or tuple(scales.act_scale.shape) != (1,):
        return False
    return block[-1] == shape[-1] > 1
