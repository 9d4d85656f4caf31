"""Modules without parameters: who reaches them, what a plan says of them, what becomes of them."""

import pytest
from torch import nn

from qconfig.builders import base
from qconfig.configs import FqnToConfig, Int8WeightOnlyConfig, NF4WeightOnlyConfig, Rule
from qconfig.engine.apply import apply_plan, plan_model, quantize_
from qconfig.engine.plan_document import Action, Plan
from qconfig.errors import BuildError, DocumentErrors, PlanError, QconfigError
from qconfig.rules.assignment import How


class Doubled(nn.Module):
    """Stands in for an activation function."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        """Return twice what the function returns."""
        return 2 * self.inner(x)


@pytest.fixture
def serving(monkeypatch):
    """Let the builder of Int8WeightOnlyConfig serve ReLU and GELU too, GELU without success."""
    base.load_builders()
    usual = base._builders[Int8WeightOnlyConfig]

    class Serving(type(usual)):
        def activation_refusal(self, config, target):
            kind = target.module_classes[0]
            return None if kind in ("ReLU", "GELU") else f"module class {kind} is not served"

        def build_activation_module(self, config, module):
            if isinstance(module, nn.GELU):
                raise BuildError("no GELU today")
            return Doubled(module)

    monkeypatch.setitem(base._builders, Int8WeightOnlyConfig, Serving())


class Net(nn.Module):
    """Two linears, a ReLU between them, one function used twice, and a tanh."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.act = nn.ReLU()
        self.block = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Tanh())
        self.again = self.block[1]

    def forward(self, x):
        """Return what the block makes of the activation."""
        return self.again(self.block(self.act(self.first(x))))


def document(*rules, **more):
    """Return an FqnToConfig with one config."""
    rules = tuple(r if isinstance(r, Rule) else Rule(*r) for r in rules)
    return FqnToConfig(configs={"a": Int8WeightOnlyConfig()}, rules=rules, **more)


def done(plan):
    """Return what is done to modules, by name."""
    return {entry.fqn: entry.action.value for entry in plan.modules}


def problems(model, config):
    """Return the problems for which nothing is planned."""
    with pytest.raises(QconfigError) as caught:
        plan_model(model, config)
    return [str(problem) for problem in caught.value.problems]


RELUS = Rule("**", "a", modules=("ReLU",))


def test_an_exact_rule_reaches_a_module(serving):
    """A rule that gives the name of an activation function reaches it, and only it."""
    plan = plan_model(Net(), document(("act", "a")))
    assert done(plan) == {"act": "quantize"}
    assert {entry.action for entry in plan.entries} == {Action.SKIP}
    entry = plan.modules[0]
    assert (entry.how, entry.rule, entry.config) == (How.EXACT_MODULE, 0, "a")
    assert (entry.module_class, entry.reason) == ("ReLU", "rule 0 gives its exact module")


def test_a_pattern_with_the_class_reaches_modules(serving):
    """A pattern that asks for the class reaches all of them, one that is shared once."""
    plan = plan_model(Net(), document(RELUS))
    assert done(plan) == {"act": "quantize", "block.1": "quantize", "again": "tied"}
    assert plan.modules[2].tied_to == "block.1"
    assert plan.modules[2].reason == "the same module as block.1"
    assert plan.rules[0].hits == plan.rules[0].quantized == 3


def test_the_default_reaches_classes_that_it_names(serving):
    """The default reaches the module classes that default_modules lists."""
    plan = plan_model(Net(), document(default="a", default_modules=("Linear", "ReLU")))
    assert done(plan) == {"act": "quantize", "block.1": "quantize", "again": "tied"}
    assert plan.modules[0].how is How.DEFAULT


def test_a_pattern_without_a_class_means_weights(serving):
    """Neither a pattern for weights nor the usual default reaches a module without parameters."""
    assert plan_model(Net(), document(("**", "a"))).modules == ()
    assert plan_model(Net(), document(default="a")).modules == ()
    assert plan_model(Net(), Int8WeightOnlyConfig()).modules == ()


def test_a_pattern_for_weights_does_not_stand_in_the_way(serving):
    """A pattern for weights that comes first leaves activation functions to the rule for them."""
    plan = plan_model(Net(), document(("**", "a"), RELUS))
    assert {entry.rule for entry in plan.modules} == {1}


def test_what_rules_leave_alone_stays(serving):
    """Null leaves a module alone, whether its name is given or a pattern matches it."""
    plan = plan_model(Net(), document(("block.**", None), ("again", None), RELUS))
    assert done(plan) == {"act": "quantize", "block.1": "skip", "again": "tied"}
    assert plan.modules[1].reason == "the rule says skip"


