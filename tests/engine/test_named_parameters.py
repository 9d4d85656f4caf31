"""Which modules a config reaches: by name any that can use a matrix, by pattern those it knows."""

import pytest
import torch
from torch import nn

from qconfig import FqnToConfig, Int8Tensor, Int8WeightOnlyConfig, Rule, explain, plan, quantize_
from qconfig.errors import PlanError, QconfigError


class Router(nn.Module):
    """A module of nobody's library, with a matrix that it multiplies by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.linear(x, self.weight)


def model() -> nn.ModuleDict:
    """Return a router, a linear, a 1-D convolution and stacked experts."""
    experts = nn.Module()
    experts.gate_up_proj = nn.Parameter(torch.randn(2, 8, 16))
    return nn.ModuleDict(
        {
            "router": Router(),
            "up": nn.Linear(16, 8),
            "conv1d": nn.Conv1d(4, 4, 3),
            "experts": experts,
        }
    )


def config(match: str) -> FqnToConfig:
    """Return one rule that gives int8."""
    return FqnToConfig(configs={"w": Int8WeightOnlyConfig()}, rules=(Rule(match, "w"),))


@pytest.mark.parametrize("match", ["router", "router.weight"])
def test_an_exact_name_reaches_a_module_that_nobody_knows(match):
    """Who names a module or its parameter knows that it can use a quantized one."""
    net = model()
    quantize_(net, config(match))
    assert isinstance(net["router"].weight, Int8Tensor)
    assert net["router"](torch.randn(3, 16)).shape == (3, 8)


def test_a_pattern_reaches_what_the_config_knows():
    """Linears and stacked experts, but neither unknown matrices nor convolutions."""
    entries = {e.fqn: e for e in plan(model(), config("re:.*")).entries}
    quantized = {fqn for fqn, e in entries.items() if e.layout is not None}
    assert quantized == {"up.weight", "experts.gate_up_proj"}
    assert entries["router.weight"].reason == (
        "module class Router is not one of Linear, Embedding, and no rule names it"
    )
    assert entries["conv1d.weight"].reason == "module class Conv1d has no int8 product"


def test_a_checkpoint_is_planned_like_its_model(tmp_path):
    """What can be told from names and ranks is told alike: convolutions are left alone."""
    from safetensors.torch import save_file

    net = model()
    save_file(dict(net.state_dict()), tmp_path / "m.safetensors")
    entries = {e.fqn: e for e in plan(tmp_path / "m.safetensors", config("re:.*")).entries}
    assert entries["conv1d.weight"].layout is None
    assert entries["experts.gate_up_proj"].layout is not None


def test_an_exact_name_of_a_convolution_is_refused():
    """A module class that is known not to multiply matrices stays an error."""
    with pytest.raises(PlanError, match="module class Conv1d has no int8 product"):
        plan(model(), config("conv1d"))


def test_a_pattern_with_a_class_reaches_that_class():
    """A rule that names a module class says that the class can use a quantized matrix."""
    net = model()
    rule = Rule("re:.*", "w", modules=("Router",))
    quantize_(net, FqnToConfig(configs={"w": Int8WeightOnlyConfig()}, rules=(rule,)))
    assert isinstance(net["router"].weight, Int8Tensor)
    assert not isinstance(net["up"].weight, Int8Tensor)


@pytest.mark.parametrize("name", ["attn.in_proj_weight", "attn.in_proj_bias", "norm.weight"])
def test_explain_knows_parameters_by_their_ends(name):
    """What ends in weight or bias is explained as a parameter, anything else as a module."""
    assert explain(name, config("re:.*")).target.fqn == name
    assert explain("attn.q", config("re:.*")).target.fqn == "attn.q.weight"


def test_several_problems_of_a_plan_are_plan_errors():
    """A collection is of the kind of its problems, so that one except clause catches both."""
    rules = (Rule("nothing", "w"), Rule("nowhere", "w"))
    with pytest.raises(PlanError) as caught:
        plan(model(), FqnToConfig(configs={"w": Int8WeightOnlyConfig()}, rules=rules))
    assert isinstance(caught.value, QconfigError)
    assert len(caught.value.problems) == 2


def test_only_the_weight_of_a_linear_is_reached_by_default():
    """Other matrices of a Linear, such as adapters, are left alone; a name reaches them."""
    net = nn.ModuleDict({"up": nn.Linear(16, 8)})
    net["up"].lora_a = nn.Parameter(torch.randn(4, 16))
    entries = {e.fqn: e for e in plan(net, Int8WeightOnlyConfig()).entries}
    assert entries["up.weight"].layout is not None
    assert entries["up.lora_a"].reason == "lora_a is not the weight of Linear, and no rule names it"
    assert {e.fqn for e in plan(net, config("up.lora_a")).entries if e.layout} == {"up.lora_a"}
