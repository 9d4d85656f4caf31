"""Modules are known by their class itself: other libraries give their classes torch's names."""

import pytest
import torch
from torch import nn
from torch.nn.utils import prune

from qconfig import quantize_
from qconfig.configs import FqnToConfig, Rule
from qconfig.configs.int_quant import IntQuantConfig
from qconfig.errors import BuildError, QconfigError
from qconfig.modules import QuantLinear, freeze
from qconfig.tensors.quant_tensor import IntQuantTensor


class Conv2d(nn.Conv2d):
    """A convolution that is followed by a norm, under torch's name."""

    def __init__(self, *args, norm):
        super().__init__(*args)
        self.norm = norm

    def forward(self, x):
        """Return what the norm makes of the convolution."""
        return self.norm(super().forward(x)).relu()


class ReLU(nn.Module):
    """Another function under torch's name."""

    def forward(self, x):
        """Return values from 0 to 6."""
        return x.clamp(0, 6)


def rules(config, *names):
    """Return rules that give names one config."""
    return FqnToConfig(configs={"c": config}, rules=tuple(Rule(n, "c") for n in names))


def test_a_subclass_keeps_its_forward():
    """A subclass of torch's name gets a quant tensor as its weight, and runs as before."""
    model = nn.Sequential(Conv2d(3, 4, 3, norm=nn.BatchNorm2d(4)))
    quantize_(model, rules(IntQuantConfig(), "0"))
    assert type(model[0]) is Conv2d
    assert type(model[0].weight) is IntQuantTensor
    assert model(torch.randn(2, 3, 8, 8)).min() >= 0


def test_a_subclass_rounds_no_activations():
    """A config that says more than the weight is refused for a subclass."""
    model = nn.Sequential(Conv2d(3, 4, 3, norm=nn.BatchNorm2d(4)))
    config = IntQuantConfig(input=IntQuantConfig(scale_kind="STATS"))
    with pytest.raises(QconfigError, match="module class Conv2d does not round input"):
        quantize_(model, rules(config, "0"))


def test_another_function_of_the_name_is_refused():
    """A module without parameters that only has the name of torch's is none of torch's own."""
    model = nn.Sequential(ReLU())
    with pytest.raises(QconfigError, match="module class ReLU is none of torch's own"):
        quantize_(model, rules(IntQuantConfig(), "0"))


class Scaled(QuantLinear):
    """A subclass with a forward of its own."""

    def forward(self, x):
        """Return ten times the product."""
        return 10 * super().forward(x)


def test_a_subclass_of_ours_is_frozen_as_it_is():
    """A subclass of QuantLinear keeps its class and its forward when it is frozen."""
    model = nn.Sequential(Scaled(nn.Linear(8, 4), weight=IntQuantConfig())).eval()
    x = torch.randn(2, 8)
    expected = model(x)
    assert torch.equal(freeze(model)(x), expected)
    assert type(model[0]) is Scaled
    assert type(model[0].weight) is IntQuantTensor


def test_a_weight_that_is_computed_is_not_frozen():
    """A pruned weight is no parameter, and freezing says what to do."""
    model = nn.Sequential(QuantLinear(nn.Linear(8, 4), weight=IntQuantConfig()))
    prune.l1_unstructured(model[0], "weight", amount=0.5)
    with pytest.raises(BuildError, match="the weight is computed"):
        freeze(model)


def test_a_norm_of_rows_stays_when_frozen():
    """An embedding with max_norm computes the same when it is frozen."""
    model = nn.Sequential(nn.Embedding(10, 4, max_norm=1.0))
    quantize_(model, rules(IntQuantConfig(), "0"))
    index = torch.tensor([1, 2])
    expected = model(index)
    assert torch.equal(freeze(model)(index), expected)
