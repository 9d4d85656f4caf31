"""Rows of a quantized embedding."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from qconfig.errors import QuantTensorError, UnsupportedOperationError
from tests.tensors.quant_tensor.product_samples import agrees, plain
from tests.tensors.quant_tensor.samples import float_tensor, groupwise_int_tensor, int_tensor

ROWS = torch.tensor([[1, 0], [3, 3]])


@pytest.mark.parametrize("zero_point", [0, 2])
def test_agrees_with_brevitas(zero_point):
    """All fields are Brevitas'."""
    weight = int_tensor(zero_point=zero_point)
    assert agrees(lambda w: functional.embedding(ROWS, w, padding_idx=0), weight)


def test_every_way_to_call():
    """By name, and as a module; small floats too."""
    for weight in (int_tensor(), float_tensor()):
        module = nn.Embedding(4, 6)
        module.weight = nn.Parameter(weight)
        for result in (functional.embedding(input=ROWS, weight=weight), module(ROWS)):
            assert type(result) is type(weight)
            assert torch.equal(result.value, weight.value[ROWS])


@pytest.mark.parametrize(
    "weight",
    [
        int_tensor(scale=torch.tensor([[0.5], [1.0], [0.25], [2.0]])),
        int_tensor(zero_point=[[1.0], [0.0], [2.0], [3.0]]),
    ],
    ids=["scales", "zero points"],
)
def test_several_scales_or_zero_points_are_refused(weight):
    """As in Brevitas; the error says what to do instead."""
    with pytest.raises(QuantTensorError, match="one scale and one zero point"):
        functional.embedding(ROWS, weight)


def test_renormalized_rows_are_refused():
    """`max_norm` would change the weight in place."""
    with pytest.raises(UnsupportedOperationError, match="max_norm"):
        functional.embedding(ROWS, int_tensor(), max_norm=1.0)


def test_groups_are_plain():
    """Rows of values in groups are plain."""
    weight = groupwise_int_tensor()
    assert plain(functional.embedding(ROWS, weight), weight.value[ROWS])
