"""Builders of int8 weights whose activations are quantized to int8, as they come or statically."""

from typing import TYPE_CHECKING, Any

from attrs import evolve

from qconfig.builders.base import Target, register_builder
from qconfig.builders.int8 import build_int8, int8_layout, int8_with_qparams
from qconfig.builders.int8_static_scales import announced_scales, static_scales
from qconfig.builders.layer_calibration import LayerCalibration
from qconfig.builders.weights import LINEAR, weight_refusal
from qconfig.configs.granularity import PerAxis, PerRow, PerTensor
from qconfig.configs.int8 import (
    Int8DynamicActivationInt8WeightConfig,
    Int8StaticActivationInt8WeightConfig,
)
from qconfig.layouts.activation import QuantizeTensorToInt8Kwargs
from qconfig.layouts.int8 import Int8TensorLayout

if TYPE_CHECKING:
    import torch


@register_builder(Int8DynamicActivationInt8WeightConfig)
class Int8DynamicBuilder:
    """Quantizes weights of Linear, and matrices of experts stacked in rank 3.

    `reduce_range` reduces the codes of weights and of activations, as in torchao 0.18.
    """

    def refusal(self, config: Int8DynamicActivationInt8WeightConfig, target: Target) -> str | None:
        """Return why this parameter cannot be the weight of such a product, or None."""
        return weight_refusal(target, "dynamic int8", modules=LINEAR)

    def layout(
        self, config: Int8DynamicActivationInt8WeightConfig, target: Target
    ) -> Int8TensorLayout:
        """Return the layout that `build` would give, with specs in place of tensors.

        Raises:
            FieldError: the weight's granularity does not fit the shape.
        """
        return int8_layout(
            config.granularity[1],
            target,
            reduce_range=config.reduce_range,
            act_quant_kwargs=_dynamic_kwargs(config),
        )

    def rows_together(self, config: Int8DynamicActivationInt8WeightConfig, target: Target) -> int:
        """Return how many rows go together, see `BuildsByRows`."""
        return config.granularity[1].block_of(target.shape)[0]

    def build(
        self, config: Int8DynamicActivationInt8WeightConfig, weight: "torch.Tensor"
    ) -> "torch.Tensor":
        """Return the weight as an Int8Tensor that quantizes its activations.

        Args:
            config: the scheme.
            weight: (N, K) or (B, N, K), float16, bfloat16, float32 or float64.

        Raises:
            BuildError: another type or rank, or values that are not finite.
            FieldError: the granularity does not fit the shape.
        """
        return build_int8(
            config.granularity[1],
            weight,
            reduce_range=config.reduce_range,
            act_quant_kwargs=_dynamic_kwargs(config),
        )

    def build_with_qparams(
        self,
        config: Int8DynamicActivationInt8WeightConfig,
        weight: "torch.Tensor",
        scale: "torch.Tensor",
        zero_point: "torch.Tensor | None",
    ) -> "torch.Tensor":
        """Return the weight in codes of scales and zero points that are given.

        Args:
            config: the scheme.
            weight: (N, K) or (B, N, K), floating point.
            scale: floating point, one entry a block.
            zero_point: whole numbers, shaped like `scale`, or None for 0.

        Raises:
            BuildError: as `build`; or a scale that is not positive, a zero point that is no code.
            LayoutError: scale or zero point have not one entry a block.
        """
        return int8_with_qparams(
            config.granularity[1],
            weight,
            scale,
            zero_point,
            reduce_range=config.reduce_range,
            act_quant_kwargs=_dynamic_kwargs(config),
        )


