"""Mean pools: the mean of integers lies on a grid that is finer by the size of the window."""

import pytest
import torch
from torch.nn import functional

from qconfig.tensors.quant_tensor import IntQuantTensor
from tests.tensors.quant_tensor.product_samples import ENDS, FORMATS, agrees, at_end, holds, plain
from tests.tensors.quant_tensor.samples import float_tensor, int_tensor

CHANNELS = torch.tensor([0.5, 0.25]).reshape(1, 2, 1, 1)
WHOLE = [(2, 2, 0, False, True, None), ((2, 3), (1, 2), 0, False, True, None)]


@pytest.mark.parametrize("args", WHOLE, ids=str)
@pytest.mark.parametrize("scale", [0.5, CHANNELS], ids=["tensor", "channel"])
@pytest.mark.parametrize("signed", [True, False])
def test_agrees_with_brevitas(args, scale, signed):
    """Value, scale, zero point, bit width and flags are Brevitas' where windows are whole."""
    x = int_tensor((1, 2, 6, 6), scale=scale, signed=signed)
    assert agrees(lambda a: functional.avg_pool2d(a, *args), x)
    assert agrees(lambda a: functional.adaptive_avg_pool2d(a, (2, 3)), x)


@pytest.mark.parametrize("form", FORMATS, ids=str)
@pytest.mark.parametrize("zero_point", [0.0, 3.0, -2.0, 200.0])
def test_no_sum_overflows(form, zero_point):
    """Extremes fit for every format and zero point, which is multiplied by the window's size."""
    for end in ENDS:
        x = at_end((1, 2, 6, 6), form, end, scale=CHANNELS, zero_point=zero_point)
        for args in ((2,), (3, 1), ((2, 3),), (2, 2, 0, True), (2, 2, 0, False, True, 5)):
            expected = functional.avg_pool2d(x.value, *args)
            assert holds(functional.avg_pool2d(x, *args), expected)
        for size in (1, 2, 3, (3, 2), (None, 1), 6):
            expected = functional.adaptive_avg_pool2d(x.value, size)
            assert holds(functional.adaptive_avg_pool2d(x, size), expected)


def test_a_zero_point_is_summed_up():
    """Four integers with a zero point of 3 have one of 12, and unsigned sums stay unsigned."""
    x = int_tensor((1, 1, 4, 4), signed=False, zero_point=3)
    result = functional.avg_pool2d(x, 2)
    assert result.zero_point == 12
    assert not result.signed
    assert torch.equal(result.int().sum(), x.int().sum())


@pytest.mark.parametrize(
    "args",
    [(2, 2, 1), (3, 2, 1, True, True, 7), (3, 2, 0, True, True, 2), (2, 2, 1, False, False, 3)],
    ids=str,
)
def test_what_lies_outside_counts_as_zero(args):
    """Padding is an integer where the zero point is 0; else the result is plain."""
    for end in ENDS:
        x = at_end((1, 2, 6, 6), (8, True), end)
        expected = functional.avg_pool2d(x.value, *args)
        assert holds(functional.avg_pool2d(x, *args), expected)
        shifted = at_end((1, 2, 6, 6), (8, True), end, zero_point=3.0)
        expected = functional.avg_pool2d(shifted.value, *args)
        assert plain(functional.avg_pool2d(shifted, *args), expected)


@pytest.mark.parametrize("args", [(2, 2, 1, False, False), (4, 3, 0, True)], ids=str)
def test_windows_of_different_sizes_are_plain(args):
    """They have no common grid."""
    x = int_tensor((1, 2, 6, 6))
    expected = functional.avg_pool2d(x.value, *args)
    assert plain(functional.avg_pool2d(x, *args), expected)


def test_adaptive_windows_may_overlap_but_not_differ():
    """4 values in 3 windows of 2 have a grid; 5 values in 3 windows have none."""
    even, uneven = int_tensor((1, 2, 4, 4)), int_tensor((1, 2, 5, 5))
    result = functional.adaptive_avg_pool2d(even, 3)
    assert result.scale == even.scale / 4
    assert result.is_valid
    expected = functional.adaptive_avg_pool2d(uneven.value, 3)
    assert plain(functional.adaptive_avg_pool2d(uneven, 3), expected)


def test_metadata_along_what_is_pooled_is_plain():
    """A scale for each column does not survive a pool over columns."""
    x = int_tensor((1, 2, 4, 4), scale=torch.tensor([0.5, 0.25, 1.0, 2.0]))
    assert plain(functional.avg_pool2d(x, 2), functional.avg_pool2d(x.value, 2))
    expected = functional.adaptive_avg_pool2d(x.value, 2)
    assert plain(functional.adaptive_avg_pool2d(x, 2), expected)
    assert isinstance(functional.avg_pool2d(x, (2, 1)), torch.Tensor)


@pytest.mark.parametrize(
    ("pool", "adaptive", "shape"),
    [
        (functional.avg_pool1d, functional.adaptive_avg_pool1d, (2, 6)),
        (functional.avg_pool2d, functional.adaptive_avg_pool2d, (2, 6, 6)),
        (functional.avg_pool3d, functional.adaptive_avg_pool3d, (2, 4, 6, 6)),
    ],
    ids=["1", "2", "3"],
)
@pytest.mark.parametrize("batch", [(3,), ()], ids=["batch", "single"])
def test_every_number_of_dimensions(pool, adaptive, shape, batch):
    """One to three dimensions, with and without a batch, by position and by name."""
    x = int_tensor((*batch, *shape), zero_point=3)
    for result, expected in (
        (pool(x, 2), pool(x.value, 2)),
        (pool(input=x, kernel_size=2, stride=1), pool(x.value, 2, 1)),
        (pool(x, kernel_size=[2] * (len(shape) - 1)), pool(x.value, 2)),
        (adaptive(x, 2), adaptive(x.value, 2)),
        (adaptive(input=x, output_size=1), adaptive(x.value, 1)),
    ):
        assert isinstance(result, IntQuantTensor)
        assert result.is_valid
        assert torch.equal(result.value, expected)


def test_small_floats_have_no_mean_on_a_grid():
    """The mean of small floats is plain."""
    x = float_tensor((1, 2, 4, 4))
    assert plain(functional.avg_pool2d(x, 2), functional.avg_pool2d(x.value, 2))
