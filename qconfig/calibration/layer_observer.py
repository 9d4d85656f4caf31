"""Everything that is observed of one layer."""

import torch

from qconfig.builders.layer_calibration import LayerCalibration
from qconfig.calibration.ranges import RangeObserver
from qconfig.calibration.sample import RowSample
from qconfig.codec.dtypes import DType
from qconfig.configs.calibration import CalibrationConfig
from qconfig.errors import BuildError, QconfigError

_CHUNK_ELEMENTS = 1 << 20


class LayerObserver:
    """Statistics of the inputs, and of the outputs if asked for, of one layer with weight (N, K).

    Args:
        name: the layer's, for errors.
        shape: of its weight, (N, K).
        config: what to observe.
    """

    def __init__(self, name: str, shape: tuple[int, int], config: CalibrationConfig) -> None:
        self.name = name
        self.out_features, self.in_features = shape
        self.calls = self.rows = 0
        self._config = config
        self._inputs = RangeObserver.of_input(config)
        self._outputs = RangeObserver.of_output(config)
        self._sample = RowSample(config.sample_rows)
        self._low: torch.Tensor | None = None
        self._high: torch.Tensor | None = None
        self._total: torch.Tensor | None = None

    def see(self, value: torch.Tensor, output: torch.Tensor, batch: int) -> None:
        """Take the input (..., K) and the output (..., N) of one call; neither is kept.

        Args:
            value: the input.
            output: what the layer made of it.
            batch: number of the batch, for errors.

        Raises:
            BuildError: another number of channels, or values that are NaN or infinite, or none.
        """
        if not self.in_features or not self.out_features:
            return
        rows = self._matrix(value, self.in_features, "input", batch)
        if not rows.shape[0]:
            return
        low, high = self._extremes(rows, "input", batch)
        if self._low is None or self._high is None:
            self._low, self._high = low, high
            self._total = torch.zeros_like(low, dtype=torch.float64)
        else:
            self._low = torch.minimum(self._low, low)
            self._high = torch.maximum(self._high, high)
        self._add(self._inputs, rows, low, high, total=self._total)
        self._sample.add(rows)
        if self._outputs is not None:
            made = self._matrix(output, self.out_features, "output", batch)
            self._add(self._outputs, made, *self._extremes(made, "output", batch))
        self.calls += 1
        self.rows += rows.shape[0]

    def result(self) -> LayerCalibration:
        """Return what was observed, on the CPU; an empty one if no row came.

        Raises:
            BuildError: a range too wide for a float32 scale.
        """
        if self._low is None or self._high is None or self._total is None:
            return LayerCalibration()
        scale, zero_point = self._inputs.qparams()
        output = (None, None) if self._outputs is None else self._outputs.qparams()
        absmax = torch.maximum(self._low.abs(), self._high.abs())
        # No mean is larger, also where a sum of float32 overflowed.
        mean = torch.minimum((self._total / self.rows).to(torch.float32), absmax)
        try:
            return LayerCalibration(
                act_scale=_on_cpu(scale),
                act_zero_point=_on_cpu(zero_point),
                output_scale=_on_cpu(output[0]),
                output_zero_point=_on_cpu(output[1]),
                act_min=_on_cpu(self._low),
                act_max=_on_cpu(self._high),
                act_absmax=_on_cpu(absmax),
                act_absmean=_on_cpu(mean),
                act_sample=self._sample.rows(),
                quant_dtype=DType(self._config.quant_dtype),
                reduce_range=self._config.reduce_range,
                rows=self.rows,
            )
        except QconfigError as error:
            raise error.at(fqn=self.name) from None

    def _matrix(self, value: torch.Tensor, channels: int, what: str, batch: int) -> torch.Tensor:
        value = value.detach()
        if value.is_meta:
            raise BuildError(
                f"the {what} of a layer has no values, in batch {batch}",
                fqn=self.name,
                found="the meta device",
                hint="calibrate a model with its weights, on batches with values",
            )
        if not value.dim() or value.shape[-1] != channels or not value.is_floating_point():
            raise BuildError(
                f"the {what} of a layer is not what its weight asks for, in batch {batch}",
                fqn=self.name,
                found=f"{value.dtype} {tuple(value.shape)}",
                expected=f"floating point (..., {channels})",
            )
        return value.reshape(-1, channels)

    def _extremes(
        self, rows: torch.Tensor, what: str, batch: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        low, high = rows.amin(0).to(torch.float32), rows.amax(0).to(torch.float32)
        # Of a row with NaN both are NaN, and infinities are extremes: no second look is needed.
        if not bool((low.isfinite() & high.isfinite()).all()):
            bad = ~rows.to(torch.float32).isfinite()
            row, channel = bad.nonzero()[0].tolist()
            raise BuildError(
                f"the {what} of a layer holds {int(bad.sum())} values that are NaN, infinite or "
                f"beyond float32, the first in batch {batch}, row {row}, channel {channel}",
                fqn=self.name,
                found=rows[row, channel].item(),
                expected="finite values",
                hint="look at the batch, or at the layer before; then calibrate again",
            )
        return low, high

    @staticmethod
    def _add(
        observer: RangeObserver,
        rows: torch.Tensor,
        low: torch.Tensor,
        high: torch.Tensor,
        total: torch.Tensor | None = None,
    ) -> None:
        wants_values = observer.see_call(low, high)
        if total is None and not wants_values:
            return
        step = max(1, _CHUNK_ELEMENTS // rows.shape[1])
        for start in range(0, rows.shape[0], step):
            part = rows[start : start + step]
            if total is not None:
                total += torch.linalg.vector_norm(part, ord=1, dim=0, dtype=_wide(part))
            if wants_values:
                observer.see_values(part)


def _wide(rows: torch.Tensor) -> torch.dtype:
    return torch.promote_types(rows.dtype, torch.float32)


def _on_cpu(value: torch.Tensor | None) -> torch.Tensor | None:
    return None if value is None else value.detach().to("cpu")
