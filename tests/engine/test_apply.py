"""Models that are changed in place: all or nothing, and as the plan says."""

import copy
import json

import pytest
import torch
from torch import nn

import qconfig
from qconfig import FqnToConfig, Int8WeightOnlyConfig, Rule
from qconfig.builders import base
from qconfig.engine.apply import apply_plan
from qconfig.engine.plan_document import Action, Plan
from qconfig.errors import BuildError, PlanError, QconfigError
from qconfig.tensors import Int8Tensor

ROW = Int8WeightOnlyConfig()


def linears(count=2, **more):
    """Return a few square linears in a row."""
    return nn.Sequential(*(nn.Linear(8, 8, bias=False, **more) for _ in range(count)))


def everything(*names):
    """Return a config with one exact rule for each name."""
    return FqnToConfig({"row": ROW}, tuple(Rule(name, "row") for name in names))


def classes(model):
    """Return the class of each parameter."""
    return {name: type(p.data).__name__ for name, p in model.named_parameters()}


def test_plan_changes_nothing():
    """A plan is made twice the same, leaves the model as it was, and survives JSON."""
    model = linears()
    before = copy.deepcopy(model.state_dict())
    first, second = qconfig.plan(model, ROW), qconfig.plan(model, ROW)
    assert first == second == Plan.from_dict(json.loads(json.dumps(first.to_dict())))
    assert set(classes(model).values()) == {"Tensor"}
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_failure_leaves_the_model_alone():
    """Where the last weight cannot be quantized, the first is not replaced either."""
    model = linears()
    with torch.no_grad():
        model[1].weight[0, 0] = float("nan")
    before = {name: id(p) for name, p in model.named_parameters()}
    with pytest.raises(BuildError) as caught:
        qconfig.quantize_(model, ROW)
    assert caught.value.fqn == "1.weight"
    assert {name: id(p) for name, p in model.named_parameters()} == before


def test_second_time_does_nothing():
    """What is quantized stays as it is when the default reaches it again."""
    model = linears(1)
    qconfig.quantize_(model, ROW)
    weight = model[0].weight
    again = qconfig.quantize_(model, ROW)
    assert model[0].weight is weight
    assert [(e.action, e.reason) for e in again.entries] == [
        (Action.SKIP, "quantized already, as Int8Tensor")
    ]


@pytest.mark.parametrize("match", ["0.weight", "0", "*"])
def test_second_time_by_rule_is_refused(match):
    """A rule that asks to quantize a quantized weight cannot be followed."""
    model = linears(1)
    qconfig.quantize_(model, ROW)
    with pytest.raises(PlanError, match="cannot serve"):
        qconfig.quantize_(model, everything(match))


def test_tied_parameters_stay_one():
    """A weight under two names is quantized once."""
    model = linears()
    model[1].weight = model[0].weight
    plan = qconfig.quantize_(model, ROW)
    assert [e.tied_to for e in plan.entries] == [None, "0.weight"]
    assert model[0].weight is model[1].weight


class Pair(nn.Linear):
    """A module that has its weight under a second name."""

    def __init__(self):
        super().__init__(8, 8, bias=False)
        self.kernel = self.weight


def test_parameters_tied_in_one_module_stay_one():
    """Two names in one module are seen, though torch lists a parameter once by default."""
    model = nn.Sequential(Pair())
    rules = (qconfig.Rule("0.weight", "row"), qconfig.Rule("0.kernel", "row"))
    plan = qconfig.quantize_(model, qconfig.FqnToConfig(configs={"row": ROW}, rules=rules))
    assert [(e.fqn, e.tied_to) for e in plan.entries] == [
        ("0.weight", None),
        ("0.kernel", "0.weight"),
    ]
    assert model[0].kernel is model[0].weight


def test_transposed_view_is_not_tied():
    """Two square weights over one storage, the second transposed, have other elements."""
    model = linears()
    model[1].weight = nn.Parameter(model[0].weight.detach().t())
    expected = model[1].weight.detach().clone()
    plan = qconfig.quantize_(model, ROW)
    assert [e.tied_to for e in plan.entries] == [None, None]
    assert torch.allclose(model[1].weight.dequantize(), expected, atol=0.01)


