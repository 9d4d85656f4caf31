import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from qconfig.calibration.histogram import CHANNEL_BINS, TENSOR_BINS, Histogram

CPU = torch.device("cpu")


def filled(parts, bins=64):
    """Return the histogram of parts, (M, C) each, added one after the other."""
    found = Histogram(parts[0].shape[1], bins, CPU)
    for part in parts:
        found.widen(part.abs().amax(0))
        found.add(part)
    return found


def test_order_does_not_matter():
    """Counts are those of the final bins, whether small or large values come first."""
    parts = [torch.randn(100, 3) * scale for scale in (1e-3, 1.0, 250.0, 0.0)]
    for c, histogram in enumerate((filled(parts), filled(parts[::-1]))):
        everything = torch.cat(parts)
        for channel in range(3):
            reach = float(histogram.reach[channel])
            exact, _ = np.histogram(
                everything[:, channel].double().numpy(), bins=64, range=(-reach, reach)
            )
            assert histogram.counts[channel].tolist() == exact.tolist(), c


@given(st.lists(st.floats(-(2.0**100), 2.0**100, width=32), min_size=1, max_size=40), st.randoms())
def test_the_reach_is_a_power_of_two_above_all(numbers, random):
    """The reach is at most twice the largest |x|, and no count is lost."""
    values = torch.tensor(numbers, dtype=torch.float32).reshape(-1, 1)
    random.shuffle(numbers)
    histogram = filled(list(values.split(3)))
    assert int(histogram.counts.sum()) == len(numbers)
    largest = float(values.abs().max())
    reach = float(histogram.reach[0])
    if largest:
        assert math.frexp(reach)[0] == 0.5
        assert largest <= reach <= 2 * largest
    else:
        assert reach == 0


@pytest.mark.parametrize("share", [0.0001, 0.01, 0.5, 0.9, 0.999, 0.9999, 1.0])
@pytest.mark.parametrize(("channels", "bins"), [(1, TENSOR_BINS), (5, CHANNEL_BINS)])
def test_a_quantile_is_within_one_bin(share, channels, bins):
    """The error is at most the documented one: a bin, 4 / bins times the largest |x|."""
    parts = [torch.randn(1000, channels) ** 3 for _ in range(3)]
    everything = torch.cat(parts)
    found = filled(parts, bins).quantile(share)
    for channel in range(channels):
        column = everything[:, channel].double().numpy()
        exact = np.quantile(column, share, method="inverted_cdf")
        bound = 4 / bins * np.abs(column).max()
        assert abs(float(found[channel]) - exact) <= bound


def test_memory_is_bounded():
    """Counts are 32 bits a bin, whatever the number of values."""
    histogram = filled([torch.randn(5000, 2) for _ in range(3)])
    assert histogram.counts.nbytes == 2 * 64 * 4
