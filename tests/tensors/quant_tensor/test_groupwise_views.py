"""Slices of tensors in groups keep their class where groups stay whole; other views are plain."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from qconfig.tensors.quant_tensor import GroupwiseFloatQuantTensor, GroupwiseIntQuantTensor
from tests.tensors.quant_tensor.groupwise_samples import (
    groupwise_float,
    groupwise_int,
    groupwise_tensors,
    is_consistent,
)
from tests.tensors.quant_tensor.moves import BREAKING, KEEPING
from tests.tensors.quant_tensor.selections import SELECTING
from tests.tensors.quant_tensor.view_samples import pieces_of

ALL = KEEPING | BREAKING | SELECTING


@pytest.mark.parametrize("name", ALL)
@given(data=st.data())
def test_a_view_is_the_view_of_the_values(name, data):
    """Values of a result are the operation on values, bit for bit, and a class is kept whole."""
    tensor = data.draw(groupwise_tensors())
    for form in ALL[name](data.draw, tuple(tensor.shape)):
        result = form(tensor)
        values, integers = form(tensor.value.contiguous()), form(tensor.int().contiguous())
        assert type(result) is type(values) or type(result) is type(tensor)
        found = zip(pieces_of(result), pieces_of(values), pieces_of(integers), strict=True)
        for piece, value, integer in found:
            if type(piece) is torch.Tensor:
                assert torch.equal(piece, value)
                continue
            assert type(piece) is type(tensor)
            assert (piece.group_dim < 0) == (tensor.group_dim < 0)
            assert piece.dequant_shape == tuple(value.shape) == tuple(piece.shape)
            assert torch.equal(piece.value, value)
            assert torch.equal(piece.int(), integer)
            assert is_consistent(piece)


@pytest.mark.parametrize("make", [groupwise_int, groupwise_float])
@pytest.mark.parametrize(
    ("group_dim", "index", "expected"),
    [
        (1, 0, 0),
        (-1, 0, -1),
        (1, (slice(None), slice(None), 0), 1),
        (-2, (slice(None), slice(None), 0), -1),
        (-2, (0, slice(None), 0), -1),
        (1, None, 2),
        (-2, None, -2),
        (1, (Ellipsis, None), 1),
        (-2, (Ellipsis, None), -3),
        (1, slice(0, 0), 1),
    ],
)
def test_an_index_moves_the_dimension_of_groups(make, group_dim, index, expected):
    """What goes or comes before, or after a dimension that counts from the end, moves it."""
    tensor = make((2, 6, 3), 4, group_dim)
    result = tensor[index]
    assert type(result) is type(tensor)
    assert result.group_dim == expected
    assert torch.equal(result.value, tensor.value[index])


@pytest.mark.parametrize(
    "cut",
    [
        slice(0, 4),
        slice(4, None),
        slice(4, 8),
        slice(-2, None),
        slice(8, 10),
        slice(None, 100),
        slice(0, 0),
    ],
)
def test_slices_of_whole_groups_keep_the_class(cut):
    """Slices that begin and end with groups, or with the tensor, keep the class."""
    tensor = groupwise_int((3, 10), 4, 1)
    result = tensor[:, cut]
    assert isinstance(result, GroupwiseIntQuantTensor)
    assert torch.equal(result.int(), tensor.int()[:, cut])


@pytest.mark.parametrize("cut", [slice(0, 3), slice(1, 8), slice(None, None, 2), slice(8, 9), 0])
def test_what_cuts_a_group_is_plain(cut):
    """Where a group is cut, its values are given alone."""
    assert type(groupwise_int((3, 10), 4, 1)[:, cut]) is torch.Tensor


@pytest.mark.parametrize(
    ("operation", "kept"),
    [
        (lambda x: x.narrow(1, 4, 4), True),
        (lambda x: x.narrow(0, -2, 1), True),
        (lambda x: x.narrow(1, -2, 2), True),
        (lambda x: x.narrow(1, 3, 2), False),
        (lambda x: x.select(0, 1), True),
        (lambda x: x.select(1, 1), False),
        (lambda x: x.unsqueeze(0).squeeze(0), True),
        (lambda x: x.unsqueeze(-1).squeeze(), True),
        (lambda x: x.split(8, 1)[1], True),
        (lambda x: x.split(5, 1)[0], False),
        (lambda x: x.chunk(3, 0)[2], True),
        (lambda x: x.unbind(0)[0], True),
        (lambda x: x.unbind(1)[0], False),
        (lambda x: x.unbind()[0], True),
        (lambda x: x[torch.tensor([0, 1])], False),
    ],
)
def test_which_selections_keep_the_class(operation, kept):
    """Selections keep the class where no group is cut."""
    result = operation(groupwise_float((3, 10), 4, 1))
    assert isinstance(result, GroupwiseFloatQuantTensor) is kept


@pytest.mark.parametrize(
    "operation",
    [
        lambda x: x.view(-1),
        lambda x: x.reshape(2, 12),
        torch.flatten,
        torch.t,
        lambda x: x.transpose(0, 1),
        lambda x: torch.permute(x, (1, 0)),
        lambda x: x.T,
        lambda x: torch.cat([x, x]),
        lambda x: torch.stack([x, x]),
        lambda x: torch.nn.functional.max_pool1d(x, 2),
        lambda x: x + x,
        lambda x: x * 2.0,
        lambda x: x @ x.T,
    ],
)
@pytest.mark.parametrize("make", [groupwise_int, groupwise_float])
def test_other_operations_are_plain(make, operation):
    """What mixes values of groups is the operation on the values in their logical shape."""
    tensor = make()
    result = operation(tensor)
    assert type(result) is torch.Tensor
    assert torch.equal(result, operation(tensor.value.contiguous()))


def test_a_squeeze_of_the_only_group_is_plain():
    """The dimension of groups may have one value, and goes where all such dimensions go."""
    assert type(groupwise_int((3, 1), 4, 1).squeeze()) is torch.Tensor


def test_one_scale_for_all_stays():
    """One scale with dimensions fits the slice."""
    scale = torch.full((1, 1, 1), 0.5)
    tensor = GroupwiseIntQuantTensor(torch.ones(2, 3, 4), scale, 0, 4, 1, 8, True)
    assert torch.equal(tensor[0].scale, torch.full((12,), 0.5))
    assert torch.equal(tensor[0, 4:8].int(), torch.full((4,), 2, dtype=torch.int8))
