"""What a calibration holds of a layer, or the error that says what it lacks."""

from typing import TYPE_CHECKING, Literal

from qconfig.builders.layer_calibration import LayerCalibration
from qconfig.codec.dtypes import DType
from qconfig.configs.choices import MappingType
from qconfig.errors import BuildError

if TYPE_CHECKING:
    import torch


def observed_statistic(
    calibration: LayerCalibration | None, name: str, weight: "torch.Tensor"
) -> "torch.Tensor":
    """Return a statistic of input channels, on the weight's device.

    Args:
        calibration: of the layer, or None.
        name: its field, whose last dimension is K, such as "act_absmax".
        weight: (..., K).

    Raises:
        BuildError: there is none, or its last dimension is not K.
    """
    value: torch.Tensor | None = getattr(calibration, name, None)
    if value is None:
        raise BuildError(
            "activations of the layer were not observed",
            found=_lacking(calibration, name),
            expected=f"a calibration with {name}",
            hint="pass calibration=calibrate(model, batches), with sample_rows above 0",
        )
    if value.shape[-1] != weight.shape[-1]:
        raise BuildError(
            "the calibration is of another layer",
            found=f"{name} of shape {tuple(value.shape)}",
            expected=f"K = {weight.shape[-1]} input channels",
        )
    return value.to(weight.device)


def observed_scale(
    calibration: LayerCalibration | None, side: Literal["act", "output"], field: str, dtype: DType
) -> "tuple[torch.Tensor, torch.Tensor | None]":
    """Return a static scale, float32, () or one for each channel, and its zero point or None.

    Args:
        calibration: of the layer, or None.
        side: whether the scale is that of the input or of the output.
        field: the config's field that may hold the scale instead.
        dtype: the codes that the scale has to be for.

    Raises:
        BuildError: there is none, or it is for codes of another type.
    """
    name = f"{side}_scale"
    scale: torch.Tensor | None = getattr(calibration, name, None)
    if calibration is None or scale is None:
        is_input = calibration is None or side == "act"
        raise BuildError(
            f"{field} is neither in the config nor observed",
            pointer=f"/{field}",
            found=_lacking(calibration, name),
            expected=f"{field} in the config, or a calibration of the layer",
            hint="pass calibration=calibrate(model, batches)"
            if is_input
            else "calibrate with output_granularity=PerTensor(), or outputs are not observed",
        )
    if calibration.quant_dtype is not dtype:
        raise BuildError(
            f"the calibration is not for {dtype.value} activations",
            found=calibration.quant_dtype.value,
            expected=dtype.value,
        )
    return scale, getattr(calibration, f"{side}_zero_point")


def observed_zero_point(
    scale: "torch.Tensor", zero_point: "torch.Tensor | None", mapping_type: MappingType
) -> "torch.Tensor | None":
    """Return the zero point that goes with an observed scale of activations.

    Args:
        scale: the scale.
        zero_point: its zero point, or None where the calibration was symmetric.
        mapping_type: the config's; asymmetric ones have zeros if none was observed.

    Raises:
        BuildError: there is one, and the config is symmetric.
    """
    if mapping_type is MappingType.ASYMMETRIC:
        return scale.new_zeros(scale.shape) if zero_point is None else zero_point
    if zero_point is not None:
        raise BuildError(
            "the calibration has a zero point of activations, and the config is symmetric",
            pointer="/act_mapping_type",
            found=mapping_type.value,
            expected="ASYMMETRIC, or a symmetric calibration",
        )
    return None


def _lacking(calibration: LayerCalibration | None, name: str) -> str:
    return "no calibration" if calibration is None else f"a calibration without {name}"