def test_a_shared_module_has_one_config(serving):
    """A rule for one of two names of a module is refused, with both names."""
    (problem,) = problems(Net(), document(("block.1", "a")))
    assert problem.startswith("again: tied to block.1, but they get different configs")


def test_an_exact_rule_has_to_be_served(serving):
    """A rule that names a module which its config cannot serve is refused, with the reason."""
    (problem,) = problems(Net(), document(("block.2", "a")))
    assert problem.startswith(
        "block.2: /rules/0: a cannot serve this module: module class Tanh is not served"
    )


def test_a_pattern_has_to_serve_something(serving):
    """A pattern for a class that its config cannot serve counts as one that does nothing."""
    (problem,) = problems(Net(), document(Rule("**", "a", modules=("Tanh",))))
    assert "rule matches only what a cannot serve: module class Tanh is not served" in problem
    optional = Rule("**", "a", modules=("Tanh",), optional=True)
    assert done(plan_model(Net(), document(optional))) == {"block.2": "skip"}


def test_another_config_wins_by_name(serving):
    """An exact rule with a config for weights only is refused where another would have served."""
    config = FqnToConfig(
        configs={"a": Int8WeightOnlyConfig(), "w": NF4WeightOnlyConfig()},
        rules=(Rule("act", "w"), RELUS),
    )
    assert problems(Net(), config)[0].startswith(
        "act: /rules/0: w cannot serve this module: the module has no parameters"
    )


def test_builders_for_weights_know_no_such_modules():
    """For a config whose builder serves weights only, a name without parameters is unknown."""
    (problem,) = problems(Net(), document(("act", "a")))
    assert problem.startswith("/rules/0/match: rule matches nothing")


def test_a_document_without_such_modules_does_not_mention_them(serving):
    """A plan in which no such module is reached has the keys that plans always had."""
    plan = plan_model(Net(), document(default="a"))
    assert "modules" not in plan.to_dict()
    assert "modules" not in plan.totals
    assert Plan.from_dict(plan.to_dict()) == plan


def test_documents_say_what_is_done(serving):
    """A plan document lists modules, counts them, and is read back."""
    plan = plan_model(Net(), document(RELUS))
    data = plan.to_dict()
    assert data["modules"][0] == {
        "fqn": "act",
        "module_class": "ReLU",
        "action": "quantize",
        "reason": "rule 0 gives its module pattern",
        "rule": 0,
        "how": "module_pattern",
        "config": "a",
        "tied_to": None,
    }
    assert data["totals"]["modules"] == 2
    assert str(plan).endswith(", 2 modules quantized")
    assert Plan.from_dict(data) == plan


def test_one_module_is_one(serving):
    """A single module is counted in the singular."""
    assert str(plan_model(Net(), document(("act", "a")))).endswith(", 1 module quantized")


def test_a_document_is_read_strictly(serving):
    """Fields of a module that are unknown or missing are refused, with their place."""
    data = plan_model(Net(), document(("act", "a"))).to_dict()
    data["modules"][0]["shape"] = []
    del data["modules"][0]["how"]
    with pytest.raises(DocumentErrors) as caught:
        Plan.from_dict(data)
    assert [p.pointer for p in caught.value.problems] == ["/modules/0/shape", "/modules/0/how"]


def test_modules_are_put_in_place(serving):
    """What the builder makes takes the place of the module under all of its names."""
    model = Net()
    quantize_(model, document(RELUS))
    assert isinstance(model.act, Doubled)
    assert isinstance(model.block[1], Doubled)
    assert model.again is model.block[1]
    assert isinstance(model.block[2], nn.Tanh)


def test_a_failure_leaves_the_model_as_it_was(serving):
    """If one module cannot be built, none is put in place, and no weight either."""
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.GELU())
    weight, relu = model[0].weight, model[1]
    with pytest.raises(BuildError, match="2: no GELU today"):
        quantize_(model, document(("0", "a"), ("1", "a"), ("2", "a")))
    assert model[0].weight is weight
    assert model[1] is relu


def test_a_plan_is_for_one_model(serving):
    """A plan is refused where a module is missing, of another class, or shared otherwise."""
    plan = plan_model(Net(), document(RELUS))
    other = Net()
    other.act = nn.Tanh()
    other.again = nn.ReLU()
    del other.block[1:]
    with pytest.raises(PlanError) as caught:
        apply_plan(other, plan)
    assert [(p.fqn, p.message) for p in caught.value.problems] == [
        ("act", "the module differs from the plan"),
        ("block.1", "the model has no such module without parameters"),
        ("again", "the module differs from the plan"),
    ]