@register_builder(Int8StaticActivationInt8WeightConfig)
class Int8StaticBuilder:
    """As the dynamic builder, with a scale of activations from the config or from calibration.

    One scale serves all tokens, so that the tensor's `act_quant_kwargs` say PerTensor, or for a
    scale for each input channel PerAxis(-1), where the config says PerRow, which is its default.
    """

    def refusal(self, config: Int8StaticActivationInt8WeightConfig, target: Target) -> str | None:
        """Return why this parameter cannot be the weight of such a product, or None.

        A granularity or scale that does not fit the shape is no refusal but an error of `layout`.
        """
        return weight_refusal(target, "static int8", modules=LINEAR)

    def needs_calibration(self, config: Int8StaticActivationInt8WeightConfig) -> bool:
        """Return whether the config lacks the scale of activations."""
        return config.act_quant_scale is None

    def layout(
        self, config: Int8StaticActivationInt8WeightConfig, target: Target
    ) -> Int8TensorLayout:
        """Return the layout that `build` would give, with specs in place of tensors.

        Raises:
            FieldError: granularity or scale in the config do not fit the shape.
        """
        scale, zero_point = announced_scales(config, target.shape)
        layout = int8_layout(
            config.granularity[1],
            target,
            reduce_range=config.reduce_range,
            act_quant_kwargs=_static_kwargs(config, scale),
        )
        return evolve(layout, act_quant_scale=scale, act_quant_zero_point=zero_point)

    def rows_together(self, config: Int8StaticActivationInt8WeightConfig, target: Target) -> int:
        """Return how many rows go together, see `BuildsByRows`."""
        return config.granularity[1].block_of(target.shape)[0]

    def build(
        self,
        config: Int8StaticActivationInt8WeightConfig,
        weight: "torch.Tensor",
        calibration: LayerCalibration | None = None,
    ) -> "torch.Tensor":
        """Return the weight as an Int8Tensor with a static scale for its activations.

        Args:
            config: the scheme, with a scale of activations or without.
            weight: (N, K) or (B, N, K), float16, bfloat16, float32 or float64.
            calibration: what was observed of the layer; used if the config has no scale.

        Raises:
            BuildError: another type or rank, values that are not finite, or a scale that is
                neither in the config nor in the calibration, or fits not what the config says.
            FieldError: granularity or scale in the config do not fit the shape.
        """
        scale, zero_point = static_scales(config, calibration, weight)
        return build_int8(
            config.granularity[1],
            weight,
            reduce_range=config.reduce_range,
            act_quant_kwargs=_static_kwargs(config, scale),
            act_quant_scale=scale,
            act_quant_zero_point=zero_point,
        )

    def build_with_qparams(
        self,
        config: Int8StaticActivationInt8WeightConfig,
        weight: "torch.Tensor",
        scale: "torch.Tensor",
        zero_point: "torch.Tensor | None",
    ) -> "torch.Tensor":
        """Return the weight in codes of scales and zero points that are given.

        Args:
            config: the scheme; it carries the scale of activations.
            weight: (N, K) or (B, N, K), floating point.
            scale: floating point, one entry a block.
            zero_point: whole numbers, shaped like `scale`, or None for 0.

        Raises:
            BuildError: as `build`; or a scale that is not positive, a zero point that is no code.
            FieldError: as `build`.
            LayoutError: scale or zero point have not one entry a block.
        """
        act_scale, act_zero_point = static_scales(config, None, weight)
        return int8_with_qparams(
            config.granularity[1],
            weight,
            scale,
            zero_point,
            reduce_range=config.reduce_range,
            act_quant_kwargs=_static_kwargs(config, act_scale),
            act_quant_scale=act_scale,
            act_quant_zero_point=act_zero_point,
        )


def _dynamic_kwargs(config: Int8DynamicActivationInt8WeightConfig) -> QuantizeTensorToInt8Kwargs:
    per_tensor = isinstance(config.granularity[0], PerTensor)
    return QuantizeTensorToInt8Kwargs(
        PerTensor() if per_tensor else PerRow(), config.act_mapping_type, config.reduce_range
    )


def _static_kwargs(
    config: Int8StaticActivationInt8WeightConfig, scale: Any
) -> QuantizeTensorToInt8Kwargs:
    granularity = PerTensor() if scale.shape[-1] == 1 else PerAxis(-1)
    return QuantizeTensorToInt8Kwargs(granularity, config.act_mapping_type, config.reduce_range)
