"""Batch norms are folded as Brevitas folds them, bit for bit."""

import brevitas.nn as qnn
import pytest
import torch
from brevitas.nn.utils import merge_bn
from torch import nn

from qconfig.dialects.brevitas.state_dict import convert_state_dict
from qconfig.errors import CheckpointError


def network(*, bias: bool) -> nn.Sequential:
    """Return a convolution and a batch norm that has seen data."""
    torch.manual_seed(4)
    layers = nn.Sequential()
    layers.add_module("conv", qnn.QuantConv2d(2, 3, 2, bias=bias))
    layers.add_module("bn", nn.BatchNorm2d(3))
    norm = layers.get_submodule("bn")
    for name in ("weight", "bias", "running_mean", "running_var"):
        getattr(norm, name).data.uniform_(0.5, 1.5)
    return layers.eval()


@pytest.mark.parametrize("bias", [True, False])
def test_a_norm_is_merged_into_its_layer(bias: bool) -> None:
    """Weight and bias are those that Brevitas' merge_bn gives; the norm's tensors are gone."""
    layers = network(bias=bias)
    before = {name: tensor.clone() for name, tensor in layers.state_dict().items()}
    merge_bn(layers.get_submodule("conv"), layers.get_submodule("bn"))
    expected = layers.get_submodule("conv").state_dict()
    found, _ = convert_state_dict(before, norms={"bn": "conv"})
    assert set(found) == {"conv.weight", "conv.bias"}
    assert torch.equal(found["conv.weight"], expected["weight"])
    assert torch.equal(found["conv.bias"], expected["bias"])


def test_a_norm_becomes_a_factor_and_an_addend() -> None:
    """Under its own name a norm is what BatchNorm2dToQuantScaleBias makes of it when it loads."""
    state = {n: t for n, t in network(bias=True).state_dict().items() if n.startswith("bn.")}
    theirs = nn.Sequential()
    theirs.add_module("bn", qnn.BatchNorm2dToQuantScaleBias(3))
    theirs.load_state_dict(dict(state), strict=False)
    found, report = convert_state_dict(state, norms={"bn": "bn"})
    expected = theirs.state_dict()
    assert set(found) == {"bn.weight", "bn.bias"}
    assert all(torch.equal(found[name], expected[name]) for name in found)
    assert {change.after for change in report.changes} == set(found)


def test_a_norm_that_was_folded_already_is_left() -> None:
    """Without statistics there is nothing to fold."""
    state = {"bn.weight": torch.ones(3), "bn.bias": torch.zeros(3)}
    assert convert_state_dict(state, norms={"bn": "bn"})[0].keys() == state.keys()


def test_half_a_norm_is_refused() -> None:
    """Statistics without a weight cannot be folded."""
    state = network(bias=True).state_dict()
    del state["bn.weight"]
    with pytest.raises(CheckpointError, match="cannot be folded") as caught:
        convert_state_dict(state, norms={"bn": "conv"})
    assert caught.value.found == repr("no bn.weight of floats")


def test_other_channels_are_refused() -> None:
    """A norm of three channels does not go into a layer of four."""
    state = network(bias=True).state_dict() | {"conv.weight": torch.ones(4, 2, 2, 2)}
    with pytest.raises(CheckpointError, match="other channels than its layer"):
        convert_state_dict(state, norms={"bn": "conv"})
