"""What rules reach in live models beside the weights of linears, and that a plan foretells it."""

import torch
from torch import nn

import qconfig
from qconfig import FqnToConfig, Int8Tensor, Int8WeightOnlyConfig, PerGroup, Rule

MIXED = FqnToConfig(
    configs={"row": Int8WeightOnlyConfig(), "group": Int8WeightOnlyConfig(PerGroup(8))},
    rules=(Rule("*.gate_up_proj", "group"), Rule("emb", "row")),
    default="row",
)


class Experts(nn.Module):
    """Experts whose weights lie in one parameter of rank 3."""

    def __init__(self):
        super().__init__()
        self.gate_up_proj = nn.Parameter(torch.randn(2, 16, 8))


def net():
    """Return an embedding, a linear and experts."""
    torch.manual_seed(0)
    parts = {"emb": nn.Embedding(4, 16), "lin": nn.Linear(16, 8), "experts": Experts()}
    return nn.ModuleDict(parts)


def test_experts_and_embeddings():
    """A parameter rule quantizes experts of rank 3, a module rule an embedding; values are near."""
    model, original = net(), net()
    qconfig.quantize_(model, MIXED)
    names = {name for name, p in model.named_parameters() if isinstance(p, Int8Tensor)}
    assert names == {"emb.weight", "lin.weight", "experts.gate_up_proj"}
    for name in names:
        tensor, expected = model.get_parameter(name), original.get_parameter(name)
        half_a_step = tensor.scale.max() / 2
        assert (tensor.dequantize() - expected).abs().max() <= half_a_step * 1.001


def test_the_plan_foretells_layouts_and_bytes():
    """`quantize_` returns the plan that `plan` gave, and every tensor has the size it says."""
    model = net()
    foretold = qconfig.plan(model, MIXED)
    assert qconfig.quantize_(model, MIXED) == foretold
    for entry in foretold.entries:
        parameter = model.get_parameter(entry.fqn)
        if entry.layout is None:
            assert not isinstance(parameter, Int8Tensor)
        else:
            assert parameter.qdata.nbytes + parameter.scale.nbytes == entry.bytes_after
