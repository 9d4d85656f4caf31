"""Quantized biases: with the scale of the product, or with one of their own."""

import copy

import brevitas.nn as qnn
import pytest
import torch
from brevitas import quant
from brevitas.quant_tensor import IntQuantTensor as TheirTensor
from torch import nn

from qconfig.configs import PerAxis
from qconfig.configs.groupwise_quant import GroupwiseIntQuantConfig
from qconfig.configs.int_quant import IntQuantConfig
from qconfig.errors import BuildError, QuantTensorError
from qconfig.modules import QuantConv2d, QuantLinear, plain_inference, record_metadata
from qconfig.tensors.quant_tensor import IntQuantTensor
from tests.modules.pairs import WEIGHT, WEIGHTS

BIASES = {8: quant.Int8Bias, 16: quant.Int16Bias, 24: quant.Int24Bias, 32: quant.Int32Bias}


def external(bits):
    """Return the config of a bias with the scale of the product."""
    return IntQuantConfig(bit_width=bits, scale_kind="EXTERNAL")


def image():
    """Return the fields of a quantized input of both layers."""
    generator = torch.Generator().manual_seed(0)
    codes = torch.randint(-128, 128, (2, 4, 6, 4), generator=generator).float()
    return codes * 0.25, torch.tensor(0.25), torch.tensor(0.0), torch.tensor(8.0), True, False


LAYERS = {
    "linear": (nn.Linear, qnn.QuantLinear, QuantLinear, (4, 5)),
    "conv": (nn.Conv2d, qnn.QuantConv2d, QuantConv2d, (4, 5, 3)),
}


def layers(kind, bits, weight="tensor"):
    """Return a layer of Brevitas, and ours."""
    torch.manual_seed(bits)
    ordinary, theirs, ours, sizes = LAYERS[kind]
    source = ordinary(*sizes)
    injector, config = WEIGHTS[weight]
    first = theirs(*sizes, bias=True, weight_quant=injector, bias_quant=BIASES[bits])
    first.load_state_dict(source.state_dict(), strict=False)
    return first, ours(copy.deepcopy(source), weight=config, bias=external(bits))


@pytest.mark.parametrize("weight", ["tensor", "channel", "learned"])
@pytest.mark.parametrize("bits", BIASES)
@pytest.mark.parametrize("kind", LAYERS)
def test_scale_of_the_product(kind, bits, weight):
    """A bias with the scale of input times weight is rounded as Brevitas does."""
    theirs, ours = layers(kind, bits, weight)
    values = image()
    found = []
    for module, tensor in ((theirs, TheirTensor), (ours, IntQuantTensor)):
        output = module(tensor(*values))
        output.square().sum().backward()
        found.append((output, module.weight.grad, module.bias.grad))
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)


def test_quant_bias():
    """The quantized bias has one scale a channel, and integers of its width."""
    _, ours = layers("linear", 8, "channel")
    x = IntQuantTensor(*image())
    bias = ours.quant_bias(x)
    assert torch.equal(bias.scale, ours.quant_weight().scale.flatten() * 0.25)
    assert bias.is_valid
    assert bias.bit_width == 8


def test_a_missing_scale_is_explained():
    """Without the scale of the input, the error says what lacks and what to do."""
    _, ours = layers("linear", 8)
    with pytest.raises(QuantTensorError) as caught:
        ours(image()[0])
    assert str(caught.value) == (
        "the bias of QuantLinear has the scale of input times weight, and that is not known\n"
        "  found: 'no scale of the input'\n"
        "  expected: an input and a weight that are quantized\n"
        "  hint: give the layer an input quantizer (`input` of its config) or a quant tensor, set "
        "return_quant_tensor on the module before it, or give the bias a scale of its own"
    )
    with pytest.raises(QuantTensorError, match="no scale of the input"):
        ours.quant_bias()


def test_scales_of_channels_of_the_input_are_refused():
    """Scales of input channels are none of the bias' output channels."""
    _, ours = layers("linear", 8)
    value, _, *others = image()
    scales = torch.full((1, 1, 1, 4), 0.25)
    with pytest.raises(QuantTensorError, match="not those of the bias' channels"):
        ours(IntQuantTensor(value, scales, *others))


def test_remembered_scale():
    """Where plain tensors flow, the bias takes the scale that was recorded."""
    _, ours = layers("conv", 16)
    x = IntQuantTensor(*image())
    with record_metadata(ours):
        expected = ours(x)
    with plain_inference(ours):
        assert torch.equal(ours(x.value), expected)
        assert torch.equal(torch.export.export(ours, (x.value,)).module()(x.value), expected)
    with pytest.raises(QuantTensorError, match="is not known"):
        ours(x.value)


def test_a_scale_of_its_own():
    """A bias that is quantized by itself needs no input."""
    torch.manual_seed(0)
    source = nn.Linear(4, 5)
    theirs = qnn.QuantLinear(
        4, 5, bias=True, bias_quant=quant.Int8BiasPerTensorFloatInternalScaling
    )
    theirs.load_state_dict(source.state_dict(), strict=False)
    ours = QuantLinear(source, weight=WEIGHT, bias=IntQuantConfig())
    x = image()[0]
    assert torch.equal(theirs(x), ours(x))
    assert torch.equal(ours.quant_bias().value, theirs.bias_quant(theirs.bias).value)


def test_a_layer_without_a_bias():
    """Without a bias, its config is not used."""
    ours = QuantLinear(nn.Linear(4, 5, bias=False), weight=WEIGHT, bias=external(8))
    assert ours.bias_quant is None
    assert ours.quant_bias() is None
    ours(image()[0])


def test_groups_are_refused():
    """A bias has no groups."""
    with pytest.raises(BuildError, match="a bias has no groups"):
        QuantLinear(nn.Linear(4, 5), bias=GroupwiseIntQuantConfig(group_size=4, group_dim=0))


def test_channels_of_a_bias():
    """A bias may have a scale for each of its entries."""
    config = IntQuantConfig(granularity=PerAxis(0))
    ours = QuantLinear(nn.Linear(4, 5), bias=config)
    assert ours.quant_bias().scale.shape == (5,)
