"""Where the static scale of int8 activations comes from: the config, or a calibration."""

from math import prod
from typing import TYPE_CHECKING, Any

from qconfig.builders.layer_calibration import LayerCalibration
from qconfig.builders.observed import observed_scale, observed_zero_point
from qconfig.builders.static_values import check_fits_float32
from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import TensorSpec
from qconfig.configs.choices import MappingType
from qconfig.configs.granularity import PerTensor
from qconfig.configs.int8 import Int8StaticActivationInt8WeightConfig
from qconfig.errors import BuildError, FieldError

if TYPE_CHECKING:
    import torch


def announced_scales(
    config: Int8StaticActivationInt8WeightConfig, shape: tuple[int, ...]
) -> tuple[TensorSpec, TensorSpec | None]:
    """Return what `static_scales` would give for a weight of that shape, as specs. Pure.

    Raises:
        FieldError: the scale in the config is neither one nor one for each of the K channels.
    """
    given: Any = config.act_quant_scale
    if given is None:
        has_zero = config.act_mapping_type is MappingType.ASYMMETRIC
        one = TensorSpec(DType.INT8, (1, 1)) if has_zero else None
        return TensorSpec(DType.FLOAT32, (1, 1)), one
    form = (1, _fitting_size(config, given, shape))
    has_zero = config.act_quant_zero_point is not None
    zero = TensorSpec(DType.INT8, form) if has_zero else None
    return TensorSpec(DType.parse(given.dtype), form), zero


def static_scales(
    config: Int8StaticActivationInt8WeightConfig,
    calibration: LayerCalibration | None,
    weight: "torch.Tensor",
) -> "tuple[torch.Tensor, torch.Tensor | None]":
    """Return scale and zero point of activations, in tensors of their own on the weight's device.

    Args:
        config: a scale that it carries is taken, in its own floating-point type.
        calibration: where the config carries none, this does.
        weight: (..., N, K).

    Returns:
        The scale, floating point, and the zero point, int8, or None: (1, 1) or (1, K).

    Raises:
        BuildError: neither has a scale, the calibration was of another kind than the config, or
            float32 does not hold the scale.
        FieldError: the scale in the config does not fit the weight, or its zero point is no code.
    """
    scale: Any = config.act_quant_scale
    zero_point: Any = config.act_quant_zero_point
    if scale is None:
        scale, zero_point = _observed(config, calibration)
    else:
        _fitting_size(config, scale, tuple(weight.shape))
    check_fits_float32(scale, "act_quant_scale")
    flat = scale.detach().reshape(1, -1).to(weight.device, copy=True)
    if zero_point is None:
        return flat, None
    _check_reduced(config, zero_point)
    return flat, _zero_like(zero_point, flat)


def _fitting_size(
    config: Int8StaticActivationInt8WeightConfig, scale: Any, shape: tuple[int, ...]
) -> int:
    size: int = prod(scale.shape)
    per_tensor = isinstance(config.granularity[0], PerTensor)
    if size == 1 or (size == shape[-1] and not per_tensor):
        return size
    each = "" if per_tensor else f", or one for each of K = {shape[-1]} input channels"
    raise FieldError(
        "act_quant_scale does not fit the weight",
        pointer="/act_quant_scale",
        found=f"{size} scales",
        expected=f"one{each}",
    )


def _check_reduced(config: Int8StaticActivationInt8WeightConfig, zero_point: Any) -> None:
    # The config has refused what is outside of int8.
    found = zero_point.detach().flatten().tolist()
    if config.reduce_range and not all(-64 <= z <= 63 for z in found):
        raise FieldError(
            "a zero point is no code of the reduced range",
            pointer="/act_quant_zero_point",
            found=found,
            expected="integers from -64 to 63",
        )


def _observed(
    config: Int8StaticActivationInt8WeightConfig, calibration: LayerCalibration | None
) -> tuple[Any, Any]:
    scale, zero_point = observed_scale(calibration, "act", "act_quant_scale", DType.INT8)
    if calibration is not None and calibration.reduce_range != config.reduce_range:
        raise BuildError(
            "the calibration is for another range of codes than the config",
            pointer="/reduce_range",
            found=f"a calibration with reduce_range {calibration.reduce_range}",
            expected=f"reduce_range {config.reduce_range}",
        )
    if scale.dim():
        raise BuildError(
            "the calibration has a scale for each input channel",
            pointer="/granularity",
            found=f"shape {tuple(scale.shape)}",
            expected="one scale, shape ()",
            hint="calibrate per tensor, or carry the scales in the config",
        )
    return scale, observed_zero_point(scale, zero_point, config.act_mapping_type)


def _zero_like(zero_point: "torch.Tensor", scale: "torch.Tensor") -> "torch.Tensor":
    import torch

    flat = zero_point.detach().reshape(1, -1).to(scale.device, torch.int8, copy=True)
    return flat.expand(scale.shape).contiguous()
