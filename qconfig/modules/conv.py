"""QuantConv1d and QuantConv2d: torch's convolutions with quantizers."""

from typing import Any

import torch
from torch import nn

from qconfig.modules.layer import QuantWeightLayer
from qconfig.tensors.fake_quantized import adopt
from qconfig.versioning import Config


class _QuantConv(QuantWeightLayer):
    def __init__(
        self,
        source: Any,
        *,
        weight: Config | None = None,
        bias: Config | None = None,
        input: Config | None = None,  # noqa: A002
        output: Config | None = None,
        return_quant_tensor: bool = False,
    ) -> None:
        nn.Module.__init__(self)
        adopt(self, source)
        spatial = (1,) * (source.weight.dim() - 2)
        self._init_quantizers(
            weight=weight,
            bias=bias,
            inputs=(input, (1, source.in_channels, *spatial)),
            outputs=(output, (1, source.out_channels, *spatial)),
            return_quant_tensor=return_quant_tensor,
        )

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
