"""Encoder layers of torch whose fused path would read weights past our layers."""

import pytest
import torch
from torch import nn

from qconfig import quantize_
from qconfig.configs import FqnToConfig, Rule
from qconfig.configs.int_quant import IntQuantConfig
from qconfig.modules import freeze
from qconfig.tensors.quant_tensor import IntQuantTensor

CONFIGS = {
    "weights": IntQuantConfig(bit_width=2),
    "inputs": IntQuantConfig(bit_width=2, input=IntQuantConfig(scale_kind="CONST", threshold=3.0)),
}


def encoder():
    """Return an encoder layer, and activations."""
    torch.manual_seed(0)
    return nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval(), torch.randn(2, 5, 8)


@pytest.mark.parametrize("config", CONFIGS)
def test_layers_round_without_gradients(config):
    """Evaluation without gradients rounds as evaluation with gradients does, and as when frozen."""
    model, x = encoder()
    rule = Rule("linear*", "c")
    quantize_(model, FqnToConfig(configs={"c": CONFIGS[config]}, rules=(rule,)))
    expected = model(x)
    with torch.no_grad():
        torch.testing.assert_close(model(x), expected)
        torch.testing.assert_close(freeze(model)(x), expected)


def test_the_projection_of_attention():
    """The projection of attention is a subclass of Linear, and has a quant tensor."""
    model, _ = encoder()
    rules = (Rule("self_attn.out_proj", "c"),)
    quantize_(model, FqnToConfig(configs={"c": CONFIGS["weights"]}, rules=rules))
    assert type(model.self_attn.out_proj.weight) is IntQuantTensor
