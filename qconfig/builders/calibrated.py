"""Ask and use the builder of a config, whether it takes a calibration or not."""

from typing import TYPE_CHECKING

from qconfig.builders.base import CalibratedBuilder, builder_of
from qconfig.builders.layer_calibration import LayerCalibration
from qconfig.versioning import Config

if TYPE_CHECKING:
    import torch


def needs_calibration(config: Config) -> bool:
    """Return whether the builder of a config cannot do without calibration."""
    builder = builder_of(config)
    return isinstance(builder, CalibratedBuilder) and builder.needs_calibration(config)


def build_calibrated(
    config: Config, weight: "torch.Tensor", calibration: LayerCalibration | None
) -> "torch.Tensor":
    """Return what the builder of a config makes of a weight and of what its layer saw.

    Args:
        config: the config.
        weight: the float weight.
        calibration: of its layer, or None; builders that take none are not told.

    Raises:
        QconfigError: whatever the builder raises.
    """
    builder = builder_of(config)
    if isinstance(builder, CalibratedBuilder):
        return builder.build(config, weight, calibration)
    return builder.build(config, weight)
