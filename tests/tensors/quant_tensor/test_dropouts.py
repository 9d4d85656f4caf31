"""Dropout: nothing in evaluation, a coarser grid in training."""

import pytest
import torch
from torch.nn import functional

from qconfig.tensors.quant_tensor import IntQuantTensor
from tests.tensors.quant_tensor.product_samples import agrees, plain
from tests.tensors.quant_tensor.samples import float_tensor, int_tensor

SHAPES = {
    functional.dropout: (4, 6),
    functional.dropout2d: (2, 3, 4, 4),
    functional.dropout3d: (2, 2, 3, 4, 4),
}
every = pytest.mark.parametrize("function", SHAPES, ids=lambda f: f.__name__)


@pytest.mark.parametrize("function", [*SHAPES, functional.alpha_dropout], ids=lambda f: f.__name__)
def test_agrees_with_brevitas_in_evaluation(function):
    """All fields are Brevitas', with a zero point too."""
    x = int_tensor(SHAPES.get(function, (4, 6)), zero_point=3)
    assert agrees(lambda a: function(a, 0.5, training=False), x)


@every
@pytest.mark.parametrize("make", [int_tensor, float_tensor])
def test_what_is_left_lies_on_a_coarser_grid(function, make):
    """In training, values and scale are divided by 1 - p: integers are the same or 0."""
    x = make(SHAPES[function])
    torch.manual_seed(0)
    result = function(x, p=0.25, training=True)
    torch.manual_seed(0)
    assert torch.equal(result.value, function(x.value, 0.25))
    assert result.is_valid
    assert torch.allclose(result.scale, x.scale / 0.75)
    assert bool(((result.int() == x.int()) | (result.int() == 0)).all())


def test_nothing_is_left_where_no_grid_is():
    """A zero point, everything dropped, and noise of alpha dropout give plain tensors."""
    shifted = int_tensor(zero_point=3)
    torch.manual_seed(0)
    expected = functional.dropout(shifted.value)
    torch.manual_seed(0)
    assert plain(functional.dropout(shifted), expected)
    assert plain(functional.dropout(int_tensor(), 1.0), torch.zeros(4, 6))
    assert not isinstance(
        functional.alpha_dropout(int_tensor(), 0.5, training=True), IntQuantTensor
    )


def test_dropping_nothing_keeps_everything():
    """P = 0 in training is what evaluation is."""
    x = int_tensor(zero_point=3)
    assert torch.equal(functional.dropout(x, 0.0).int(), x.int())
