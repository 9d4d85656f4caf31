"""Frozen modules compute what the trained ones do."""

import copy

import pytest
import torch
from torch import nn

from qconfig.configs import PerAxis
from qconfig.configs.float_quant import FloatQuantConfig
from qconfig.configs.groupwise_quant import GroupwiseIntQuantConfig
from qconfig.configs.int_quant import IntQuantConfig
from qconfig.modules import (
    QuantConv1d,
    QuantConv2d,
    QuantEmbedding,
    QuantLinear,
    freeze,
    to_inference,
)
from qconfig.tensors.quant_tensor.base import QuantTensor
from tests.modules.nets import ACTIVATION, images, trained

CONFIGS = {
    "int": IntQuantConfig(bit_width=4, granularity=PerAxis(0)),
    "learned": IntQuantConfig(scale_kind="PARAMETER_FROM_STATS", learned_bit_width=True),
    "float": FloatQuantConfig(),
    "groups": GroupwiseIntQuantConfig(group_size=4),
}
LAYERS = {
    "linear": (lambda: nn.Linear(8, 4), QuantLinear, lambda: torch.randn(3, 8)),
    "conv1d": (lambda: nn.Conv1d(8, 4, 3), QuantConv1d, lambda: torch.randn(2, 8, 6)),
    "conv2d": (lambda: nn.Conv2d(8, 4, 3), QuantConv2d, lambda: torch.randn(2, 8, 6, 5)),
    "embedding": (lambda: nn.Embedding(8, 4), QuantEmbedding, lambda: torch.arange(8)),
}


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("layer", LAYERS)
def test_ordinary_modules(layer, config):
    """Where only the weight is rounded, the result is torch's module with a quant tensor."""
    torch.manual_seed(0)
    make, quantized, example = LAYERS[layer]
    source = make()
    module, x = quantized(source, weight=CONFIGS[config]).eval(), example()
    result = to_inference(module)
    rows = (layer, config) == ("embedding", "int")
    assert type(result) is (QuantEmbedding if rows else type(source))
    assert isinstance(result.weight, nn.Parameter)
    assert isinstance(result.weight, QuantTensor)
    assert not result.weight.requires_grad
    assert not result.weight.training
    assert torch.equal(result(x), module(x))
    assert [n for n, _ in result.named_children()] == (["input_metadata"] if rows else [])


def test_what_is_left_as_it_is():
    """The module itself keeps its weight and its quantizers, and hooks are shared."""
    module = QuantLinear(nn.Linear(8, 4), weight=CONFIGS["int"])
    weight, seen = module.weight, []
    module.register_forward_hook(lambda *_: seen.append(1))
    to_inference(module)(torch.randn(2, 8))
    assert module.weight is weight
    assert module.weight_quant is not None
    assert seen == [1]


def test_a_bias_of_its_own_scale():
    """A bias with a scale of its own is a quant tensor too."""
    module = QuantLinear(nn.Linear(8, 4), weight=CONFIGS["int"], bias=IntQuantConfig())
    result = to_inference(module)
    x = torch.randn(2, 8)
    assert type(result) is nn.Linear
    assert isinstance(result.bias, QuantTensor)
    assert torch.equal(result(x), module(x))


def test_rounded_activations_stay():
    """Where activations are rounded, the module keeps their quantizers and loses the weight's."""
    module = QuantLinear(nn.Linear(8, 4), weight=CONFIGS["int"], input=ACTIVATION)
    x = torch.randn(2, 8)
    module(x)
    module.eval()
    result = to_inference(module)
    assert type(result) is QuantLinear
    assert result.weight_quant is None
    assert result.input_quant is module.input_quant
    assert isinstance(result.weight, QuantTensor)
    assert torch.equal(result(x), module(x))


@pytest.mark.parametrize("flowing", [False, True])
def test_a_network(flowing):
    """A frozen network gives the same outputs, and freezing it again changes nothing."""
    model = trained(flowing=flowing)
    expected = model(images())
    frozen = freeze(copy.deepcopy(model))
    assert torch.equal(frozen(images()), expected)
    assert isinstance(frozen.conv.weight, QuantTensor)
    assert freeze(frozen) is frozen
    assert torch.equal(frozen(images()), expected)


def test_shared_modules_stay_shared():
    """A module under two names is one module afterwards too."""
    layer = QuantLinear(nn.Linear(8, 8), weight=CONFIGS["int"])
    model = freeze(nn.ModuleDict({"a": layer, "b": layer, "c": nn.ReLU()}))
    assert model["a"] is model["b"]
    assert type(model["a"]) is nn.Linear


def test_other_modules_are_returned():
    """What has no quantized weight is returned itself."""
    module = nn.ReLU()
    assert to_inference(module) is module
