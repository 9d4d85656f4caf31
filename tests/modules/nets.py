"""A small network, and rules that quantize all of it."""

import torch
from torch import nn

from qconfig import quantize_
from qconfig.configs import FqnToConfig, Rule
from qconfig.configs.int_quant import IntQuantConfig

STEPS = 3
LEARNED = "PARAMETER_FROM_STATS"
ACTIVATION = IntQuantConfig(scale_kind=LEARNED, collect_steps=STEPS)
WEIGHT = IntQuantConfig(
    bit_width=4,
    narrow_range=True,
    scale_kind=LEARNED,
    input=ACTIVATION,
    bias=IntQuantConfig(bit_width=32, scale_kind="EXTERNAL"),
)
POSITIVE = IntQuantConfig(scale_kind=LEARNED, signed=False, collect_steps=STEPS)
POOL = IntQuantConfig(bit_width=4, rounding="FLOOR", scale_kind="EXTERNAL")
RULES = FqnToConfig(
    configs={"weights": WEIGHT, "positive": POSITIVE, "pool": POOL},
    rules=(
        Rule("conv", "weights"),
        Rule("fc", "weights"),
        Rule("**", "positive", modules=("ReLU",)),
        Rule("pool", "pool"),
    ),
)


class Net(nn.Module):
    """A convolution, a ReLU, an average pool and a Linear."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.act = nn.ReLU()
        self.pool = nn.AvgPool2d(2)
        self.fc = nn.Linear(36, 5)

    def forward(self, x):
        """Return scores of five classes for images of 8 by 8."""
        return self.fc(self.pool(self.act(self.conv(x))).flatten(1))


def quantized(seed=0, rules=RULES):
    """Return a network that is quantized as rules say."""
    torch.manual_seed(seed)
    model = Net()
    quantize_(model, rules)
    return model


def images(count=8, seed=1):
    """Return images."""
    return torch.randn(count, 3, 8, 8, generator=torch.Generator().manual_seed(seed))


def trained(steps=STEPS + 2, *, flowing=False):
    """Return a network after some steps, in evaluation mode.

    Args:
        steps: how many.
        flowing: whether the activation returns quant tensors.
    """
    model = quantized()
    model.act.return_quant_tensor = flowing
    for seed in range(steps):
        model(images(seed=seed))
    return model.eval()
