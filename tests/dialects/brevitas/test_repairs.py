"""What releases wrote wrongly into metadata is found, put right, and said."""

from typing import Any

import pytest
import torch

from qconfig.dialects.brevitas.forms import FLOAT, GROUPWISE_INT, INT, OLD_INT, of_length
from qconfig.dialects.brevitas.tensors import Read, read_tensor
from qconfig.errors import LayoutError

_YES, _NO = torch.tensor(data=True), torch.tensor(data=False)


def _float(value: torch.Tensor, exponent: float, mantissa: float, bias: float) -> Read:
    fields = {
        "value": value,
        "scale": torch.tensor(1.0),
        "zero_point": torch.tensor(0.0),
        "exponent_bit_width": torch.tensor(exponent),
        "mantissa_bit_width": torch.tensor(mantissa),
        "exponent_bias": torch.tensor(bias),
        "saturating_t": _YES,
        "inf_values": None,
        "nan_values": None,
        "signed_t": _YES,
        "training_t": _NO,
    }
    return read_tensor(FLOAT, fields, "FloatQuantTensor")


def _widths(read: Read) -> tuple[float, float]:
    layout: Any = read.layout
    return float(layout.exponent_bit_width.load()), float(layout.mantissa_bit_width.load())


E2M1 = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])


@pytest.mark.parametrize(
    ("exponent", "mantissa", "bias", "values"),
    [
        (4, 3, 7, torch.tensor([448.0, 0.001953125, 13.0])),
        (5, 2, 15, torch.tensor([57344.0, 0.25, 12.0])),
        (3, 2, 3, torch.tensor([28.0, 0.0625])),
        (2, 3, 1, torch.tensor([7.5, 0.125])),
        (2, 1, 1, E2M1),
        (4, 3, 8, torch.tensor([240.0, 1.0])),
    ],
)
def test_exchanged_widths_are_put_back(
    exponent: int, mantissa: int, bias: int, values: torch.Tensor
) -> None:
    """Every format whose widths were exchanged has its own again, and a change says so."""
    swapped = _float(values, mantissa, exponent, bias)
    assert _widths(swapped) == (exponent, mantissa)
    assert "exchanged" in swapped.origin.changes[0]


@pytest.mark.parametrize(
    ("exponent", "mantissa", "bias"),
    [(4, 3, 7), (5, 2, 15), (3, 2, 3), (2, 3, 1), (2, 1, 1), (4, 3, 8), (3, 4, 3), (2, 5, 1)],
)
def test_right_widths_stay(exponent: int, mantissa: int, bias: int) -> None:
    """Formats whose bias is that of their exponent are left as they are."""
    read = _float(torch.tensor([1.0, 1.5]), exponent, mantissa, bias)
    assert _widths(read) == (exponent, mantissa)
    assert read.origin.exact


def test_values_decide_where_the_bias_says_nothing() -> None:
    """A bias of neither width: values off the stored grid and on the exchanged one decide."""
    read = _float(torch.tensor([448.0, 1.125]), 3, 4, 6.0)
    assert _widths(read) == (4, 3)


def test_what_fits_both_is_ambiguous() -> None:
    """Values on both grids, and a bias of neither: what is stored is taken, and it is said."""
    read = _float(torch.tensor([1.0, 1.5]), 4, 3, 5.0)
    assert _widths(read) == (4, 3)
    assert "may be exchanged" in read.origin.ambiguities[0]


def test_values_off_both_grids_are_said() -> None:
    """Values of no format at all are carried, and an ambiguity says that they are off."""
    read = _float(torch.tensor([1.0, 1.234567]), 4, 3, 5.0)
    assert "not small floats" in read.origin.ambiguities[0]


def _groups(**changed: Any) -> Read:
    fields = {
        "value_": torch.arange(12.0).reshape(2, 6),
        "scale_": torch.tensor([[1.0, 1.0, 1.0, 1.0, 2.0, 2.0]]).expand(2, 6).contiguous(),
        "zero_point_": torch.tensor(0.0),
        "group_size": 4,
        "group_dim": 1,
        "bit_width": torch.tensor(8.0),
        "signed_t": _YES,
        "training_t": _NO,
        "dequant_shape": (2, 6),
    }
    return read_tensor(GROUPWISE_INT, fields | changed, "GroupwiseIntQuantTensor")


def test_expanded_scales_become_one_a_group() -> None:
    """Values and scales without groups are put into them; the last group is filled up with 0."""
    read = _groups()
    layout: Any = read.layout
    assert layout.scale_.load().tolist() == [[[1.0], [2.0]], [[1.0], [2.0]]]
    assert layout.value_.load()[0].tolist() == [[0, 1, 2, 3], [4, 5, 0, 0]]
    assert "not in groups" in read.origin.changes[0]


def test_scales_that_differ_inside_a_group_are_refused() -> None:
    """A group with two scales has none that could be stored."""
    scales = torch.tensor([[1.0, 1.5, 1.0, 1.0, 2.0, 2.0]]).expand(2, 6).contiguous()
    with pytest.raises(LayoutError, match="scale_ is not in groups, and differs inside a group"):
        _groups(scale_=scales)


def test_groups_without_a_shape_are_whole() -> None:
    """0.11 says no logical shape: it is that of the groups, joined."""
    fields = {
        "value_": torch.zeros(2, 3, 4),
        "scale_": torch.ones(2, 3, 1),
        "zero_point_": torch.tensor(0.0),
        "group_size": 4,
        "group_dim": 1,
        "bit_width": torch.tensor(8.0),
        "signed_t": _YES,
        "training_t": _NO,
    }
    form = of_length(GROUPWISE_INT, 8)
    assert form is not None
    read = read_tensor(form, fields, "GroupwiseIntQuantTensor")
    assert read.origin.exact
    assert read.layout.shape == (2, 12)  # type: ignore[attr-defined]


def test_groups_of_0_11_along_the_last_dimension_are_as_they_were_made() -> None:
    """0.11 exchanged number and size of groups for group_dim -1, and this is said."""
    form = of_length(GROUPWISE_INT, 8)
    assert form is not None
    fields = {
        "value_": torch.zeros(3, 8, 2),
        "scale_": torch.ones(3, 8, 1),
        "zero_point_": torch.tensor(0.0),
        "group_size": 8,
        "group_dim": -1,
        "bit_width": torch.tensor(8.0),
        "signed_t": _YES,
        "training_t": _NO,
    }
    read = read_tensor(form, fields, "GroupwiseIntQuantTensor")
    assert read.layout.group_size == 2  # type: ignore[attr-defined]
    assert "8 groups of 2" in read.origin.changes[0]


def test_old_tensors_of_small_floats_are_said() -> None:
    """0.10 kept small floats in the class of integers: values are kept, and it is said."""
    fields = {
        "value": torch.tensor([0.3, 1.0, 2.71]),
        "scale": torch.tensor(1.0),
        "zero_point": torch.tensor(0.0),
        "bit_width": torch.tensor(8.0),
        "signed_t": _YES,
        "training_t": _NO,
    }
    read = read_tensor(INT, fields, OLD_INT)
    assert "no multiples of the scale" in read.origin.ambiguities[0]
