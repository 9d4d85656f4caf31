"""Builders of the float8 family: weight-only, dynamic and static activations."""

from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from qconfig.builders.base import Target, register_builder
from qconfig.builders.layer_calibration import LayerCalibration
from qconfig.builders.observed import observed_scale
from qconfig.builders.weights import LINEAR, LINEAR_AND_EMBEDDING, served_target, weight_refusal
from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import TensorSpec
from qconfig.configs.choices import Float8PackingFormat
from qconfig.configs.float8 import (
    Float8DynamicActivationFloat8WeightConfig,
    Float8MMConfig,
    Float8StaticActivationFloat8WeightConfig,
    Float8WeightOnlyConfig,
)
from qconfig.configs.granularity import AnyGranularity, PerBlock, PerTensor
from qconfig.errors import BuildError, FieldError
from qconfig.layouts.blocks import scale_shape
from qconfig.layouts.float8 import Float8TensorLayout, QuantizeTensorToFloat8Kwargs

if TYPE_CHECKING:
    import torch


class _Float8Builder:
    """What the three have in common; a subclass says what else its layout holds."""

    modules: tuple[str, ...] = LINEAR

    def refusal(self, config: Any, target: Target) -> str | None:
        """Return why this parameter cannot become a Float8Tensor, or None.

        A granularity that does not fit the shape is no refusal but an error of `layout`.
        """
        return weight_refusal(target, "float8", modules=self.modules)

    def layout(self, config: Any, target: Target) -> Float8TensorLayout:
        """Return the layout that `build` would give, with specs in place of tensors.

        Raises:
            FieldError: the granularity does not fit the shape, or a setting is not served.
        """
        block = self._granularity(config).block_of(target.shape)
        fields = self._attributes(config)
        fields |= {name: TensorSpec(DType.FLOAT32, ()) for name in self._static(config)}
        codes = TensorSpec(config.weight_dtype, target.shape)
        scale = TensorSpec(DType.FLOAT32, scale_shape(target.shape, block))
        return Float8TensorLayout(codes, scale, block, target.dtype, **fields)

    def rows_together(self, config: Any, target: Target) -> int:
        """Return how many rows go together, see `BuildsByRows`."""
        return self._granularity(config).block_of(target.shape)[0]

    def _granularity(self, config: Any) -> AnyGranularity:
        granularity: AnyGranularity = config.granularity
        return granularity

    def _attributes(self, config: Any) -> dict[str, Any]:
        return {}

    def _static(self, config: Any) -> tuple[str, ...]:
        return ()

    def _built(
        self, config: Any, weight: "torch.Tensor", scales: "dict[str, torch.Tensor]"
    ) -> "torch.Tensor":
        from qconfig.tensors.float8 import Float8Tensor
        from qconfig.tensors.float8_quantize import quantize_float8

        target = served_target(weight, "float8", partial(self.refusal, config))
        block = self._granularity(config).block_of(target.shape)
        attributes = self._attributes(config)
        codes, scale = quantize_float8(weight, block, config.weight_dtype.to_torch())
        return Float8Tensor.from_fields(codes, scale, block, target.dtype, **attributes, **scales)


@register_builder(Float8WeightOnlyConfig)
class Float8WeightOnlyBuilder(_Float8Builder):
    """Quantizes weights of Linear and Embedding, and matrices of experts stacked in rank 3."""

    modules = LINEAR_AND_EMBEDDING

    def build(self, config: Float8WeightOnlyConfig, weight: "torch.Tensor") -> "torch.Tensor":
        """Return the weight as a Float8Tensor.

        Args:
            config: element type and granularity.
            weight: (N, K) or (B, N, K), float16, bfloat16, float32 or float64.

        Raises:
            BuildError: another type or rank, or values that are not finite.
            FieldError: the granularity does not fit the shape.
        """
        return self._built(config, weight, {})


