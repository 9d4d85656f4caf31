"""Joining: metadata agrees, lies along the dimension, or there is an error that names both."""

import pytest
import torch

from qconfig.errors import QuantTensorError
from tests.tensors.quant_tensor.product_samples import agrees, plain
from tests.tensors.quant_tensor.samples import (
    float_tensor,
    groupwise_int_tensor,
    int_tensor,
    same,
)

ROWS = torch.tensor([[0.5], [1.0], [0.25], [2.0]])


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("zero_point", [0, 3])
def test_agrees_with_brevitas(dim, training, zero_point):
    """All fields are Brevitas'; in training too."""
    first = int_tensor(zero_point=zero_point, training=training)
    second = int_tensor(seed=1, zero_point=zero_point, training=training)
    assert agrees(lambda a, b: torch.cat([a, b, a], dim=dim), first, second)


def test_scales_of_operands_are_averaged_in_training():
    """As Brevitas does it: the result need not be valid."""
    first, second = int_tensor(training=True), int_tensor(scale=0.25, training=True)
    assert agrees(lambda a, b: torch.cat([a, b], dim=0), first, second)
    assert torch.cat([first, second]).scale == 0.375


def test_metadata_along_the_dimension_is_joined():
    """A scale and a zero point for each row stay with their rows."""
    first = int_tensor(scale=ROWS, zero_point=[[0.0], [1.0], [2.0], [3.0]])
    second = int_tensor(scale=ROWS * 2, zero_point=[[1.0], [0.0], [5.0], [3.0]], seed=1)
    for result in (torch.cat([first, second]), torch.cat((first, second), -2)):
        assert torch.equal(result.scale, torch.cat([ROWS, ROWS * 2]))
        assert result.is_valid
        assert torch.equal(result.int(), torch.cat([first.int(), second.int()]))


def test_metadata_across_the_dimension_stays():
    """Equal scales of rows are those of the longer rows."""
    first, second = int_tensor(scale=ROWS), int_tensor(scale=ROWS, seed=1)
    result = torch.cat([first, second], 1)
    assert torch.equal(result.scale, ROWS)
    assert torch.equal(result.int(), torch.cat([first.int(), second.int()], 1))


def test_one_tensor_is_itself():
    """There is nothing to join."""
    x = int_tensor()
    assert torch.cat([x]) is x


def test_all_ways_to_call_give_the_same():
    """Under all names, with the dimension by position, by name or left out."""
    first, second = int_tensor(), int_tensor(seed=1)
    expected = torch.cat([first, second], dim=0)
    for result in (
        torch.cat([first, second]),
        torch.cat(tensors=(first, second)),
        torch.concat((first, second), 0),
        torch.concatenate([first, second], axis=0),
    ):
        assert same(result, expected)


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"scale": 0.25}, "scales.*0.5 and 0.25"),
        ({"zero_point": 3}, "zero points.*0 and 3"),
        ({"bits": 4}, "bit widths.*8 and 4"),
        ({"signed": False}, "signs.*True and False"),
        ({"scale": ROWS}, "scales.*0.5 and"),
    ],
    ids=str,
)
def test_integers_that_differ_are_refused(changes, names):
    """The error says what differs, and shows both."""
    with pytest.raises(QuantTensorError, match=f"(?s){names}"):
        torch.cat([int_tensor(), int_tensor(**changes)])


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"exponent_bit_width": 5}, "exponent bit widths.*4 and 5"),
        ({"mantissa_bit_width": 2}, "mantissa bit widths.*3 and 2"),
        ({"exponent_bias": 8}, "exponent biases.*7 and 8"),
        ({"nan_values": None}, "nan_values.*111.*and None"),
        ({"inf_values": ("00",)}, "inf_values.*None and"),
        ({"saturating": False}, "saturating.*True and False"),
        ({"signed": False}, "signs.*True and False"),
        ({"scale": 1.0}, "scales.*0.25 and 1"),
    ],
    ids=str,
)
def test_small_floats_of_different_formats_are_refused(changes, names):
    """Each field of the format is compared, not only all of them at once."""
    with pytest.raises(QuantTensorError, match=f"(?s){names}"):
        torch.cat([float_tensor(), float_tensor().set(**changes)])


def test_small_floats_are_joined():
    """A format without infinities, too."""
    first, second = float_tensor(), float_tensor(seed=1)
    result = torch.cat([first, second])
    assert type(result) is type(first)
    assert result.is_valid
    assert torch.equal(result.minifloat(), torch.cat([first.minifloat(), second.minifloat()]))


def test_other_operands_are_plain():
    """Plain tensors, other classes and groups among them give a plain tensor."""
    x = int_tensor()
    for other in (x.value, float_tensor(), groupwise_int_tensor()):
        expected = torch.cat([x.value, getattr(other, "value", other)])
        assert plain(torch.cat([x, other]), expected)
    group = groupwise_int_tensor()
    assert plain(torch.cat([group, group]), torch.cat([group.value, group.value]))
    assert plain(torch.stack([x, x]), torch.stack([x.value, x.value]))


def test_gradients_reach_every_part():
    """Each value gets its own part of the gradient."""
    parts = [torch.randn(4, 6, requires_grad=True) for _ in range(2)]
    joined = torch.cat([int_tensor().set(value=part) for part in parts])
    found = torch.autograd.grad(joined.value.square().sum(), parts)
    for gradient, part in zip(found, parts, strict=True):
        assert torch.allclose(gradient, 2 * part)
