import pytest
import torch

from qconfig.builders.layer_calibration import LayerCalibration
from qconfig.errors import BuildError

ONE = torch.tensor(0.5)
ZERO = torch.tensor(3, dtype=torch.int8)


def test_everything_may_be_absent():
    """Nothing observed is a valid calibration."""
    assert LayerCalibration().act_scale is None


def test_what_fits_together():
    """Scales with zero points, per tensor or per channel, with statistics of K channels."""
    k = torch.ones(4)
    LayerCalibration(ONE, ZERO, k, act_absmax=k, act_absmean=k, act_min=-k, act_max=k)
    LayerCalibration(act_scale=k, act_zero_point=k.to(torch.int8), act_sample=torch.ones(2, 4))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"act_scale": torch.tensor(0.0)}, "act_scale of the calibration holds 1 values"),
        ({"act_scale": torch.tensor(-1.0)}, "act_scale of the calibration holds 1 values"),
        ({"output_scale": torch.tensor(float("inf"))}, "output_scale of the calibration holds"),
        ({"act_scale": torch.ones(2, 2)}, "act_scale of the calibration has a wrong type or shape"),
        ({"act_scale": ONE.double()}, "act_scale of the calibration has a wrong type or shape"),
        ({"act_zero_point": ZERO}, "act_zero_point of the calibration does not fit act_scale"),
        (
            {"act_scale": torch.ones(3), "act_zero_point": ZERO},
            "act_zero_point of the calibration does not fit act_scale",
        ),
        (
            {"act_scale": ONE, "act_zero_point": ZERO.to(torch.int32)},
            "act_zero_point of the calibration has a wrong type or shape",
        ),
        ({"act_absmax": -torch.ones(3)}, "act_absmax of the calibration holds 3 values"),
        ({"act_absmean": torch.ones(())}, "act_absmean of the calibration has a wrong type"),
        ({"act_sample": torch.ones(3)}, "act_sample of the calibration has a wrong type or shape"),
        ({"act_sample": torch.full((1, 2), float("nan"))}, "act_sample of the calibration holds 2"),
        (
            {"act_absmax": torch.ones(3), "act_absmean": torch.ones(4)},
            "parts of the calibration have different numbers of input channels",
        ),
    ],
)
def test_contradictions_are_refused(fields, message):
    """Shapes, types and values that cannot be are errors that name the part."""
    with pytest.raises(BuildError, match=message):
        LayerCalibration(**fields)
