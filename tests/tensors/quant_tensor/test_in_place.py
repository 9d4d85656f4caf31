"""Nothing changes the values of a quant tensor behind the back of its metadata."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from qconfig.errors import UnsupportedOperationError
from qconfig.tensors.quant_tensor import IntQuantTensor
from tests.tensors.quant_tensor.groupwise_samples import groupwise_float, groupwise_int

TENSORS = [
    IntQuantTensor(torch.tensor([[-1.0, 1.0]]), 0.5, 0, 8, True),
    groupwise_int(),
    groupwise_float(),
]


@pytest.mark.parametrize("tensor", TENSORS)
@pytest.mark.parametrize(
    "function",
    [
        functional.silu,
        functional.relu,
        functional.leaky_relu,
        functional.elu,
        functional.hardtanh,
        functional.dropout,
    ],
)
def test_functions_make_new_tensors(tensor, function):
    """`inplace=True` says that the old tensor is not needed, and is no reason to change it."""
    before = tensor.value.clone()
    torch.manual_seed(0)
    result = function(tensor, inplace=True)
    torch.manual_seed(0)
    assert torch.equal(tensor.value, before)
    assert torch.equal(getattr(result, "value", result), function(before))


@pytest.mark.parametrize("tensor", TENSORS)
def test_modules_make_new_tensors(tensor):
    """A module with `inplace=True` computes out of place."""
    before = tensor.value.clone()
    assert torch.equal(nn.SiLU(inplace=True)(tensor), nn.SiLU()(before))
    assert torch.equal(tensor.value, before)


@pytest.mark.parametrize("tensor", TENSORS)
def test_items_are_not_assigned(tensor):
    """An item may lie on no grid of the tensor."""
    before = tensor.value.clone()
    with pytest.raises(UnsupportedOperationError, match="assignment to items"):
        tensor[0] = 0.3
    assert torch.equal(tensor.value, before)


def test_items_of_plain_tensors_may_be_quant():
    """A plain tensor takes the values of a quant tensor."""
    plain = torch.zeros(2, 2)
    plain[1] = TENSORS[0][0]
    assert plain.tolist() == [[0.0, 0.0], [-1.0, 1.0]]
