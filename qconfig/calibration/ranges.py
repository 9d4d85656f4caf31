"""The four observers: which range of the values that pass becomes a scale."""

import torch
from attrs import define, frozen

from qconfig.calibration.histogram import CHANNEL_BINS, TENSOR_BINS, Histogram
from qconfig.codec.dtypes import DType
from qconfig.configs.calibration import CalibrationConfig
from qconfig.configs.choices import MappingType, Observer
from qconfig.configs.granularity import PerAxis
from qconfig.tensors.activation_qparams import choose_activation_qparams, kept

_SHRINKS = 81
_LEAST_SHRINK = 0.2
_SEARCH_ELEMENTS = 1 << 20


@frozen
class Codes:
    """Codes that values become: how they map, of which type, and whether of 7 bits."""

    mapping_type: MappingType
    dtype: DType
    reduce_range: bool

    def qparams(
        self, low: torch.Tensor, high: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return scale and zero point for values from `low` to `high`."""
        return choose_activation_qparams(
            low, high, self.mapping_type, self.dtype, reduce_range=self.reduce_range
        )


@define
class RangeObserver:
    """Finds scale and zero point of the values of one input or output.

    Args:
        config: which observer.
        codes: what values become.
        per_channel: whether each channel has a scale of its own.
    """

    config: CalibrationConfig
    codes: Codes
    per_channel: bool
    low: torch.Tensor | None = None
    high: torch.Tensor | None = None
    histogram: Histogram | None = None

    @classmethod
    def of_input(cls, config: CalibrationConfig) -> "RangeObserver":
        """Return the observer of a layer's input."""
        codes = Codes(config.mapping_type, DType(config.quant_dtype), config.reduce_range)
        return cls(config, codes, isinstance(config.granularity, PerAxis))

    @classmethod
    def of_output(cls, config: CalibrationConfig) -> "RangeObserver | None":
        """Return the observer of a layer's output, or None where outputs are not observed."""
        if config.output_granularity is None:
            return None
        codes = Codes(config.output_mapping_type, DType(config.quant_dtype), config.reduce_range)
        return cls(config, codes, isinstance(config.output_granularity, PerAxis))

    def see_call(self, low: torch.Tensor, high: torch.Tensor) -> bool:
        """Take the range of one call, and say whether its values are wanted too.

        Args:
            low: smallest value of each channel, (C,), float32, finite.
            high: largest value of each channel, (C,).
        """
        if not self.per_channel:
            low, high = low.amin(0, keepdim=True), high.amax(0, keepdim=True)
        if self.low is None or self.high is None:
            self.low, self.high = low, high
        elif self.config.observer is Observer.RUNNING:
            # The form of torch's MovingAverageMinMaxObserver.
            share = 1.0 - self.config.momentum
            self.low = self.low + share * (low - self.low)
            self.high = self.high + share * (high - self.high)
        else:
            self.low, self.high = torch.minimum(self.low, low), torch.maximum(self.high, high)
        if self.config.observer not in (Observer.PERCENTILE, Observer.MSE):
            return False
        if self.histogram is None:
            bins = CHANNEL_BINS if low.shape[0] > 1 else TENSOR_BINS
            self.histogram = Histogram(low.shape[0], bins, low.device)
        self.histogram.widen(torch.maximum(-low, high))
        return True

    def see_values(self, values: torch.Tensor) -> None:
        """Take some of the values of the call, (M, C); only where `see_call` asked for them."""
        if self.histogram is not None:
            self.histogram.add(values)

    def qparams(self) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return scale, float32, and zero point, int8 or None: () for a tensor, (C,) for channels.

        Raises:
            RuntimeError: no call was seen.
        """
        low, high = self._range()
        scale, zero_point = self.codes.qparams(low, high)
        if self.per_channel:
            return scale, zero_point
        return scale[0], None if zero_point is None else zero_point[0]

    @property
    def _counts_all(self) -> bool:
        return self.config.observer is Observer.PERCENTILE and self.config.percentile == 100.0

    def _range(self) -> tuple[torch.Tensor, torch.Tensor]:
        if self.low is None or self.high is None:
            raise RuntimeError("no call was seen")
        if self.histogram is None or self._counts_all:
            return self.low, self.high
        if self.config.observer is Observer.MSE:
            return least_error(self.histogram, self.low, self.high, self.codes)
        upper = self.config.percentile / 100.0
        low = self.histogram.quantile(1.0 - upper)
        high = self.histogram.quantile(upper)
        return torch.maximum(low, self.low), torch.minimum(high, self.high)


def least_error(
    histogram: Histogram, low: torch.Tensor, high: torch.Tensor, codes: Codes
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return, for each channel, the range with the least squared error of quantizing.

    Of the ranges `t * low ... t * high` with t = 1.00, 0.99, ... 0.20 the best is taken, the widest
    of equals; the error is that of the middles of the bins, each as often as its bin counts.

    Args:
        histogram: of the values, C channels.
        low: smallest value of each channel, (C,), float32.
        high: largest value of each channel, (C,).
        codes: what values become.
    """
    centers = torch.minimum(torch.maximum(histogram.centers(), low.unsqueeze(1)), high.unsqueeze(1))
    shrink = torch.empty_like(low)
    # A few channels at a time, so that nothing here is larger than the histogram.
    step = max(1, _SEARCH_ELEMENTS // histogram.bins)
    for start in range(0, low.shape[0], step):
        part = slice(start, start + step)
        shrink[part] = _best_shrink(
            centers[part], histogram.counts[part], low[part], high[part], codes
        )
    return low * shrink, high * shrink


def _best_shrink(
    values: torch.Tensor, counts: torch.Tensor, low: torch.Tensor, high: torch.Tensor, codes: Codes
) -> torch.Tensor:
    # Errors are of values over the largest one, so that squares neither overflow nor vanish.
    unit = torch.maximum(-low, high).clamp(min=torch.finfo(torch.float32).tiny).unsqueeze(1)
    best = torch.ones_like(low)
    least = torch.full_like(low, torch.inf, dtype=torch.float64)
    for t in torch.linspace(1.0, _LEAST_SHRINK, _SHRINKS).tolist():
        scale, zero_point = codes.qparams(low * t, high * t)
        zero = None if zero_point is None else zero_point.unsqueeze(1)
        left = kept(values, scale.unsqueeze(1), zero, codes.dtype, reduce_range=codes.reduce_range)
        error = (((values - left) / unit).square_() * counts).sum(1, dtype=torch.float64)
        better = error < least
        best = torch.where(better, t, best)
        least = torch.where(better, error, least)
    return best
