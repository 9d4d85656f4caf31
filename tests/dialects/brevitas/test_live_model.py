"""A net of real Brevitas layers, trained for a while, gives its outputs again in our modules."""

import brevitas.nn as qnn
import brevitas.quant as bq
import pytest
import torch
from torch import nn

import qconfig
from qconfig import FqnToConfig, IntQuantConfig, PerAxis, Rule
from qconfig.configs.quant_choices import ScaleStatistic

CALIBRATED = IntQuantConfig(
    scale_kind="PARAMETER_FROM_STATS",
    scale_statistic=ScaleStatistic.PERCENTILE,
    collect_steps=3,
)
POSITIVE = IntQuantConfig(
    signed=False,
    scale_kind="PARAMETER_FROM_STATS",
    scale_statistic=ScaleStatistic.PERCENTILE,
    collect_steps=3,
)
WEIGHTS = IntQuantConfig(
    4,
    narrow_range=True,
    granularity=PerAxis(0),
    bias=IntQuantConfig(16, scale_kind="EXTERNAL"),
)


def their_net():
    """Return a Brevitas net: an input, a convolution, a ReLU, a truncated average, a linear."""
    collected = {"collect_stats_steps": 3}
    return nn.Sequential(
        qnn.QuantIdentity(bq.Int8ActPerTensorFloat, return_quant_tensor=True, **collected),
        qnn.QuantConv2d(
            2,
            4,
            3,
            weight_quant=bq.Int8WeightPerChannelFloat,
            weight_bit_width=4,
            bias_quant=bq.Int16Bias,
            return_quant_tensor=True,
        ),
        qnn.QuantReLU(bq.Uint8ActPerTensorFloat, return_quant_tensor=True, **collected),
        qnn.TruncAvgPool2d(2, bit_width=8, return_quant_tensor=True),
        nn.Flatten(),
        qnn.QuantLinear(
            16,
            5,
            bias=True,
            weight_quant=bq.Int8WeightPerChannelFloat,
            weight_bit_width=4,
            bias_quant=bq.Int16Bias,
        ),
    )


def our_net():
    """Return torch's net with our modules put in place by name."""
    net = nn.Sequential(
        nn.Identity(),
        nn.Conv2d(2, 4, 3),
        nn.ReLU(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(16, 5),
    )
    truncation = IntQuantConfig(8, scale_kind="EXTERNAL")
    configs = {"seen": CALIBRATED, "positive": POSITIVE, "weights": WEIGHTS, "pool": truncation}
    names = {"0": "seen", "1": "weights", "2": "positive", "3": "pool", "5": "weights"}
    rules = tuple(Rule(name, config) for name, config in names.items())
    qconfig.quantize_(net, FqnToConfig(configs=configs, rules=rules))
    for index in range(4):
        net[index].return_quant_tensor = True
    return net


@pytest.fixture(scope="module")
def trained():
    """Return the Brevitas net after six training steps, and an input."""
    torch.manual_seed(0)
    net = their_net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    for _ in range(6):
        optimizer.zero_grad()
        net(torch.randn(4, 2, 6, 6)).square().mean().backward()
        optimizer.step()
    return net.eval(), torch.randn(3, 2, 6, 6)


@pytest.mark.filterwarnings("ignore")
def test_outputs_are_equal_bit_for_bit(trained):
    """The state of the live net, loaded into ours, computes the same."""
    theirs, x = trained
    ours = our_net()
    qconfig.load_brevitas_state_dict(ours, theirs.state_dict())
    assert torch.equal(ours.eval()(x), theirs(x))


@pytest.mark.filterwarnings("ignore")
def test_metadata_on_the_way_is_equal(trained):
    """Scale, zero point and bit width after each layer are those of Brevitas."""
    theirs, x = trained
    ours = our_net().eval()
    qconfig.load_brevitas_state_dict(ours, theirs.state_dict())
    own, other = x, x
    for index in range(4):
        own, other = ours[index](own), theirs[index](other)
        assert torch.equal(own.value, other.value)
        assert torch.equal(own.scale, other.scale)
        assert own.bit_width == other.bit_width
        assert own.signed == other.signed


@pytest.mark.filterwarnings("ignore")
def test_a_frozen_net_gives_the_same_outputs(trained):
    """With weights quantized for good, saved and loaded, outputs stay as they are."""
    theirs, x = trained
    ours = our_net().eval()
    qconfig.load_brevitas_state_dict(ours, theirs.state_dict())
    assert torch.equal(qconfig.freeze(ours)(x), theirs(x))
