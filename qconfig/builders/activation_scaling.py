"""Builders of AWQ and SmoothQuant: scale input channels, then let a base config quantize.

The result is a tensor of the base config's class that carries the factor of its activation.
"""

from typing import TYPE_CHECKING, Any

from attrs import evolve

from qconfig.builders.base import Target, builder_of, register_builder
from qconfig.builders.calibrated import build_calibrated, needs_calibration
from qconfig.builders.layer_calibration import LayerCalibration
from qconfig.builders.observed import observed_statistic
from qconfig.builders.weights import LINEAR, weight_refusal
from qconfig.codec.tensor_values import TensorSpec
from qconfig.configs.activation_scaling import AWQConfig, SmoothQuantConfig
from qconfig.configs.choices import MappingType
from qconfig.errors import BuildError, QconfigError
from qconfig.versioning import Config, Layout

if TYPE_CHECKING:
    import torch

_FACTOR = "act_pre_scale"
_GIVEN_SCALES = ("act_quant_scale", "act_quant_zero_point")
_SCALE, _ZERO_POINT = "act_scale", "act_zero_point"


class _ScalingBuilder:
    """What both have in common."""

    def refusal(self, config: Any, target: Target) -> str | None:
        """Return why a parameter is left alone: it is no weight of a Linear, or the base says no.

        A base config whose tensors cannot scale activations is no refusal but an error of `layout`.
        """
        reason = weight_refusal(target, "calibrated", modules=LINEAR, ranks=(2,))
        return reason or builder_of(config.base_config).refusal(config.base_config, target)

    def layout(self, config: Any, target: Target) -> Layout:
        """Return the base config's layout with a factor for the activation.

        Raises:
            BuildError: the layout of the base config has no such factor, or the base config carries
                scales of activations, which would be those of other values.
            FieldError or LayoutError: the base config does not fit the shape.
        """
        base = config.base_config
        layout: Any = _base_layout(base, target)
        if not hasattr(layout, _FACTOR):
            raise BuildError(
                f"tensors of {type(base).__name__} cannot scale activations",
                pointer="/base_config",
                found=type(layout).__name__,
                expected=f"a base config whose layout has {_FACTOR}",
            )
        for name in _GIVEN_SCALES:
            if getattr(base, name, None) is not None:
                raise BuildError(
                    f"the base config carries {name}, and activations will be scaled before",
                    pointer=f"/base_config/{name}",
                    hint="leave it out: it is computed from the calibration",
                )
        changed: Layout = evolve(layout, **{_FACTOR: TensorSpec(target.dtype, (target.shape[-1],))})
        return changed


@register_builder(AWQConfig)
class AWQBuilder(_ScalingBuilder):
    """Quantizes with the scales, among those tried, that keep the outputs of a sample best."""

    def needs_calibration(self, config: AWQConfig) -> bool:
        """Return True: the search is over what was observed."""
        return True

    def build(
        self,
        config: AWQConfig,
        weight: "torch.Tensor",
        calibration: LayerCalibration | None = None,
    ) -> "torch.Tensor":
        """Return the quantized weight, with a factor for its activation.

        Args:
            config: the base config, and how many scales are tried.
            weight: (N, K), floating point; it is quantized as often.
            calibration: with `act_absmean` and `act_sample`.

        Raises:
            BuildError: the calibration lacks something, or the base config cannot serve the weight.
        """
        from qconfig.tensors.activation_scales import awq_search

        base = config.base_config
        mean = observed_statistic(calibration, "act_absmean", weight)
        sample = observed_statistic(calibration, "act_sample", weight)

        def build(scaled: "torch.Tensor", factor: "torch.Tensor") -> "torch.Tensor":
            return _scaled_build(base, scaled, factor, calibration)

        return awq_search(weight, mean, sample, config.scale_search_space_size, build)


