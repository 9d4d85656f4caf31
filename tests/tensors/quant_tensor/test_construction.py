"""Construction checks that fields fit together, and says which does not."""

import numpy as np
import pytest
import torch

from qconfig.errors import LayoutError, QuantTensorError
from qconfig.tensors.classes import check_values
from qconfig.tensors.quant_tensor import GroupwiseIntQuantTensor, IntQuantTensor
from tests.tensors.quant_tensor.samples import SAMPLES, float_tensor, int_tensor

VALUE = torch.zeros(4, 6)


@pytest.mark.parametrize(
    ("field", "given", "message"),
    [
        ("scale", torch.ones(3, 1), "scale is not aligned with the values"),
        ("zero_point", torch.zeros(5), "zero_point is not aligned with the values"),
        ("scale", torch.ones(1, 4, 6, 1), "scale is not aligned with the values"),
        ("bit_width", torch.ones(2), "bit_width is not one number"),
        ("value", torch.zeros(2, dtype=torch.int8), "value has a wrong dtype"),
        ("signed", 0.5, "a flag is neither true nor false"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(field, given, message):
    """A wrong field raises LayoutError with its name."""
    fields = {"value": VALUE, "scale": 0.5, "zero_point": 0, "bit_width": 8, "signed": True}
    with pytest.raises(LayoutError, match=message):
        IntQuantTensor(**(fields | {field: given}))


@pytest.mark.parametrize(
    ("shape", "size", "dim", "logical", "message"),
    [
        ((2, 2, 4), 4, 1, (2, 9), "value is not in the groups"),
        ((2, 2, 4), 3, 1, (2, 8), "value is not in the groups"),
        ((2, 2, 4), 4, 2, (2, 8), "group_dim is no dimension"),
        ((2, 2, 4), 4, -3, (2, 8), "group_dim is no dimension"),
    ],
)
def test_groups_that_do_not_fit_are_refused(shape, size, dim, logical, message):
    """Stored values have to be the groups of the logical shape."""
    with pytest.raises(LayoutError, match=message):
        GroupwiseIntQuantTensor(
            torch.zeros(shape), 1.0, 0, size, dim, 8, signed=True, dequant_shape=logical
        )


def test_numbers_are_tensors_when_they_are_read():
    """Scale, zero point and bit width may be given as numbers, and read as float32."""
    tensor = IntQuantTensor(VALUE, 0.5, 0, 8, signed=True)
    for shown, expected in ((tensor.scale, 0.5), (tensor.zero_point, 0), (tensor.bit_width, 8)):
        assert (shown.dtype, shown.shape) == (torch.float32, ())
        assert shown == expected


def test_flags_are_booleans_whatever_they_were_given_as():
    """Brevitas has tensors of one element for flags; ours are Python values."""
    tensor = IntQuantTensor(VALUE, 0.5, 0, 8, torch.tensor(1.0), torch.tensor(data=False))
    assert tensor.signed is True
    assert tensor.training is False


def test_set_takes_names_of_brevitas_too():
    """Brevitas' stored names end in `_` or `_t`."""
    assert int_tensor().set(signed_t=torch.tensor(data=False)).signed is False


def test_set_refuses_a_field_that_there_is_not():
    """An unknown field is a ValueError that lists those there are."""
    with pytest.raises(ValueError, match="has no such field"):
        int_tensor().set(foo=1)
    with pytest.raises(LayoutError, match="value is given twice"):
        int_tensor().set(value=VALUE, value_=VALUE)


def test_set_keeps_what_is_not_named():
    """Nothing is computed anew."""
    tensor = int_tensor()
    changed = tensor.set(scale=torch.tensor(2.0))
    assert torch.equal(changed.value, tensor.value)
    assert changed.bit_width == 8
    assert changed.scale == 2.0


@pytest.mark.parametrize("make", SAMPLES.values(), ids=SAMPLES.keys())
def test_samples_are_valid(make):
    """Values of every class are on their grid and in their range."""
    assert make().is_valid is True


def test_integers_of_an_invalid_tensor_are_refused():
    """The error says what the integers are and could be."""
    with pytest.raises(QuantTensorError, match="not valid") as caught:
        int_tensor(bits=4).set(scale=0.3).int()
    assert "integers -8 to 7" in str(caught.value)


@pytest.mark.parametrize(
    ("bits", "signed", "dtype"),
    [
        (8, True, torch.int8),
        (8, False, torch.uint8),
        (9, True, torch.int32),
        (32, True, torch.int32),
        (32, False, torch.int64),
        (40, True, torch.int64),
    ],
)
def test_integers_have_a_type_that_holds_them(bits, signed, dtype):
    """Up to 8 bits int8 or uint8, up to 32 int32, beyond that int64."""
    tensor = IntQuantTensor(torch.ones(2), 1.0, 0, bits, signed=signed)
    assert tensor.int().dtype is dtype


@pytest.mark.parametrize("bits", [8, 16])
def test_integers_can_be_floats(bits):
    """float_datatype gives the type of the scale up to 8 bits, float32 beyond."""
    tensor = int_tensor(bits=4, dtype=torch.float16).set(bit_width=bits)
    assert tensor.int(float_datatype=True).dtype is (torch.float16 if bits == 8 else torch.float32)


def test_small_floats_beyond_the_largest_are_not_valid():
    """448 is the largest e4m3; 480 is on the grid and still none."""
    tensor = float_tensor((1,), scale=1.0)
    assert tensor.set(value=torch.tensor([448.0])).is_valid
    assert not tensor.set(value=torch.tensor([480.0])).is_valid


@pytest.mark.parametrize(
    ("name", "wrong"), [("scale", -1.0), ("scale", float("nan")), ("bit_width", 99.0)]
)
def test_elements_of_a_layout_are_looked_at_on_demand(name, wrong):
    """A file of unknown origin may say nonsense in a legal form."""
    layout = int_tensor().set(**{name: torch.tensor(wrong)}).to_layout()
    with pytest.raises(LayoutError, match=name):
        check_values(layout)


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("value", None),
        ("value", [1.0, 2.0]),
        ("scale", "0.5"),
        ("zero_point", None),
        ("bit_width", "8"),
        ("bit_width", -1),
        ("bit_width", float("inf")),
    ],
)
def test_what_is_no_tensor_and_no_number_is_refused_by_name(field, given):
    """The error names the argument and what it may be."""
    fields = {"value": VALUE, "scale": 0.5, "zero_point": 0, "bit_width": 8, "signed": True}
    with pytest.raises(LayoutError, match=f"{field} cannot be"):
        IntQuantTensor(**(fields | {field: given}))


def test_numbers_of_numpy_are_numbers():
    """A bit width may come from an array."""
    tensor = IntQuantTensor(VALUE, np.float32(0.5), np.int64(0), np.int64(8), signed=True)
    assert tensor.number("bit_width") == 8


def test_one_entry_never_gives_integers_more_dimensions():
    """Metadata of one entry with more dimensions than the value loses them."""
    tensor = IntQuantTensor(torch.ones(3), torch.full((1, 1), 0.5), 0, 8, signed=True)
    assert tensor.int().shape == (3,)


def test_integers_of_more_than_64_bits_are_refused():
    """No integer type holds them; floats do, and validity is known."""
    tensor = IntQuantTensor(torch.ones(2), 1.0, 0, 2000, signed=True)
    assert tensor.is_valid
    with pytest.raises(QuantTensorError, match="no integer type holds so many bits"):
        tensor.int()
    assert torch.equal(tensor.int(float_datatype=True), torch.ones(2))


def test_a_zero_point_that_learns_is_looked_at_again():
    """A zero point that was 0 and is changed in place is no longer taken for 0."""
    zero_point = torch.zeros(())
    tensor = IntQuantTensor(VALUE, 0.5, zero_point, 8, signed=True)
    assert tensor.is_symmetric
    zero_point.fill_(3.0)
    assert not tensor.is_symmetric


def test_scales_of_groups_that_learn_are_expanded_again():
    """`scale` follows `grouped_scale` when that is changed in place."""
    tensor = SAMPLES["groupwise int"]()
    before = tensor.scale.clone()
    tensor.grouped_scale.mul_(2)
    assert torch.equal(tensor.scale, before * 2)
