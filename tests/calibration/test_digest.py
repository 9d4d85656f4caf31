"""The digest of a calibration: the same for the same record and bits, another for any other."""

import torch

from qconfig import CalibrationConfig, calibrate
from qconfig.calibration.calibration import Calibration
from qconfig.calibration.digest import calibration_digest
from tests.calibration.models import Branches, batches


def found(**settings) -> Calibration:
    """Return a calibration of the same model and batches."""
    torch.manual_seed(0)
    return calibrate(Branches(), batches(), CalibrationConfig(**settings))


def test_the_same_observations_have_one_digest():
    """Two runs on the same data."""
    assert calibration_digest(found()) == calibration_digest(found())


def test_a_saved_calibration_keeps_its_digest(tmp_path):
    """What is read back has the same bits."""
    calibration = found()
    calibration.save(tmp_path / "c")
    assert calibration_digest(Calibration.load(tmp_path / "c")) == calibration_digest(calibration)


def test_one_bit_changes_the_digest():
    """A scale that differs in its last bit is another calibration."""
    calibration = found()
    before = calibration_digest(calibration)
    scale = calibration.values["up"].act_scale
    scale.copy_(torch.nextafter(scale, torch.full_like(scale, torch.inf)))
    assert calibration_digest(calibration) != before
