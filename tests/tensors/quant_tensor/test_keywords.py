"""Operands that are given by the names that torch has for them."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from qconfig import IntQuantTensor
from tests.tensors.quant_tensor.samples import int_tensor

CALLS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "add": (lambda a: torch.add(input=a, other=a), lambda a: a + a),
    "sub": (lambda a: torch.sub(a, other=a), lambda a: a - a),
    "mul": (lambda a: a.mul(other=a), lambda a: a * a),
    "div": (lambda a: torch.div(input=a, other=a), lambda a: a / a),
    "neg": (lambda a: torch.neg(input=a), lambda a: -a),
    "abs": (lambda a: torch.abs(input=a), abs),
    "positive": (lambda a: torch.positive(input=a), lambda a: a),
}


@pytest.mark.parametrize("name", CALLS)
def test_names_of_operands_are_those_of_torch(name: str) -> None:
    """A call by names gives what the operator gives, metadata too."""
    by_name, operator = CALLS[name]
    tensor = int_tensor()
    found, expected = by_name(tensor), operator(tensor)
    assert type(found) is IntQuantTensor
    torch.testing.assert_close(found.value, expected.value, equal_nan=True)
    assert torch.equal(found.scale, expected.scale)
    assert torch.equal(found.bit_width, expected.bit_width)


@pytest.mark.parametrize("function", [torch.neg, torch.abs])
def test_a_result_that_is_given_gets_values(function: Callable[..., Any]) -> None:
    """With `out=` a plain tensor is filled in and returned."""
    tensor = int_tensor()
    out = torch.empty_like(tensor.value)
    assert function(tensor, out=out) is out
    assert torch.equal(out, function(tensor.value))
