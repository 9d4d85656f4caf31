"""Negation and absolute values of tensors in groups."""

import pytest
import torch

from qconfig.errors import UnsupportedOperationError
from qconfig.tensors.quant_tensor import GroupwiseIntQuantTensor
from tests.tensors.quant_tensor.groupwise_samples import (
    groupwise_float,
    groupwise_int,
    is_consistent,
)

TENSORS = {
    "int": groupwise_int().set(bit_width=7),
    "int with zero points": groupwise_int(zero_point=3.0).set(bit_width=7),
    "unsigned": groupwise_int(signed=False),
    "unsigned with zero points": groupwise_int(zero_point=3.0, signed=False),
    "first dimension": groupwise_int((5, 3), 2, 0).set(bit_width=7),
    "float": groupwise_float(),
}


@pytest.mark.parametrize("name", TENSORS)
@pytest.mark.parametrize("operation", [torch.neg, torch.abs, lambda x: -x, abs])
def test_a_result_is_in_the_same_groups(name, operation):
    """The result is the operation on values, valid, of the class and in the groups it was in."""
    tensor = TENSORS[name]
    result = operation(tensor)
    assert type(result) is type(tensor)
    assert (result.group_size, result.group_dim) == (tensor.group_size, tensor.group_dim)
    assert torch.equal(result.value, operation(tensor.value))
    assert is_consistent(result)


@pytest.mark.parametrize(
    ("tensor", "negated", "absolute"),
    [
        (groupwise_int(), (6, True), (5, False)),
        (groupwise_int(signed=False), (7, True), (6, False)),
        (groupwise_int(zero_point=3.0), (6, True), (6, False)),
    ],
)
def test_bits_of_integers(tensor, negated, absolute):
    """Bits and sign are those of IntQuantTensor's rules."""
    minus, size = -tensor, abs(tensor)
    assert (minus.bit_width.item(), minus.signed) == negated
    assert (size.bit_width.item(), size.signed) == absolute


def test_signs_of_floats():
    """An absolute value has no sign."""
    tensor = groupwise_float()
    assert (-tensor).signed
    assert not abs(tensor).signed


def test_floats_without_a_sign_cannot_be_negated():
    """There is no such float in the format."""
    with pytest.raises(UnsupportedOperationError, match="without a sign"):
        -groupwise_float(signed=False)


def test_absolute_values_of_fractional_zero_points_are_plain():
    """Where zero is no integer, an absolute value is not on the grid."""
    stored = torch.zeros(2, 3, 4)
    tensor = GroupwiseIntQuantTensor(stored, 1.0, 0.5, 4, 1, 8, True)
    assert type(abs(tensor)) is torch.Tensor


def test_gradients_of_a_negation():
    """Gradients reach stored values."""
    value = torch.randn(2, 3, 4, requires_grad=True)
    (-GroupwiseIntQuantTensor(value, 1.0, 0, 4, 1, 8, True)).value.sum().backward()
    assert torch.equal(value.grad, -torch.ones(2, 3, 4))
