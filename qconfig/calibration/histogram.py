"""Histograms of values whose range is not known beforehand, in bounded memory.

Bins are even over `[-reach, reach)`, and `reach` is a power of two, at most twice the largest |x|
so far. When a larger value comes, `reach` doubles and neighbouring bins join, so counts are exact
whatever the order of the values. A value is known to within one bin: at most
`4 / bins` times the largest |x|, for each channel by its own.
"""

import torch

TENSOR_BINS = 4096
"""Bins of one histogram for a whole tensor: an error of at most 1/1024 of the largest |x|."""
CHANNEL_BINS = 1024
"""Bins of each channel's histogram: 1/256 of the channel's largest |x|; 4 KiB a channel."""

_LARGEST_REACH = 2.0**127


class Histogram:
    """Counts of values for each of C channels; C is 1 for a whole tensor.

    Args:
        channels: C.
        bins: an even number.
        device: where the values are.
    """

    def __init__(self, channels: int, bins: int, device: torch.device) -> None:
        self.bins = bins
        self.counts = torch.zeros((channels, bins), dtype=torch.int32, device=device)
        self.reach = torch.zeros(channels, dtype=torch.float32, device=device)

    def widen(self, largest: torch.Tensor) -> None:
        """Make room for values up to `largest`, (C,), float32, finite."""
        fraction, exponent = torch.frexp(largest)
        power = torch.where(fraction > 0.5, exponent, exponent - 1)
        wanted = torch.ldexp(torch.ones_like(largest), power).clamp(max=_LARGEST_REACH)
        wanted = torch.where(largest > 0, wanted, 0.0)
        # Before the first value that is not 0 the reach is 0, and zeros lie where they stay.
        self.reach = torch.where(self.reach > 0, self.reach, wanted)
        while bool((narrow := self.reach < wanted).any()):
            self.counts[narrow] = self._joined(self.counts[narrow])
            self.reach = torch.where(narrow, self.reach * 2, self.reach)

    def _joined(self, counts: torch.Tensor) -> torch.Tensor:
        joined = torch.zeros_like(counts)
        pairs = counts.view(counts.shape[0], -1, 2).sum(2, dtype=counts.dtype)
        quarter = self.bins // 4
        joined[:, quarter : quarter + pairs.shape[1]] = pairs
        return joined

    def add(self, values: torch.Tensor) -> None:
        """Count values, (M, C), for which there is room; (M, anything) where C is 1."""
        channels = self.counts.shape[0]
        rows = values.to(torch.float32) if channels > 1 else values.to(torch.float32).view(-1, 1)
        half = self.bins // 2
        unit = torch.where(self.reach > 0, self.reach, 1.0)
        # Powers of two all of them: nothing is rounded before the floor.
        places = torch.floor(rows / unit * half).to(torch.int64).add_(half)
        places.clamp_(0, self.bins - 1)
        if channels == 1:
            counted = torch.bincount(places.view(-1), minlength=self.bins)
            self.counts += counted.to(self.counts.dtype)
            return
        places += torch.arange(channels, device=places.device) * self.bins
        ones = torch.ones(1, dtype=self.counts.dtype, device=places.device)
        flat = places.reshape(-1)
        self.counts.view(-1).scatter_add_(0, flat, ones.expand(flat.shape[0]))

    @property
    def width(self) -> torch.Tensor:
        """Width of a bin of each channel, (C,)."""
        return self.reach * (2.0 / self.bins)

    def centers(self) -> torch.Tensor:
        """Return the middle of every bin, (C, bins)."""
        steps = torch.arange(self.bins, device=self.counts.device, dtype=torch.float32) + 0.5
        return steps * self.width.unsqueeze(1) - self.reach.unsqueeze(1)

    def quantile(self, share: float) -> torch.Tensor:
        """Return for each channel a value that has `share` of the values at or below it, (C,).

        It lies in the bin of the exact one (numpy's method "inverted_cdf"), interpolated.
        """
        below = self.counts.cumsum(1, dtype=torch.float64)
        target = (below[:, -1:] * share).clamp(min=1.0)
        place = torch.searchsorted(below, target).clamp(max=self.bins - 1)
        count = self.counts.gather(1, place).to(torch.float64).clamp(min=1.0)
        part = ((target - (below.gather(1, place) - count)) / count).clamp(0.0, 1.0)
        steps = (place.to(torch.float64) + part).squeeze(1)
        return (steps * self.width - self.reach).to(torch.float32)
