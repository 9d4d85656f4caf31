"""Builders of the NVFP4 family."""

from functools import partial
from typing import TYPE_CHECKING

from qconfig.builders.base import Target, register_builder
from qconfig.builders.layer_calibration import LayerCalibration
from qconfig.builders.observed import observed_statistic
from qconfig.builders.weights import LINEAR, served_target, weight_refusal
from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import TensorSpec
from qconfig.configs.nvfp4 import NVFP4DynamicActivationNVFP4WeightConfig, NVFP4WeightOnlyConfig
from qconfig.errors import LayoutError
from qconfig.layouts.nvfp4 import BLOCK, NVFP4TensorLayout, QuantizeTensorToNVFP4Kwargs

if TYPE_CHECKING:
    import torch

_Config = NVFP4WeightOnlyConfig | NVFP4DynamicActivationNVFP4WeightConfig


class _NVFP4Builder:
    """What both have in common.

    Scales lie row by row, where torchao's are in tiles: views of rows work, and a kernel that
    wants tiles gets them when it runs.
    """

    def refusal(self, config: _Config, target: Target) -> str | None:
        """Return why this parameter cannot become an NVFP4Tensor, or None.

        A K that is no multiple of 16 is no refusal but an error of `layout`.
        """
        return weight_refusal(target, "NVFP4", modules=LINEAR)

    def layout(self, config: _Config, target: Target) -> NVFP4TensorLayout:
        """Return the layout that `build` would give, with specs in place of tensors.

        Raises:
            LayoutError: K is not a multiple of 16.
        """
        *leading, columns = target.shape
        _check_columns(columns)
        second = (leading[0], 1, 1) if len(leading) > 1 else ()
        return NVFP4TensorLayout(
            TensorSpec(DType.UINT8, (*leading, columns // 2)),
            TensorSpec(DType.FLOAT8_E4M3FN, (*leading, columns // BLOCK)),
            BLOCK,
            target.dtype,
            per_tensor_scale=TensorSpec(DType.FLOAT32, second) if _has_second(config) else None,
            act_per_tensor_scale=TensorSpec(DType.FLOAT32, ()) if _is_static(config) else None,
            use_triton_kernel=_uses_triton(config),
            act_quant_kwargs=_activation(config),
        )

    def rows_together(self, config: _Config, target: Target) -> int:
        """Return how many rows go together, see `BuildsByRows`."""
        return 0 if _has_second(config) and len(target.shape) == 2 else 1

    def _tensor(
        self, config: _Config, weight: "torch.Tensor", act_scale: "torch.Tensor | None"
    ) -> "torch.Tensor":
        from qconfig.tensors.nvfp4 import NVFP4Tensor
        from qconfig.tensors.nvfp4_quantize import per_tensor_scale_of, quantize_nvfp4

        target = served_target(weight, "NVFP4", partial(self.refusal, config))
        _check_columns(target.shape[-1])
        second = per_tensor_scale_of(weight.detach()) if _has_second(config) else None
        codes, scale = quantize_nvfp4(weight, second)
        return NVFP4Tensor.from_fields(
            codes,
            scale,
            BLOCK,
            target.dtype,
            per_tensor_scale=second,
            act_per_tensor_scale=act_scale,
            use_triton_kernel=_uses_triton(config),
            act_quant_kwargs=_activation(config),
        )


@register_builder(NVFP4WeightOnlyConfig)
class NVFP4WeightOnlyBuilder(_NVFP4Builder):
    """Quantizes weights of Linear and matrices of experts stacked in rank 3."""

    def build(self, config: NVFP4WeightOnlyConfig, weight: "torch.Tensor") -> "torch.Tensor":
        """Return the weight as an NVFP4Tensor.

        Args:
            config: whether there is a scale for the whole tensor.
            weight: (N, K) or (B, N, K), float16, bfloat16, float32 or float64.

        Raises:
            BuildError: another type or rank, or values that are not finite.
            LayoutError: K is not a multiple of 16.
        """
        return self._tensor(config, weight, None)


@register_builder(NVFP4DynamicActivationNVFP4WeightConfig)
class NVFP4DynamicActivationBuilder(_NVFP4Builder):
    """Quantizes weights whose activations are quantized too, as those of the weight-only config.

    With a `step`, whichever, the activation's scale as a whole comes from a calibration; prepare
    and convert are one here.
    """

    def needs_calibration(self, config: NVFP4DynamicActivationNVFP4WeightConfig) -> bool:
        """Return whether the activation's scale as a whole is static."""
        return _is_static(config)

    def build(
        self,
        config: NVFP4DynamicActivationNVFP4WeightConfig,
        weight: "torch.Tensor",
        calibration: LayerCalibration | None = None,
    ) -> "torch.Tensor":
        """Return the weight as an NVFP4Tensor that quantizes its activations.

        Args:
            config: where scales of whole tensors come from.
            weight: (N, K) or (B, N, K), float16, bfloat16, float32 or float64.
            calibration: what was observed of the layer; `act_absmax` is used where `step` is set.

        Raises:
            BuildError: another type or rank, values that are not finite, or a step without what
                it needs of the calibration.
            LayoutError: K is not a multiple of 16.
        """
        if not _is_static(config):
            return self._tensor(config, weight, None)
        from qconfig.tensors.nvfp4_quantize import per_tensor_scale_of

        peak = observed_statistic(calibration, "act_absmax", weight)
        return self._tensor(config, weight, per_tensor_scale_of(peak.reshape(1, -1)))


def _is_static(config: _Config) -> bool:
    return isinstance(config, NVFP4DynamicActivationNVFP4WeightConfig) and config.step is not None


def _has_second(config: _Config) -> bool:
    return config.use_dynamic_per_tensor_scale or _is_static(config)


def _uses_triton(config: _Config) -> bool:
    return not isinstance(config, NVFP4WeightOnlyConfig) and config.use_triton_kernel


def _activation(config: _Config) -> QuantizeTensorToNVFP4Kwargs | None:
    if isinstance(config, NVFP4WeightOnlyConfig):
        return None
    return QuantizeTensorToNVFP4Kwargs(
        use_triton_kernel=config.use_triton_kernel,
        use_dynamic_per_tensor_scale=config.use_dynamic_per_tensor_scale,
    )


def _check_columns(columns: int) -> None:
    if columns % BLOCK:
        raise LayoutError(
            f"K is not a multiple of {BLOCK}, the elements of an NVFP4 block",
            pointer="/block_size",
            found=columns,
            expected=f"a multiple of {BLOCK}",
        )
