"""QuantConv1d and QuantConv2d: torch's convolutions with quantizers."""

from typing import Any

import torch
from torch import nn

from qconfig.modules.layer import QuantWeightLayer


class _QuantConv(QuantWeightLayer):
    in_channels: int
    out_channels: int
    weight: torch.Tensor

    def _channels(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        spatial = (1,) * (self.weight.dim() - 2)
        return (1, self.in_channels, *spatial), (1, self.out_channels, *spatial)

    def _product(
        self,
        input: torch.Tensor,  # noqa: A002
        weight: torch.Tensor,
        bias: torch.Tensor | None,
    ) -> torch.Tensor:
        convolution: Any = self
        found: torch.Tensor = convolution._conv_forward(input, weight, bias)  # noqa: SLF001
        return found


class QuantConv1d(_QuantConv, nn.Conv1d):
    """A Conv1d whose weight, bias, input and output are rounded when it runs, as configs say.

    Args:
        source: the Conv1d that it takes the place of; parameters and hooks are shared with it.
        weight: config of the weight, or None for none.
        bias: config of the bias; without a bias it is not used.
        input: config of the input.
        output: config of the output.
        return_quant_tensor: whether the output keeps its metadata.

    Raises:
        BuildError: a config cannot serve what it is for.
    """


class QuantConv2d(_QuantConv, nn.Conv2d):
    """A Conv2d with quantizers; arguments are those of QuantConv1d."""
