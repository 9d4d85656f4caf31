"""Operations that move or select values: metadata moves with them, or the result is plain."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from qconfig.errors import MetadataOnlyError
from qconfig.tensors.quant_tensor import FloatQuantTensor, IntQuantTensor
from tests.tensors.quant_tensor.moves import BREAKING, KEEPING
from tests.tensors.quant_tensor.selections import SELECTING
from tests.tensors.quant_tensor.view_samples import (
    float_tensors,
    int_tensors,
    metadata_fits,
    pieces_of,
)

ALL = KEEPING | BREAKING | SELECTING


@pytest.mark.parametrize("name", ALL)
@given(data=st.data())
def test_a_view_is_the_view_of_the_values(name, data):
    """Values and integers of a result are the operation on values and integers, bit for bit."""
    tensor = data.draw(int_tensors() | float_tensors())
    for form in ALL[name](data.draw, tuple(tensor.shape)):
        result, values, integers = form(tensor), form(tensor.value), form(tensor.int())
        assert type(result) is type(values) or type(result) is type(tensor)
        found = zip(pieces_of(result), pieces_of(values), pieces_of(integers), strict=True)
        for piece, value, integer in found:
            if type(piece) is torch.Tensor:
                assert torch.equal(piece, value)
                assert name in BREAKING
                assert tensor.scale.numel() != 1 or tensor.zero_point.numel() != 1
                continue
            assert type(piece) is type(tensor)
            assert metadata_fits(piece)
            assert piece.shape == value.shape
            assert piece.stride() == value.stride()
            assert torch.equal(piece.value, value)
            assert torch.equal(piece.int(), integer)


def _int(shape, scale_shape):
    scale = 2.0 ** torch.arange(torch.Size(scale_shape).numel()).reshape(scale_shape)
    return IntQuantTensor(torch.zeros(shape), scale, 0, 8, True)


@pytest.mark.parametrize(
    ("shape", "scale", "new", "expected"),
    [
        ((4, 3, 2, 2), (4, 1, 1, 1), (4, -1), (4, 1)),
        ((4, 3, 2, 2), (4, 1, 1, 1), (2, 2, 12), (2, 2, 1)),
        ((4, 3, 2, 2), (1, 3, 1, 1), (4, 3, 4), (1, 3, 1)),
        ((4, 6), (4, 1), (4, 1, 6), (4, 1, 1)),
        ((4, 6), (6,), (4, 2, 3), (1, 2, 3)),
        ((2, 3), (2, 3), (6,), (6,)),
        ((2, 3), (1, 1), (6,), (1,)),
        ((0, 3, 2), (1, 3, 1), (0, 3, 1, 2), (1, 3, 1, 1)),
    ],
)
def test_a_reshape_takes_along_aligned_metadata(shape, scale, new, expected):
    """A reshape keeps the class where metadata can be reshaped with its dimensions of size 1."""
    result = _int(shape, scale).reshape(new)
    assert isinstance(result, IntQuantTensor)
    assert tuple(result.scale.shape) == expected


@pytest.mark.parametrize(
    ("shape", "scale", "new"),
    [((4, 6), (4, 1), (-1,)), ((4, 6), (1, 6), (24,)), ((4, 6), (4, 1), (6, 4))],
)
def test_a_reshape_that_breaks_metadata_is_plain(shape, scale, new):
    """Where dimensions are joined of which only one has metadata, the result is plain."""
    assert type(_int(shape, scale).reshape(new)) is torch.Tensor


def test_slices_keep_the_metadata_of_an_empty_batch():
    """A slice of nothing keeps scales per channel, as the batch has none."""
    assert tuple(_int((2, 3, 4, 4), (1, 3, 1, 1))[0:0].scale.shape) == (1, 3, 1, 1)


@pytest.mark.parametrize(
    "index",
    [
        np.int64(1),
        np.array([1, 0]),
        torch.tensor(1),
        ((0, 1),),
        (slice(None), [[0, 1], [2, 0]]),
        ([0, 1], Ellipsis, [1, 2]),
        (0, Ellipsis, [1, 2]),
        ([0, 1], None, [1, 2]),
        [],
        (),
        Ellipsis,
        [True, False],
        (None, 1, None),
    ],
)
@pytest.mark.parametrize("scale", [(2, 1), (1, 3), (2, 3), (3,)])
def test_kinds_of_indices(index, scale):
    """Metadata follows numbers and sequences of any kind as values do."""
    tensor = _int((2, 3), scale)
    result = tensor[index]
    assert isinstance(result, IntQuantTensor)
    expected = tensor.scale.expand(2, 3)[index]
    assert torch.equal(result.scale.expand(result.shape), expected)


def test_unknown_indices_are_plain():
    """What torch takes as an index and we do not know is an index of values."""
    assert type(_int((2, 3), (2, 1))[range(2)]) is torch.Tensor


@pytest.mark.parametrize("index", [True, (slice(None), None, True)])
def test_metadata_does_not_follow_booleans(index):
    """An index of True keeps one scale for all; scales with dimensions do not follow."""
    assert isinstance(_int((2, 3), ())[index], IntQuantTensor)
    assert type(_int((2, 3), (2, 1))[index]) is torch.Tensor


def test_bits_of_values_are_plain():
    """`view(dtype)` shows bits, which are no values of any grid."""
    assert type(_int((2, 3), ()).view(torch.int32)) is torch.Tensor


def test_a_plain_tensor_is_indexed_by_plain_rules():
    """Operations on plain tensors are plain, whatever else they are given."""
    plain = torch.arange(6.0)
    assert type(plain.view_as(_int((2, 3), ()))) is torch.Tensor


def test_len_and_iteration():
    """A quant tensor has the length of its values, and rows that are quant tensors."""
    tensor = _int((2, 3), (2, 1))
    assert len(tensor) == 2
    assert [row.scale.item() for row in tensor] == [1.0, 2.0]


@pytest.mark.parametrize("tensor", [_int((2, 3), ()), _int((2, 3), (2, 1))])
def test_other_fields_stay(tensor):
    """Bit width, sign and training stay as they are."""
    own = tensor.set(training=True, bit_width=torch.tensor(4.5), signed=False)
    result = own.transpose(0, 1)[1:]
    assert (result.training, result.signed, result.bit_width.item()) == (True, False, 4.5)


def test_formats_stay():
    """The format of small floats stays."""
    tensor = FloatQuantTensor(torch.ones(2, 3), 1, 0, 5, 2, 15, False, ("00",), ("01",), True)
    changed = {"value": None, "scale": None, "zero_point": None}
    shown = tensor.t().inner_attributes | {"e": tensor.t().exponent_bit_width.item()} | changed
    assert shown == tensor.inner_attributes | {"e": 5.0} | changed


def test_a_slice_of_unequal_zero_points_may_be_symmetric():
    """What is known of all zero points is not taken for what is known of some."""
    tensor = IntQuantTensor(torch.zeros(2, 2), 1.0, torch.tensor([[0.0], [3.0]]), 8, True)
    assert not tensor.is_symmetric
    assert tensor[0].is_symmetric
    assert not tensor[1].is_symmetric


def test_views_share_memory():
    """A view looks at the same elements."""
    tensor = _int((2, 3), ())
    assert tensor.t().value.data_ptr() == tensor.value.data_ptr()


def test_metadata_alone_has_no_views():
    """Where the value is left out, a view says so."""
    with pytest.raises(MetadataOnlyError, match="no value"):
        _int((2, 3), ()).metadata_only().view(-1)


@pytest.mark.parametrize("tensor", [_int((2, 3, 4, 5), ()), _int((2, 3, 4, 5), (3, 1, 1))])
def test_memory_formats_are_of_values(tensor):
    """Channels last is a matter of the values."""
    for result in (
        tensor.contiguous(memory_format=torch.channels_last),
        tensor.to(memory_format=torch.channels_last),
        tensor.clone(memory_format=torch.channels_last),
    ):
        assert isinstance(result, IntQuantTensor)
        assert result.is_contiguous(memory_format=torch.channels_last)
        assert result.value.is_contiguous(memory_format=torch.channels_last)