@register_builder(Float8DynamicActivationFloat8WeightConfig)
class Float8DynamicActivationBuilder(_Float8Builder):
    """Quantizes weights of Linear, whose activations are quantized when they come."""

    def build(
        self, config: Float8DynamicActivationFloat8WeightConfig, weight: "torch.Tensor"
    ) -> "torch.Tensor":
        """Return the weight as a Float8Tensor that quantizes its activations.

        Args:
            config: element types, granularities and bounds of activations.
            weight: (N, K) or (B, N, K), float16, bfloat16, float32 or float64.

        Raises:
            BuildError: another type or rank, or values that are not finite.
            FieldError: the granularity does not fit the shape, or another packing than PLAIN.
        """
        return self._built(config, weight, {})

    def _granularity(self, config: Float8DynamicActivationFloat8WeightConfig) -> AnyGranularity:
        if config.packing_format is not Float8PackingFormat.PLAIN:
            raise FieldError(
                "packing_format is not built here",
                pointer="/packing_format",
                found=config.packing_format.value,
                expected=Float8PackingFormat.PLAIN.value,
                hint="sparse float8 codes need kernels of one kind of GPU each",
            )
        return config.granularity[1]

    def _attributes(self, config: Float8DynamicActivationFloat8WeightConfig) -> dict[str, Any]:
        tiled = isinstance(config.granularity[1], PerBlock)
        return {
            "act_quant_kwargs": QuantizeTensorToFloat8Kwargs(
                config.activation_dtype,
                config.granularity[0],
                hp_value_lb=config.activation_value_lb,
                hp_value_ub=config.activation_value_ub,
                kernel_preference=config.kernel_preference,
            ),
            "mm_config": config.mm_config or Float8MMConfig(use_fast_accum=not tiled),
            "kernel_preference": config.kernel_preference,
        }


@register_builder(Float8StaticActivationFloat8WeightConfig)
class Float8StaticActivationBuilder(_Float8Builder):
    """Quantizes weights of Linear, whose activations are quantized with a scale known before."""

    def needs_calibration(self, config: Float8StaticActivationFloat8WeightConfig) -> bool:
        """Return whether the config lacks a scale that the layer needs."""
        return any(getattr(config, name) is None for name in self._static(config))

    def build(
        self,
        config: Float8StaticActivationFloat8WeightConfig,
        weight: "torch.Tensor",
        calibration: LayerCalibration | None = None,
    ) -> "torch.Tensor":
        """Return the weight as a Float8Tensor with the scales of its activation and output.

        Args:
            config: element types, and scales, which come before those of a calibration.
            weight: (N, K) or (B, N, K), float16, bfloat16, float32 or float64.
            calibration: what was observed of the layer, per tensor and for `activation_dtype`.

        Raises:
            BuildError: another type or rank, values that are not finite, or no scale.
        """
        import torch

        scales: dict[str, torch.Tensor] = {}
        for name in self._static(config):
            found = getattr(config, name)
            if found is None:
                found = _calibrated(config, calibration, name)
            scales[name] = found.detach().to(weight.device, torch.float32).reshape(())
        return self._built(config, weight, scales)

    def _granularity(self, config: Float8StaticActivationFloat8WeightConfig) -> AnyGranularity:
        return config.granularity or PerTensor()

    def _static(self, config: Float8StaticActivationFloat8WeightConfig) -> tuple[str, ...]:
        if config.quantize_and_dequantize_output:
            return ("act_quant_scale", "output_act_quant_scale")
        return ("act_quant_scale",)

    def _attributes(self, config: Float8StaticActivationFloat8WeightConfig) -> dict[str, Any]:
        mm_config = config.mm_config or Float8MMConfig(use_fast_accum=True)
        kwargs = QuantizeTensorToFloat8Kwargs(
            config.activation_dtype,
            PerTensor(),
            mm_config=mm_config,
            kernel_preference=config.kernel_preference,
        )
        return {
            "act_quant_kwargs": kwargs,
            "output_act_quant_kwargs": kwargs if config.quantize_and_dequantize_output else None,
            "mm_config": mm_config,
            "kernel_preference": config.kernel_preference,
        }


def _calibrated(
    config: Float8StaticActivationFloat8WeightConfig,
    calibration: LayerCalibration | None,
    name: str,
) -> "torch.Tensor":
    """Return a scale that was observed. Raises BuildError where there is none that fits."""
    side: Literal["act", "output"] = "act" if name == "act_quant_scale" else "output"
    scale, _ = observed_scale(calibration, side, name, config.activation_dtype)
    if scale.numel() != 1:
        raise BuildError(
            f"the calibration has a scale for each channel where {name} is one for all",
            pointer=f"/{name}",
            found=tuple(scale.shape),
            expected="a calibration per tensor",
        )
    return scale
