"""Calls that come of habit are told how it is done here."""

import copy

import pytest
import torch
from torch import nn

import qconfig
from qconfig import IntQuantConfig
from qconfig.errors import FieldError, QuantTensorError, UnknownFieldError, UsageError
from qconfig.modules import (
    QuantConv2d,
    QuantEmbedding,
    QuantIdentity,
    QuantLinear,
    QuantReLU,
    TruncAvgPool2d,
    freeze,
    pack,
)
from tests.modules.nets import quantized, trained


@pytest.mark.parametrize(
    ("cls", "arguments", "keywords", "hint"),
    [
        (QuantLinear, (3, 4), {"bias": True, "weight_bit_width": 4}, "weight="),
        (QuantLinear, (nn.Linear(3, 4),), {"weight_bit_width": 4}, "weight="),
        (QuantConv2d, (3, 4, 3), {}, "weight="),
        (QuantEmbedding, (3, 4), {}, "weight="),
        (QuantReLU, (IntQuantConfig(),), {}, "act="),
        (QuantReLU, (), {"bit_width": 8}, "act="),
        (QuantIdentity, (), {"act_quant": None}, "act="),
        (TruncAvgPool2d, (2,), {}, "trunc="),
    ],
)
def test_constructors_take_modules_and_configs(cls, arguments, keywords, hint):
    """Arguments of torch's or Brevitas' layers are refused, with the call that there is."""
    with pytest.raises(UsageError, match="and of configs") as caught:
        cls(*arguments, **keywords)
    name = caught.value.message.split()[0]
    assert caught.value.hint.startswith(f"{name}(torch.nn.")
    assert f", {hint}IntQuantConfig(...)), or rules for qconfig.quantize_" in caught.value.hint


@pytest.mark.parametrize("role", ["weight", "input", "output"])
def test_a_number_is_no_config(role):
    """A bit width in place of a config is refused."""
    with pytest.raises(UsageError, match="a quantizer is made of a config"):
        QuantLinear(nn.Linear(3, 4), **{role: 4})


class _Square(QuantLinear):
    """A subclass with arguments of its own."""

    def __init__(self, size, *, bits):
        super().__init__(nn.Linear(size, size), weight=IntQuantConfig(bits))


def test_subclasses_have_their_own_arguments():
    """What a subclass takes is its own affair; copies are made without arguments."""
    layer = copy.deepcopy(_Square(3, bits=4))
    assert layer.weight_quant.recorded.bit_width == 4


def test_trained_models_are_frozen_before_they_are_packed():
    """A model whose weights still train has nothing to pack, and says what comes first."""
    with pytest.raises(UsageError, match="no weight that could be packed") as caught:
        pack(quantized())
    assert caught.value.found == "modules that are not frozen: conv, fc"
    assert caught.value.hint == "freeze the model first: pack(freeze(model))"


def test_modules_that_round_activations_are_not_packed():
    """A frozen model whose layers round activations has nothing to pack, and says why."""
    with pytest.raises(UsageError) as caught:
        pack(freeze(trained().eval()))
    assert caught.value.found == "modules that still round activations or a bias: conv, fc"
    assert caught.value.hint.startswith("packed weights do not round activations")


def _packed():
    model = nn.Sequential(nn.Linear(8, 8))
    qconfig.quantize_(model, IntQuantConfig())
    pack(freeze(model))
    return model


@pytest.mark.parametrize(
    ("model", "found"),
    [
        (lambda: nn.Linear(3, 4), "no quantized weight"),
        (_packed, "weights that are packed already: 0"),
        (
            lambda: freeze(nn.Sequential(QuantConv2d(nn.Conv2d(2, 3, 3), weight=IntQuantConfig()))),
            "Conv2d with IntQuantTensor: 0",
        ),
    ],
    ids=["plain", "packed", "convolution"],
)
def test_nothing_to_pack(model, found):
    """A model without a weight to pack is refused, with what it has instead."""
    with pytest.raises(UsageError) as caught:
        pack(model())
    assert caught.value.found == found


@pytest.mark.parametrize(
    "tensor", [torch.ones(2, 2), qconfig.IntQuantTensor(torch.ones(2, 2), 1.0, 0, 8, signed=True)]
)
def test_only_packed_integers_are_unpacked(tensor):
    """Any other tensor is refused by name."""
    with pytest.raises(QuantTensorError, match="only packed integers") as caught:
        qconfig.from_packed(tensor)
    assert type(tensor).__name__ in caught.value.found


def test_choices_are_named_as_they_are_written():
    """A name that is no choice is refused with the names, and with the nearest."""
    with pytest.raises(FieldError) as caught:
        IntQuantConfig(scale_kind="param")
    assert "one of 'CONST', 'STATS', 'PARAMETER'" in caught.value.expected
    assert caught.value.hint == "did you mean 'PARAMETER'?"


@pytest.mark.parametrize("name", ["bits", "num_bits"])
def test_names_that_other_libraries_have(name):
    """A bit width by another name is told the one here."""
    with pytest.raises(UnknownFieldError, match="did you mean 'bit_width'"):
        qconfig.config_from_dict({"type": "IntQuantConfig", "version": 1, name: 4})