def test_shared_module_is_quantized_once():
    """A module under two names keeps one weight."""
    layer = nn.Linear(8, 8)
    model = nn.ModuleDict({"a": layer, "b": layer})
    plan = qconfig.quantize_(model, ROW)
    assert plan.totals["quantize"] == 1
    assert model["a"].weight is model["b"].weight
    assert isinstance(model["a"].weight, Int8Tensor)


def test_parameter_of_the_root():
    """A parameter without a dot in its name is one of the root, whose name is empty."""
    model = nn.Linear(8, 8)
    qconfig.quantize_(model, everything("weight"))
    assert isinstance(model.weight, Int8Tensor)
    assert qconfig.plan(nn.Linear(8, 8), everything("")).totals["quantize"] == 1


def tie(model):
    """Give the second linear the weight of the first."""
    model[1].weight = model[0].weight


def untie(model):
    """Give the second linear a weight of its own."""
    model[1].weight = nn.Parameter(torch.randn(8, 8))


CHANGES = [
    (None, lambda model: model.append(nn.Linear(8, 8)), "no such parameter"),
    (None, lambda model: model.pop(1), "the model has no such parameter"),
    (None, lambda model: model.half(), "differs from the plan"),
    (None, lambda model: qconfig.quantize_(model, ROW), "found: 'Int8Tensor'"),
    (None, tie, "found: 'tied to 0.weight'"),
    (tie, untie, "found: 'tied to nothing'"),
]


@pytest.mark.parametrize(("prepare", "change", "message"), CHANGES)
def test_plan_of_another_model_is_refused(prepare, change, message):
    """A plan is not followed in a model that has changed since; nothing is replaced."""
    model = linears()
    if prepare is not None:
        prepare(model)
    plan = qconfig.plan(model, everything("0", "1"))
    change(model)
    before = {name: id(p) for name, p in model.named_parameters()}
    with pytest.raises(QconfigError) as caught:
        apply_plan(model, plan)
    assert {type(p) for p in caught.value.problems} == {PlanError}
    assert message in str(caught.value)
    assert {name: id(p) for name, p in model.named_parameters()} == before


def test_meta_model_can_be_planned_only():
    """Shapes are enough for a plan; without data there is nothing to quantize."""
    model = linears(device="meta")
    assert qconfig.plan(model, ROW).totals["quantize"] == 2
    with pytest.raises(BuildError, match="the parameter has no data") as caught:
        qconfig.quantize_(model, ROW)
    assert caught.value.fqn == "0.weight"


def test_lazy_module_is_refused():
    """A lazy module has no shapes to plan with."""
    with pytest.raises(PlanError, match="the parameter has no shape yet") as caught:
        qconfig.plan(nn.LazyLinear(8), ROW)
    assert caught.value.hint == "run the model once before"


def test_frozen_parameters_are_quantized():
    """Whether a parameter had a gradient makes no difference."""
    model = linears().requires_grad_(requires_grad=False)
    qconfig.quantize_(model, ROW)
    assert set(classes(model).values()) == {"Int8Tensor"}


def test_subclass_counts_as_its_base():
    """The default reaches subclasses of Linear, as a rule for Linear does."""

    class Special(nn.Linear):
        pass

    model = nn.Sequential(Special(8, 8), nn.Embedding(8, 8))
    rule = Rule("re:.*", "row", modules=("Linear",))
    for config in (ROW, FqnToConfig({"row": ROW}, (rule,))):
        assert qconfig.plan(model, config).totals["quantize"] == 1


def test_builder_that_breaks_its_word(monkeypatch):
    """A builder that returns another shape than the weight's does not reach the model."""

    class Cutting(type(base.builder_of(ROW))):
        def build(self, config, weight):
            return super().build(config, weight[:4])

    monkeypatch.setitem(base._builders, Int8WeightOnlyConfig, Cutting())
    model = linears(1)
    with pytest.raises(BuildError, match="returns another tensor than it was asked for"):
        qconfig.quantize_(model, ROW)
    assert classes(model) == {"0.weight": "Tensor"}


def test_a_plan_prints_as_one_line():
    """`print(plan)` is a summary, and its repr counts what would fill the screen."""
    plan = qconfig.plan(nn.Sequential(nn.Linear(64, 8)), qconfig.Int8WeightOnlyConfig())
    assert str(plan) == "1 of 2 tensors quantized, 2,080 -> 576 bytes, 8.8615 bits/weight"
    assert "entries=<2>, rules=<0>" in repr(plan)
