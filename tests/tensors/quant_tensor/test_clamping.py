"""Functions that cut values off keep metadata where their bounds are values of the grid."""

import itertools

import pytest
import torch
from torch import nn
from torch.nn import functional

from qconfig.tensors.quant_tensor import FloatQuantTensor, IntQuantTensor
from tests.tensors.quant_tensor.product_samples import agrees, plain
from tests.tensors.quant_tensor.samples import float_tensor, groupwise_int_tensor, int_tensor

OPERATIONS = {
    "relu": functional.relu,
    "relu of torch": torch.relu,
    "relu6": functional.relu6,
    "hardtanh": functional.hardtanh,
    "hardtanh of other bounds": lambda a: functional.hardtanh(a, -3, 200),
    "threshold": lambda a: functional.threshold(a, 0.5, 1.0),
}
every = pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS.keys())


@pytest.mark.parametrize(
    "operation", [functional.relu, functional.hardtanh], ids=["relu", "hardtanh"]
)
@pytest.mark.parametrize("zero_point", [0, 2])
def test_agrees_with_brevitas(operation, zero_point):
    """All fields are Brevitas' where the bounds lie on the grid."""
    scale = torch.tensor([[0.5], [0.25], [1.0], [0.125]])
    assert agrees(operation, int_tensor(scale=scale, zero_point=zero_point))


@every
@pytest.mark.parametrize("scale", [0.5, 0.1, 0.7])
def test_every_result_is_valid_or_plain(operation, scale):
    """Whatever the format and the zero point: no bound lands between two integers."""
    for bits, signed, zero in itertools.product((2, 8), (True, False), (0, 1, 2.5, -3, 200, -200)):
        x = int_tensor(bits=bits, signed=signed, scale=scale, zero_point=zero)
        result, expected = operation(x), operation(x.value)
        if not isinstance(result, IntQuantTensor):
            assert torch.equal(result, expected)
            continue
        assert result.is_valid
        assert torch.equal(result.value, expected)
        rebuilt = (result.int().float() - result.zero_point) * result.scale
        assert torch.allclose(rebuilt, expected, atol=1e-4)


@pytest.mark.parametrize(
    ("operation", "scale", "zero_point"),
    [(functional.relu, 0.5, 2.5), (functional.relu6, 0.7, 0), (functional.hardtanh, 0.3, 0)],
    ids=["relu", "relu6", "hardtanh"],
)
def test_bounds_off_the_grid_are_plain(operation, scale, zero_point):
    """A zero point that is no integer, and bounds that are none over the scale."""
    x = int_tensor(scale=scale, zero_point=zero_point)
    assert plain(operation(x), operation(x.value))


def test_a_bound_beyond_the_range_changes_nothing():
    """6 is more than 4 bits of 0.3 reach."""
    x = int_tensor(bits=4, signed=False, scale=0.3)
    assert isinstance(functional.relu6(x), IntQuantTensor)
    assert plain(functional.hardtanh(x, 6, 7), functional.hardtanh(x.value, 6, 7))


@every
def test_small_floats(operation):
    """Small floats stay where the bounds are some, and are plain where not."""
    for scale in (0.25, 0.7):
        x = float_tensor(scale=scale)
        result, expected = operation(x), operation(x.value)
        if isinstance(result, FloatQuantTensor):
            assert result.is_valid
            result = result.value
        assert torch.equal(result, expected)
    assert isinstance(functional.relu6(float_tensor()), FloatQuantTensor)
    assert plain(functional.relu6(x), functional.relu6(x.value))


def test_groups_are_plain():
    """Values in groups have a bound on some grids only."""
    x = groupwise_int_tensor()
    assert plain(functional.relu(x), functional.relu(x.value))


def test_in_place_means_a_new_tensor():
    """`inplace=True` gives the result and leaves the operand as it is."""
    x = int_tensor()
    before = x.value.clone()
    for result in (functional.relu(x, inplace=True), nn.ReLU(inplace=True)(x)):
        assert torch.equal(result.value, before.relu())
    assert torch.equal(x.value, before)


def test_gradients_are_those_of_the_values():
    """Relu passes gradients where values are positive."""
    leaf = torch.randn(4, 6, requires_grad=True)
    x = int_tensor().set(value=leaf)
    (found,) = torch.autograd.grad(functional.relu(x).value.sum(), leaf)
    assert torch.equal(found, (leaf > 0).float())
