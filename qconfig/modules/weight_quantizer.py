"""The quantizer of a weight: what is learned of its scale, zero point and bit width."""

from typing import Any

import torch
from torch import nn

from qconfig.configs.quant_choices import LEARNED_SCALES, LEARNED_ZERO_POINTS, ScaleKind
from qconfig.errors import BuildError
from qconfig.modules.learned_bits import learned_bits, used_bits
from qconfig.modules.made_tensors import made_tensor, rounded_values
from qconfig.modules.recorded_config import RecordsConfig, own_part
from qconfig.tensors.quantizers import first_threshold, first_zero_point, quantize_weight


class WeightQuantizer(RecordsConfig):
    """Rounds a weight as a config says, and holds what is learned.

    Learned thresholds and zero points begin with the statistics of the weight that the quantizer
    is made for, and are state from then on: there is no first forward that would change them.
    `restart` takes the statistics of another weight.

    Args:
        config: an Int-, Float- or groupwise config; those of input, output and bias are not read.
        weight: floating point.

    Attributes:
        threshold: the learned threshold, as Brevitas stores it, of the shape of the scales; None
            where it is not learned.
        zero_point: the learned depth below 0, of the shape of the scales, or None.
        bit_width: the learned bit width, 0-d, or None.

    Raises:
        BuildError: the scale is one from outside.
    """

    threshold: nn.Parameter | None
    zero_point: nn.Parameter | None
    bit_width: nn.Parameter | None

    def __init__(self, config: Any, weight: torch.Tensor) -> None:
        super().__init__(own_part(config))
        if config.scale_kind is ScaleKind.EXTERNAL:
            raise BuildError(
                "a weight has no scale from outside",
                pointer="/scale_kind",
                found=config.scale_kind.value,
                expected="any other kind",
            )
        threshold, zero_point = self._start(weight)
        self.register_parameter("threshold", _parameter(threshold))
        self.register_parameter("zero_point", _parameter(zero_point))
        self.register_parameter("bit_width", learned_bits(config, weight))

    def _start(self, weight: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        config, values = self.recorded, weight.detach()
        learns_zero = getattr(config, "zero_point_kind", None) in LEARNED_ZERO_POINTS
        return (
            first_threshold(values, config) if config.scale_kind in LEARNED_SCALES else None,
            first_zero_point(values, config) if learns_zero else None,
        )

    @torch.no_grad()
    def restart(self, weight: torch.Tensor) -> None:
        """Set what is learned to what it would begin with for a weight; parameters stay the same.

        Args:
            weight: floating point, of the shape that the quantizer was made for.
        """
        for known, value in zip(
            (self.threshold, self.zero_point), self._start(weight), strict=True
        ):
            if known is not None and value is not None:
                known.copy_(value)
        if self.bit_width is not None:
            self.bit_width.fill_(float(self.recorded.bit_width))

    def forward(self, weight: torch.Tensor, *, wrap: bool = True) -> Any:
        """Return the quant tensor of a weight, with gradients to it and to what is learned.

        Args:
            weight: floating point, of the shape that the quantizer was made for.
            wrap: if not, return a `Rounded`.
        """
        config = self.recorded
        bits = used_bits(config, self.bit_width)
        found = quantize_weight(
            weight,
            config,
            threshold=self.threshold,
            zero_point=self.zero_point,
            bit_width=bits,
        )
        if not wrap:
            return rounded_values(config, found, weight.shape)
        return made_tensor(config, found, weight.shape, training=self.training, bit_width=bits)


def _parameter(value: torch.Tensor | None) -> nn.Parameter | None:
    return None if value is None else nn.Parameter(value)
