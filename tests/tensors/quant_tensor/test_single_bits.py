"""Arithmetic of integers of one signed bit: they are -1 and 1, which their results have to hold."""

from collections.abc import Callable

import pytest
import torch

from qconfig import IntQuantTensor

Pair = Callable[[IntQuantTensor, IntQuantTensor], IntQuantTensor]


def _integers(*integers: float, bits: int, signed: bool = True) -> IntQuantTensor:
    return IntQuantTensor(torch.tensor(integers), 0.5, 0.0, bits, signed)


def _binary() -> IntQuantTensor:
    return _integers(-0.5, 0.5, 0.5, bits=1)


@pytest.mark.parametrize("pair", [torch.add, torch.sub, torch.mul])
@pytest.mark.parametrize(
    "other",
    [
        _integers(-0.5, 0.5, -0.5, bits=1),
        _integers(0.0, 0.5, 0.5, bits=1, signed=False),
        _integers(-1.0, 0.5, 0.0, bits=2),
        _integers(-2.0, 1.5, 0.0, bits=3),
    ],
    ids=["1 signed", "1 unsigned", "2 signed", "3 signed"],
)
def test_the_integers_of_both_orders_fit_their_width(pair: Pair, other: IntQuantTensor) -> None:
    """Sums, differences and products of one signed bit are valid, on either side."""
    assert pair(_binary(), other).is_valid
    assert pair(other, _binary()).is_valid


@pytest.mark.parametrize(("pair", "bits"), [(torch.add, 3), (torch.sub, 3)])
def test_a_learned_bit_is_counted_like_a_known_one(pair: Pair, bits: int) -> None:
    """A width in a tensor gives the bits that the same width as a number gives."""
    learned = _binary().set(bit_width=torch.tensor(1.0, requires_grad=True))
    assert pair(learned, learned).bit_width == bits
    assert pair(_binary(), _binary()).bit_width == bits
