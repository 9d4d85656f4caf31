"""Activations are rounded as Brevitas rounds them, in training and in evaluation."""

import copy

import brevitas.nn as qnn
import pytest
import torch
from attrs import evolve
from brevitas import quant
from torch import nn

from qconfig.configs.int_quant import IntQuantConfig
from qconfig.modules import QuantIdentity, QuantLinear, QuantReLU
from tests.modules.pairs import (
    ACTIVATIONS,
    SEEN,
    STEPS,
    WEIGHT,
    brevitas_activation,
    plain,
    same_metadata,
    step,
    threshold_of,
)

KINDS = {"identity": (qnn.QuantIdentity, QuantIdentity), "relu": (qnn.QuantReLU, QuantReLU)}


def pair(kind, activation):
    """Return an activation of Brevitas and ours."""
    theirs, ours = KINDS[kind]
    injector, config = ACTIVATIONS[activation]
    first = theirs(act_quant=brevitas_activation(injector), return_quant_tensor=True)
    return first, ours(act=config, return_quant_tensor=True)


def batches(count, *shape):
    """Return batches that grow, so that it matters which were seen."""
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(*shape, generator=generator) * (1 + i / 3) for i in range(count)]


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_step(kind, activation):
    """Values, metadata and gradients agree bit for bit, before, at and after the turn."""
    theirs, ours = pair(kind, activation)
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.01, momentum=0.9) for m in (theirs, ours)]
    for x in batches(STEPS + 4, 4, 6):
        found = []
        for module in (theirs, ours):
            values = x.clone().requires_grad_()
            output = module(values)
            plain(output).square().sum().backward()
            found.append((output, values.grad))
        assert torch.equal(plain(found[0][0]), plain(found[1][0]))
        assert torch.equal(found[0][1], found[1][1])
        assert same_metadata(*[output for output, _ in found])
        learned = threshold_of(theirs)
        assert torch.equal(learned.grad, ours.act_quant.threshold.grad)
        step(*optimizers)


@pytest.mark.parametrize("seen", [1, 2, STEPS, STEPS + 1, STEPS + 3])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_evaluation(activation, seen):
    """Evaluation after any number of training steps takes the same scale."""
    theirs, ours = pair("identity", activation)
    *training, x = batches(seen + 1, 4, 6)
    for batch in training:
        theirs(batch), ours(batch)
    one, other = theirs.eval()(x), ours.eval()(x)
    assert torch.equal(plain(one), plain(other))
    assert same_metadata(one, other)


def test_constant_threshold():
    """A threshold that is given needs no batch, in training or evaluation."""

    class Constant(quant.Int8ActPerTensorFloat):
        scaling_impl_type = "const"
        scaling_init = 2.0

    theirs = qnn.QuantIdentity(act_quant=Constant, return_quant_tensor=True).eval()
    config = IntQuantConfig(scale_kind="CONST", threshold=2.0)
    ours = QuantIdentity(act=config, return_quant_tensor=True).eval()
    (x,) = batches(1, 4, 6)
    assert torch.equal(theirs(x).value, ours(x).value)
    assert same_metadata(theirs(x), ours(x))
    assert list(ours.state_dict()) == ["act_quant.config"]


def test_learned_threshold():
    """A threshold that is learned from the start has the gradient of LSQ from the first step."""

    class Learned(quant.Int8ActPerTensorFloat):
        scaling_impl_type = "parameter"
        scaling_init = 2.0

    theirs = qnn.QuantIdentity(act_quant=Learned)
    ours = QuantIdentity(act=IntQuantConfig(scale_kind="PARAMETER", threshold=2.0))
    (x,) = batches(1, 4, 6)
    for module in (theirs, ours):
        module(x).square().sum().backward()
    assert torch.equal(threshold_of(theirs).grad, ours.act_quant.threshold.grad)
    assert torch.equal(theirs.eval()(x), ours.eval()(x))


def test_running_statistics_that_stay():
    """Statistics that are never learned serve evaluation after any number of steps."""

    class Running(quant.Int8ActPerTensorFloat):
        scaling_impl_type = "stats"
        scaling_stats_op = "max"

    theirs = qnn.QuantIdentity(act_quant=Running, return_quant_tensor=True)
    ours = QuantIdentity(act=IntQuantConfig(scale_kind="STATS"), return_quant_tensor=True)
    for x in batches(5, 4, 6):
        assert torch.equal(theirs(x).value, ours(x).value)
    assert same_metadata(theirs.eval()(x), ours.eval()(x))
    assert torch.equal(theirs(x).value, ours(x).value)


def test_mean_of_all_steps():
    """Without a momentum, the running threshold is the mean of those seen."""
    config = evolve(SEEN, momentum=None, scale_statistic="MAX")
    ours = QuantIdentity(act=config)
    seen = batches(STEPS, 4, 6)
    for x in seen:
        ours(x)
    mean = torch.stack([x.abs().max() for x in seen]).mean()
    torch.testing.assert_close(ours.act_quant.statistic, mean)


def test_scales_per_channel():
    """Scales of an axis agree for images, where the number of channels is told."""
    injector, config = ACTIVATIONS["int8"]
    from qconfig.configs import PerAxis

    theirs = qnn.QuantIdentity(
        act_quant=brevitas_activation(injector),
        scaling_per_output_channel=True,
        per_channel_broadcastable_shape=(1, 3, 1, 1),
        scaling_stats_permute_dims=(1, 0, 2, 3),
        return_quant_tensor=True,
    )
    ours = QuantIdentity(
        act=evolve(config, granularity=PerAxis(1)),
        channels=(1, 3, 1, 1),
        return_quant_tensor=True,
    )
    for x in batches(STEPS + 2, 2, 3, 4, 5):
        one, other = theirs(x), ours(x)
        assert torch.equal(one.value, other.value)
        assert same_metadata(one, other)


def test_mx():
    """Groups of an activation have scales of their own values, as in Brevitas."""
    from brevitas.quant import mx_quant_ocp

    from qconfig.configs.groupwise_quant import GroupwiseFloatQuantConfig

    theirs = qnn.QuantIdentity(
        act_quant=mx_quant_ocp.MXFloat8e4m3Act, group_size=4, group_dim=-1
    ).eval()
    ours = QuantIdentity(act=GroupwiseFloatQuantConfig(group_size=4, group_dim=-1)).eval()
    (x,) = batches(1, 4, 6)
    assert torch.equal(theirs(x), ours(x))


@pytest.mark.parametrize("output", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_whole_layer(training, output):
    """A Linear with input, weight, bias and output quantizers agrees, return_quant_tensor too."""
    torch.manual_seed(5)
    source = nn.Linear(6, 5)
    act = brevitas_activation(quant.Int8ActPerTensorFloat)
    theirs = qnn.QuantLinear(
        6,
        5,
        bias=True,
        input_quant=act,
        output_quant=act if output else None,
        bias_quant=quant.Int16Bias,
        return_quant_tensor=True,
    )
    theirs.load_state_dict(source.state_dict(), strict=False)
    ours = QuantLinear(
        copy.deepcopy(source),
        weight=WEIGHT,
        input=SEEN,
        output=SEEN if output else None,
        bias=IntQuantConfig(bit_width=16, scale_kind="EXTERNAL"),
        return_quant_tensor=True,
    )
    *seen, x = batches(STEPS + 2, 4, 6)
    for batch in seen:
        theirs(batch), ours(batch)
    one, other = theirs.train(training)(x), ours.train(training)(x)
    assert torch.equal(one.value, other.value)
    assert same_metadata(one, other)
