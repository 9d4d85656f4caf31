"""A model that was trained with fake integers deploys with packed ones."""

import copy

import pytest
import torch
from torch import nn

import qconfig
from qconfig import FqnToConfig, GroupwiseIntQuantConfig, IntQuantConfig, PerAxis, Rule
from qconfig.modules import freeze, pack
from qconfig.tensors import PackedTensor


def trained(config, rules=("0", "2")):
    """Return a model of two Linears that was quantized, trained for a step and frozen."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))
    qconfig.quantize_(
        model, FqnToConfig(configs={"w": config}, rules=tuple(Rule(name, "w") for name in rules))
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.randn(4, 8)).square().mean().backward()
    optimizer.step()
    return freeze(model.eval())


CONFIGS = {
    "int8 per channel": IntQuantConfig(narrow_range=True, granularity=PerAxis(0)),
    "int4 per tensor": IntQuantConfig(4),
    "uint8 with zero points": IntQuantConfig(
        signed=False, scale_statistic="MIN_MAX", zero_point_kind="STATS", granularity=PerAxis(0)
    ),
    "int4 in groups": GroupwiseIntQuantConfig(4, group_size=4),
}


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())
def test_a_trained_model_packs_bit_for_bit(config):
    """Packed weights dequantize to the values that were trained; outputs agree with fp64."""
    model = trained(config)
    values = [model[i].weight.value.clone() for i in (0, 2)]
    x = torch.randn(3, 8)
    expected = copy.deepcopy(model).double()(x.double())
    assert pack(model) == ["0.weight", "2.weight"]
    assert all(isinstance(model[i].weight, PackedTensor) for i in (0, 2))
    assert all(
        torch.equal(model[i].weight.dequantize(), v) for i, v in zip((0, 2), values, strict=True)
    )
    assert (model(x).double() - expected).abs().max() <= 1e-6 * expected.abs().max()


def test_a_packed_model_is_a_checkpoint(tmp_path):
    """What was packed is saved, loaded and computes the same."""
    model = trained(CONFIGS["int8 per channel"])
    pack(model)
    qconfig.save_checkpoint(model, tmp_path / "saved")
    other = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))
    other.load_state_dict(qconfig.load_checkpoint(tmp_path / "saved"), assign=True)
    x = torch.randn(3, 8)
    assert torch.equal(other(x), model(x))


def test_weights_that_cannot_be_packed_are_all_named():
    """Nothing is changed, and every problem is said."""
    model = trained(IntQuantConfig(12))
    with pytest.raises(qconfig.QconfigError, match="not of 1 to 8 bits") as caught:
        pack(model)
    assert len(caught.value.problems) == 2
    assert not isinstance(model[0].weight, PackedTensor)


def test_a_tied_weight_is_packed_once():
    """Modules that share a weight share the packed one."""
    model = trained(CONFIGS["int8 per channel"], rules=("0",))
    model[2] = nn.Linear(8, 8, bias=False)
    model[2].weight = model[0].weight
    pack(model)
    assert model[2].weight is model[0].weight


def test_convolutions_stay_as_they_are():
    """A packed weight is a matrix; other weights keep their values."""
    model = nn.Sequential(nn.Conv2d(2, 3, 3), nn.Linear(4, 4))
    config = CONFIGS["int8 per channel"]
    qconfig.quantize_(
        model, FqnToConfig(configs={"w": config}, rules=(Rule("0", "w"), Rule("1", "w")))
    )
    assert pack(freeze(model)) == ["1.weight"]
