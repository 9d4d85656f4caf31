"""Where static scales of activations and outputs come from: the config, or a calibration."""

from math import prod
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from attrs import frozen

from qconfig.builders.layer_calibration import LayerCalibration
from qconfig.builders.observed import observed_scale, observed_zero_point
from qconfig.builders.static_values import check_fits_float32
from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import TensorSpec
from qconfig.configs.choices import MappingType
from qconfig.configs.granularity import PerAxis
from qconfig.configs.intx import Int8StaticActivationIntxWeightConfig
from qconfig.errors import BuildError

if TYPE_CHECKING:
    import torch

T = TypeVar("T")


@frozen(eq=False)
class StaticScales(Generic[T]):
    """Scales and zero points as they lie on a tensor: vectors; None where there are none.

    Args:
        act_scale: floating point, (1,) or (K,).
        act_zero_point: int8, shaped like `act_scale`.
        output_scale: floating point, (1,) or (N,).
        output_zero_point: int8, shaped like `output_scale`.
    """

    act_scale: T
    act_zero_point: T | None
    output_scale: T | None
    output_zero_point: T | None


def announced_scales(
    config: Int8StaticActivationIntxWeightConfig, shape: tuple[int, ...]
) -> StaticScales[TensorSpec]:
    """Return what `static_scales` would give for a weight of that shape, as specs. Pure."""
    given, output = config.act_quant_scale, config.output_act_quant_scale
    if given is None:
        size = shape[-1] if isinstance(config.act_granularity, PerAxis) else 1
        act_scale = TensorSpec(DType.FLOAT32, (size,))
        has_zero = config.act_mapping_type is MappingType.ASYMMETRIC
    else:
        act_scale = _vector_spec(given)
        has_zero = config.act_quant_zero_point is not None
    output_scale = None
    output_has_zero = False
    if output is not None:
        output_scale = _vector_spec(output)
        output_has_zero = config.output_act_quant_zero_point is not None
    elif config.quantize_and_dequantize_output:
        output_scale, output_has_zero = TensorSpec(DType.FLOAT32, (1,)), True
    return StaticScales(
        act_scale,
        TensorSpec(DType.INT8, act_scale.shape) if has_zero else None,
        output_scale,
        TensorSpec(DType.INT8, output_scale.shape) if output_scale and output_has_zero else None,
    )


def _vector_spec(value: Any) -> TensorSpec:
    return TensorSpec(DType.parse(value.dtype), (prod(value.shape),))


def static_scales(
    config: Int8StaticActivationIntxWeightConfig,
    calibration: LayerCalibration | None,
    weight: "torch.Tensor",
) -> "StaticScales[torch.Tensor]":
    """Return scales and zero points for a weight, in tensors of their own on its device.

    Args:
        config: what it carries is taken, in its own floating-point types.
        calibration: where the config carries nothing, this does.
        weight: (..., N, K).

    Raises:
        BuildError: neither has a scale that the config wants, the calibration was of another kind
            than the config says, or float32 does not hold a scale.
    """
    act_scale: Any = config.act_quant_scale
    act_zero: Any = config.act_quant_zero_point
    if act_scale is None:
        act_scale, act_zero = _observed_activation(config, calibration)
    output_scale: Any = config.output_act_quant_scale
    output_zero: Any = config.output_act_quant_zero_point
    if output_scale is None and config.quantize_and_dequantize_output:
        output_scale, output_zero = _observed_output(calibration)
    check_fits_float32(act_scale, "act_quant_scale")
    if output_scale is not None:
        check_fits_float32(output_scale, "output_act_quant_scale")
    return StaticScales(
        _vector(act_scale, weight),
        _zero_vector(act_zero, act_scale, weight),
        None if output_scale is None else _vector(output_scale, weight),
        _zero_vector(output_zero, output_scale, weight),
    )


def _observed_activation(
    config: Int8StaticActivationIntxWeightConfig, calibration: LayerCalibration | None
) -> tuple[Any, Any]:
    scale, zero_point = observed_scale(calibration, "act", "act_quant_scale", DType.INT8)
    per_channel = isinstance(config.act_granularity, PerAxis)
    if per_channel != bool(scale.dim()):
        raise BuildError(
            "the calibration's scale of activations is not of the config's granularity",
            pointer="/act_granularity",
            found=f"shape {tuple(scale.shape)}",
            expected="one for each input channel" if per_channel else "one for all, shape ()",
            hint="calibrate with the granularity of the config",
        )
    return scale, observed_zero_point(scale, zero_point, config.act_mapping_type)


def _observed_output(calibration: LayerCalibration | None) -> tuple[Any, Any]:
    scale, zero_point = observed_scale(calibration, "output", "output_act_quant_scale", DType.INT8)
    if scale.dim():
        raise BuildError(
            "the calibration has a scale for each output channel",
            pointer="/output_act_quant_scale",
            found=f"shape {tuple(scale.shape)}",
            expected="one scale, shape ()",
            hint="calibrate outputs per tensor, or carry the scales in the config",
        )
    return scale, observed_zero_point(scale, zero_point, MappingType.ASYMMETRIC)


def _vector(scale: "torch.Tensor", weight: "torch.Tensor") -> "torch.Tensor":
    return scale.detach().reshape(-1).to(weight.device, copy=True)


def _zero_vector(
    zero_point: "torch.Tensor | None", scale: "torch.Tensor | None", weight: "torch.Tensor"
) -> "torch.Tensor | None":
    if zero_point is None or scale is None:
        return None
    import torch

    # The config has refused what is outside of int8; one for all channels is told to each.
    flat = zero_point.detach().reshape(-1).to(weight.device, torch.int8, copy=True)
    return flat.expand(scale.numel()).contiguous()
