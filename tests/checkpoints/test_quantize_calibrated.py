"""Quantizing a checkpoint with what was observed of the model that it is of."""

import pytest
import torch

from qconfig import (
    AWQConfig,
    CalibrationConfig,
    Int8WeightOnlyConfig,
    SmoothQuantConfig,
    calibrate,
    load_checkpoint,
    plan,
    quantize_,
    quantize_checkpoint,
    save_checkpoint,
    verify_checkpoint,
)
from qconfig.errors import PlanError
from qconfig.versioning import registry
from tests.calibration.models import Branches, batches
from tests.cli.calls import call, write

CONFIGS = {
    "awq": AWQConfig(Int8WeightOnlyConfig(), scale_search_space_size=3),
    "smoothquant": SmoothQuantConfig(Int8WeightOnlyConfig()),
}


@pytest.fixture
def model():
    """Return a model whose layers all see data."""
    torch.manual_seed(0)
    return Branches()


@pytest.fixture
def source(model, tmp_path):
    """Return the model's float checkpoint."""
    save_checkpoint(model, tmp_path / "float")
    return tmp_path / "float"


@pytest.fixture
def calibration(model):
    """Return what all layers saw."""
    return calibrate(model, [{"x": x, "rare": True} for x in batches()])


@pytest.mark.parametrize("name", CONFIGS)
def test_the_result_equals_quantizing_the_model(name, model, source, calibration, tmp_path):
    """Codes, scales and factors are what `quantize_` gives in memory."""
    quantize_checkpoint(source, tmp_path / "new", CONFIGS[name], calibration=calibration)
    quantize_(model, CONFIGS[name], calibration=calibration)
    stored = load_checkpoint(tmp_path / "new")
    for layer in calibration.layers:
        found, expected = stored[f"{layer}.weight"], getattr(model, layer).weight
        for field in ("qdata", "scale", "act_pre_scale"):
            assert torch.equal(getattr(found, field), getattr(expected, field))
    assert verify_checkpoint(tmp_path / "new").ok


def test_missing_layers_are_all_named_and_nothing_is_written(source, model, tmp_path):
    """Before the first byte is written every layer without data is named."""
    calibration = calibrate(model, batches(), CalibrationConfig(layers=("up", "rare")))
    with pytest.raises(PlanError) as caught:
        quantize_checkpoint(source, tmp_path / "new", CONFIGS["awq"], calibration=calibration)
    assert sorted(p.fqn for p in caught.value.problems) == [
        "down.weight",
        "rare.weight",
        "twice.weight",
    ]
    with pytest.raises(PlanError, match="needs calibration, and there is none"):
        quantize_checkpoint(source, tmp_path / "new", CONFIGS["awq"])
    assert not (tmp_path / "new").exists()


def test_a_plan_of_a_checkpoint_says_that_calibration_is_missing(source, calibration):
    """The plan has a note, and with a calibration none."""
    assert "AWQConfig needs calibration: layers: 4" in plan(source, CONFIGS["awq"]).notes[-1]
    assert plan(source, CONFIGS["awq"], calibration=calibration).notes == ()


def test_the_command(source, calibration, tmp_path):
    """`--calibration` names a saved calibration; without it the command says what is missing."""
    calibration.save(tmp_path / "cal")
    base = {"type": "Int8WeightOnlyConfig", "version": 3}
    config = write(
        tmp_path / "awq.json",
        {"type": "AWQConfig", "version": registry.entry_of(AWQConfig).version, "base_config": base},
    )
    target = tmp_path / "new"
    missing = call("quantize", source, target, "-c", config)
    assert missing.exit_code == 3
    assert "needs calibration, and there is none" in missing.stderr
    done = call("quantize", source, target, "-c", config, "--calibration", tmp_path / "cal")
    assert done.exit_code == 0, done.stderr
    assert load_checkpoint(target)["up.weight"].act_pre_scale is not None
    absent = call("quantize", source, target, "-c", config, "--calibration", tmp_path / "no")
    assert absent.exit_code == 5
