"""Networks of Quant modules learn, and learn what Brevitas' do."""

import brevitas.nn as qnn
import pytest
import torch
from brevitas import quant
from brevitas.inject.enum import ScalingImplType
from torch import nn
from torch.nn.functional import cross_entropy

from qconfig import quantize_
from qconfig.configs import FqnToConfig, Rule
from qconfig.modules import freeze
from tests.modules.nets import ACTIVATION, LEARNED, POSITIVE, STEPS, WEIGHT, images, quantized


class LearnedWeight(quant.Int8WeightPerTensorFloat):
    """Four bits with a learned scale."""

    bit_width = 4
    scaling_impl_type = ScalingImplType.PARAMETER_FROM_STATS


class Input(quant.Int8ActPerTensorFloat):
    """Signed activations with few steps of calibration."""

    collect_stats_steps = STEPS
    scaling_stats_op = "max"


class Positive(quant.Uint8ActPerTensorFloat):
    """Unsigned activations with few steps of calibration."""

    collect_stats_steps = STEPS
    scaling_stats_op = "max"


def task():
    """Return images and classes that a small network can tell apart."""
    x = images(64)
    return x, x.mean(dim=(2, 3)).argmax(dim=1)


def losses(model, steps):
    """Train a model and return its losses."""
    x, classes = task()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    found = []
    for _ in range(steps):
        loss = cross_entropy(model(x), classes)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


def test_a_network_learns():
    """With learned scales of 4-bit weights and activations, the loss falls to a fraction."""
    model = quantized()
    thresholds = {
        name: p.detach().clone() for name, p in model.named_parameters() if "threshold" in name
    }
    first, *_, last = losses(model, 60)
    assert last < 0.3 * first
    moved = [n for n, p in model.named_parameters() if n in thresholds and p != thresholds[n]]
    assert moved == list(thresholds)
    frozen = freeze(model.eval())
    x, classes = task()
    assert (frozen(x).argmax(dim=1) == classes).float().mean() > 0.8


def test_training_is_that_of_brevitas():
    """Losses and what is learned are Brevitas', step by step."""
    bias = {"bias": True, "bias_quant": quant.Int32Bias, "weight_quant": LearnedWeight}
    torch.manual_seed(2)
    theirs = nn.Sequential(
        qnn.QuantConv2d(3, 4, 3, input_quant=Input, **bias),
        qnn.QuantReLU(act_quant=Positive),
        nn.Flatten(),
        qnn.QuantLinear(144, 5, input_quant=Input, **bias),
    )
    ours = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5))
    ours.load_state_dict(theirs.state_dict(), strict=False)
    theirs(images())
    theirs_state = [m for m in theirs.modules() if hasattr(m, "counter")]
    for module in theirs_state:
        module.counter = 0
        module.buffer.fill_(1.0)
    rules = FqnToConfig(
        configs={"w": WEIGHT, "a": POSITIVE},
        rules=(Rule("0", "w"), Rule("3", "w"), Rule("1", "a")),
    )
    quantize_(ours, rules)
    assert ours[0].input_quant.recorded == ACTIVATION
    assert ours[0].weight_quant.recorded.scale_kind == LEARNED
    torch.testing.assert_close(losses(theirs, 20), losses(ours, 20), rtol=1e-6, atol=0)
    learned = [p for n, p in theirs.named_parameters() if n.endswith("scaling_impl.value")]
    own = [p for n, p in ours.named_parameters() if n.endswith("threshold")]
    assert len(learned) == len(own) == 5
    for one, other in zip(sorted(learned), sorted(own), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=0)


class Twice(nn.Module):
    """One activation in two places."""

    def __init__(self):
        super().__init__()
        self.act = nn.ReLU()
        self.fc = nn.Linear(6, 6)

    def forward(self, x):
        """Use the activation before and after the product."""
        return self.act(self.fc(self.act(x)))


def test_a_module_in_two_places():
    """A quantizer that runs twice in a step has gradients at every step, at the turn too."""
    torch.manual_seed(0)
    model = Twice()
    rules = FqnToConfig(configs={"a": POSITIVE}, rules=(Rule("act", "a"),))
    quantize_(model, rules)
    for _ in range(STEPS + 2):
        model(torch.randn(4, 6)).square().sum().backward()
    assert model.act.act_quant.threshold.grad != 0
    assert model.act.act_quant.steps == STEPS + 1


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_calibration_without_gradients(mode):
    """Statistics are seen, and learned, where no gradient is recorded."""
    one, other = quantized(), quantized()
    for seed in range(STEPS + 1):
        one(images(seed=seed))
        with mode():
            other(images(seed=seed))
    assert torch.equal(one.eval()(images()), other.eval()(images()))
    other.train()(images()).sum().backward()
    assert other.fc.input_quant.threshold.grad is not None
