import pytest
import torch
from torch import nn

from qconfig import (
    AWQConfig,
    CalibrationConfig,
    FqnToConfig,
    Int8WeightOnlyConfig,
    Rule,
    SmoothQuantConfig,
    calibrate,
    plan,
    quantize_,
)
from qconfig.engine.apply import apply_plan
from qconfig.errors import BuildError, PlanError, UsageError
from tests.calibration.models import Branches, batches

AWQ = AWQConfig(Int8WeightOnlyConfig(), scale_search_space_size=3)
MIXED = FqnToConfig(
    configs={"awq": AWQ, "plain": Int8WeightOnlyConfig()},
    rules=(Rule("twice", "awq"), Rule("up", None)),
    default="plain",
)


@pytest.fixture
def model():
    """Return a model of four linears, one of which sees no data."""
    torch.manual_seed(0)
    return Branches()


def quantized(model):
    """Return the names of quantized parameters."""
    return [n for n, p in model.named_parameters() if hasattr(p, "__tensor_flatten__")]


def seen_by_all(model):
    """Return a calibration without unseen layers."""
    return calibrate(model, [{"x": x, "rare": True} for x in batches()])


def test_calibration_reaches_the_builders(model):
    """Each layer is built with what it saw itself."""
    calibration = seen_by_all(model)
    quantize_(model, SmoothQuantConfig(Int8WeightOnlyConfig()), calibration=calibration)
    factors = [getattr(model, name).weight.act_pre_scale for name in calibration.layers]
    assert [tuple(f.shape) for f in factors] == [(24,), (40,), (40,), (24,)]
    assert not torch.equal(factors[0], factors[3])


def test_layers_without_data_are_all_named(model):
    """A layer that saw nothing and one that was not observed are told at once; nothing is built."""
    config = CalibrationConfig(layers=("up", "twice", "rare"))
    calibration = calibrate(model, batches(), config)
    with pytest.raises(PlanError) as caught:
        quantize_(model, AWQ, calibration=calibration)
    told = {p.fqn: p.message for p in caught.value.problems}
    assert told == {
        "down.weight": "AWQConfig needs calibration, and the layer was not observed",
        "rare.weight": "AWQConfig needs calibration, and the layer saw no data",
    }
    assert quantized(model) == []


def test_no_calibration_at_all(model):
    """One error for each config that needs it, with the layers."""
    with pytest.raises(PlanError, match="AWQConfig needs calibration, and there is none") as caught:
        quantize_(model, MIXED)
    assert caught.value.found == "['twice']"
    assert caught.value.hint.startswith("pass calibration=calibrate(model, batches)")
    assert quantized(model) == []


def test_only_what_needs_it_is_asked_for(model):
    """Layers of other configs may be missing from the calibration."""
    calibration = calibrate(model, batches(), CalibrationConfig(layers=("twice",)))
    quantize_(model, MIXED, calibration=calibration)
    assert quantized(model) == ["twice.weight", "down.weight", "rare.weight"]
    assert model.twice.weight.act_pre_scale is not None
    assert model.down.weight.act_pre_scale is None


def test_a_plan_without_calibration_has_a_note(model):
    """One can read what would be done before calibrating, and the plan says what is missing."""
    found = plan(model, MIXED)
    assert found.notes == ("AWQConfig needs calibration: layers: 1, the first 'twice'",)
    assert plan(model, Int8WeightOnlyConfig()).notes == ()
    assert plan(model, MIXED, calibration=calibrate(model, batches())).notes == ()


def test_a_plan_with_calibration_checks_it(model):
    """Layers without data are found when planning."""
    with pytest.raises(PlanError, match="the layer saw no data"):
        plan(model, AWQ, calibration=calibrate(model, batches()))


def test_a_plan_can_be_applied_with_calibration(model):
    """A plan that was made before is followed with a calibration, and refused without."""
    found = plan(model, MIXED)
    with pytest.raises(PlanError, match="there is none"):
        apply_plan(model, found)
    apply_plan(model, found, calibration=calibrate(model, batches()))
    assert len(quantized(model)) == 3


def test_the_plan_foretells_bytes(model):
    """The factor of the activation is part of the announced size."""
    entry = next(e for e in plan(model, MIXED).entries if e.fqn == "twice.weight")
    quantize_(model, MIXED, calibration=calibrate(model, batches()))
    assert model.twice.weight.packed_nbytes == entry.bytes_after


def test_a_calibration_of_another_shape_is_refused(model):
    """Layers of one name and different shapes do not go together."""
    calibration = seen_by_all(model)
    other = nn.ModuleDict({"up": nn.Linear(24, 41), "down": nn.Linear(40, 8)})
    with pytest.raises(PlanError, match="the calibration is of a layer of another shape") as caught:
        quantize_(other, AWQ, calibration=calibration)
    assert caught.value.fqn == "up.weight"


def test_a_failing_layer_leaves_the_model_as_it_was(model):
    """What the builder misses in the calibration is told with the layer; nothing is put in."""
    calibration = calibrate(model, batches(), CalibrationConfig(sample_rows=0))
    with pytest.raises(BuildError, match="were not observed") as caught:
        quantize_(model, MIXED, calibration=calibration)
    assert caught.value.fqn == "twice.weight"
    assert quantized(model) == []


def test_configs_that_need_none_ignore_it(model):
    """A calibration beside a config that does not use it changes nothing."""
    quantize_(model, Int8WeightOnlyConfig(), calibration=calibrate(model, batches()))
    assert model.up.weight.act_pre_scale is None
    config = SmoothQuantConfig(Int8WeightOnlyConfig(), alpha=None)
    torch.manual_seed(0)
    quantize_(Branches(), config)


@pytest.mark.parametrize("config", [AWQ, Int8WeightOnlyConfig()], ids=["needed", "unused"])
@pytest.mark.parametrize("given", ["a path", {"once": None}], ids=["path", "mapping"])
def test_something_else_than_a_calibration_is_refused(model, config, given):
    """A path or a mapping is a usage error, whether the config needs calibration or not."""
    with pytest.raises(UsageError, match="not a calibration"):
        quantize_(model, config, calibration=given)
    assert quantized(model) == []
