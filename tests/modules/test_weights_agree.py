"""Layers with quantized weights compute what Brevitas' layers do, forwards and backwards."""

import copy

import brevitas.nn as qnn
import pytest
import torch
from torch import nn

from qconfig.modules import QuantConv1d, QuantConv2d, QuantEmbedding, QuantLinear
from tests.modules.pairs import WEIGHTS, plain, same_metadata, threshold_of

LAYERS = {
    "linear": (nn.Linear, qnn.QuantLinear, QuantLinear, (16, 8), (4, 16)),
    "conv1d": (nn.Conv1d, qnn.QuantConv1d, QuantConv1d, (8, 6, 3), (2, 8, 10)),
    "conv2d": (nn.Conv2d, qnn.QuantConv2d, QuantConv2d, (8, 6, 3), (2, 8, 6, 5)),
}


def pair(layer, weight):
    """Return a layer of Brevitas, ours, and an input."""
    ordinary, theirs, ours, sizes, shape = LAYERS[layer]
    injector, config = WEIGHTS[weight]
    torch.manual_seed(sum(map(ord, layer + weight)))
    source = ordinary(*sizes)
    first = theirs(*sizes, weight_quant=injector)
    first.load_state_dict(source.state_dict(), strict=False)
    second = ours(source, weight=config)
    first(torch.randn(shape))
    return first, second, torch.randn(shape)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("layer", LAYERS)
def test_outputs_and_gradients(layer, weight, training):
    """Outputs and gradients of input, weight, bias and threshold are Brevitas', bit for bit."""
    theirs, ours, x = pair(layer, weight)
    found = []
    for module in (theirs.train(training), ours.train(training)):
        values = x.clone().requires_grad_()
        output = module(values)
        (output * output).sum().backward()
        found.append((output, values.grad, module.weight.grad, module.bias.grad))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)
    threshold = threshold_of(theirs.weight_quant)
    if threshold is not None:
        assert torch.equal(threshold, ours.weight_quant.threshold)
        torch.testing.assert_close(threshold.grad, ours.weight_quant.threshold.grad, rtol=0, atol=0)


def test_gradient_of_a_bit_width():
    """The gradient of a learned bit width is Brevitas', also where the width is not whole."""
    theirs, ours, x = pair("linear", "learned_bits")
    offset = theirs.weight_quant.tensor_quant.msb_clamp_bit_width_impl.bit_width_offset
    for bits in (8.0, 5.3, 2.0, 1.5):
        with torch.no_grad():
            offset.fill_(bits - 2)
            ours.weight_quant.bit_width.fill_(bits)
        offset.grad = ours.weight_quant.bit_width.grad = None
        for module in (theirs, ours):
            module(x).square().sum().backward()
        assert torch.equal(offset.grad, ours.weight_quant.bit_width.grad)


@pytest.mark.parametrize("weight", WEIGHTS)
def test_quantized_weight(weight):
    """The quantized weight has Brevitas' values, scale, zero point and widths."""
    theirs, ours, _ = pair("linear", weight)
    one, other = theirs.quant_weight(), ours.quant_weight()
    assert torch.equal(plain(one), plain(other))
    assert same_metadata(one, other)
    assert type(one).__name__ == type(other).__name__


@pytest.mark.parametrize("max_norm", [None, 0.5])
@pytest.mark.parametrize("weight", ["tensor", "int4", "power_of_two", "learned", "float8"])
def test_embedding(weight, max_norm):
    """Rows of an embedding and their gradients are Brevitas'."""
    injector, config = WEIGHTS[weight]
    torch.manual_seed(7)
    source = nn.Embedding(10, 8, padding_idx=2, max_norm=max_norm)
    theirs = qnn.QuantEmbedding(10, 8, padding_idx=2, weight_quant=injector)
    theirs.load_state_dict(source.state_dict(), strict=False)
    ours = QuantEmbedding(copy.deepcopy(source), weight=config)
    indices = torch.tensor([[1, 2], [2, 9]])
    theirs(indices)
    found = []
    for module in (theirs, ours):
        rows = module(indices)
        if max_norm is not None:
            found.append(rows.norm(dim=-1))
            continue
        (rows * rows).sum().backward()
        found.append((rows, module.weight.grad))
    if max_norm is not None:
        assert (found[1] <= max_norm + 1e-5).all()
        return
    assert torch.equal(found[0][0], found[1][0])
    assert torch.equal(found[0][1], found[1][1])