@register_builder(SmoothQuantConfig)
class SmoothQuantBuilder(_ScalingBuilder):
    """Quantizes with scales that even out activations at the weight's expense."""

    def needs_calibration(self, config: SmoothQuantConfig) -> bool:
        """Return whether there is a scale to find; without, only the base config may need it."""
        return config.alpha is not None or needs_calibration(config.base_config)

    def layout(self, config: SmoothQuantConfig, target: Target) -> Layout:
        """Return the base config's layout, with a factor for the activation unless alpha is null.

        Raises:
            BuildError: as the common one.
            FieldError or LayoutError: the base config does not fit the shape.
        """
        if config.alpha is None:
            return _base_layout(config.base_config, target)
        return super().layout(config, target)

    def build(
        self,
        config: SmoothQuantConfig,
        weight: "torch.Tensor",
        calibration: LayerCalibration | None = None,
    ) -> "torch.Tensor":
        """Return the quantized weight, with a factor for its activation unless alpha is null.

        Args:
            config: the base config and alpha.
            weight: (N, K), floating point.
            calibration: with `act_absmax`.

        Raises:
            BuildError: the calibration lacks it, or the base config cannot serve the weight.
        """
        from qconfig.tensors.activation_scales import (
            activation_factor,
            scaled_weight,
            smoothquant_scale,
        )

        base = config.base_config
        if config.alpha is None:
            return build_calibrated(base, weight, calibration)
        peak = observed_statistic(calibration, "act_absmax", weight)
        scale = smoothquant_scale(peak, weight.detach(), config.alpha)
        factor = activation_factor(scale, weight.dtype)
        scaled = scaled_weight(weight, factor)
        return _scaled_build(base, scaled, factor, calibration)


def scaled_calibration(calibration: LayerCalibration, factor: "torch.Tensor") -> LayerCalibration:
    """Return what would have been observed of activations that were multiplied by a factor.

    Scales of input channels are multiplied alike; a scale of the whole input is that of the
    extremes, whichever observer found the one before.

    Args:
        calibration: of the activations as they come.
        factor: p, positive, (K,).
    """
    import torch

    from qconfig.tensors.activation_qparams import choose_activation_qparams

    p = factor.detach().to("cpu", torch.float32)
    peak = calibration.act_absmax
    low = calibration.act_min if calibration.act_min is not None else _negative(peak)
    high = calibration.act_max if calibration.act_max is not None else peak
    changes: dict[str, Any] = {
        name: value * p
        for name in ("act_min", "act_max", "act_absmax", "act_absmean", "act_sample")
        if (value := getattr(calibration, name)) is not None
    }
    scale, zero_point = calibration.act_scale, calibration.act_zero_point
    if scale is not None and scale.dim():
        changes[_SCALE] = scale * p
    elif scale is not None and (low is None or high is None):
        raise BuildError(
            "the scale of activations cannot be carried over to scaled ones",
            found="a calibration without act_min, act_max and act_absmax",
            hint="calibrate the model with calibrate()",
        )
    elif scale is not None and low is not None and high is not None:
        mapping = MappingType.SYMMETRIC if zero_point is None else MappingType.ASYMMETRIC
        changes[_SCALE], changes[_ZERO_POINT] = choose_activation_qparams(
            (low * p).amin(),
            (high * p).amax(),
            mapping,
            calibration.quant_dtype,
            reduce_range=calibration.reduce_range,
        )
    return evolve(calibration, **changes)


def _negative(value: "torch.Tensor | None") -> "torch.Tensor | None":
    return None if value is None else -value


def _scaled_build(
    base: Config,
    weight: "torch.Tensor",
    factor: "torch.Tensor",
    calibration: LayerCalibration | None,
) -> "torch.Tensor":
    from qconfig.tensors.activation_scaling import SupportsActivationScaling

    known = calibration
    if calibration is not None and needs_calibration(base):
        known = scaled_calibration(calibration, factor)
    tensor = build_calibrated(base, weight, known)
    if not isinstance(tensor, SupportsActivationScaling):
        raise BuildError(
            f"tensors of {type(base).__name__} cannot scale activations",
            found=type(tensor).__name__,
            expected="a tensor with with_activation_scale",
        )
    scaled: torch.Tensor = tensor.with_activation_scale(factor)
    return scaled


def _base_layout(base: Config, target: Target) -> Layout:
    try:
        return builder_of(base).layout(base, target)
    except QconfigError as error:
        raise error.at(pointer_prefix="/base_config") from None
