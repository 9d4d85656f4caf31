"""QuantLinear: `torch.nn.Linear` with quantizers."""

import torch
from torch import nn
from torch.nn import functional

from qconfig.modules.layer import QuantWeightLayer
from qconfig.tensors.fake_quantized import adopt
from qconfig.versioning import Config


class QuantLinear(QuantWeightLayer, nn.Linear):
    """A Linear whose weight, bias, input and output are rounded when it runs, as configs say.

    Args:
        source: the Linear that it takes the place of; parameters and hooks are shared with it.
        weight: config of the weight, or None for none.
        bias: config of the bias; without a bias it is not used.
        input: config of the input.
        output: config of the output.
        return_quant_tensor: whether the output keeps its metadata.

    Raises:
        BuildError: a config cannot serve what it is for.
    """

    def __init__(
        self,
        source: nn.Linear,
        *,
        weight: Config | None = None,
        bias: Config | None = None,
        input: Config | None = None,  # noqa: A002
        output: Config | None = None,
        return_quant_tensor: bool = False,
    ) -> None:
        nn.Module.__init__(self)
        adopt(self, source)
        self._init_quantizers(
            weight=weight,
            bias=bias,
            inputs=(input, (1, source.in_features)),
            outputs=(output, (1, source.out_features)),
            return_quant_tensor=return_quant_tensor,
        )

    def _product(
        self,
        input: torch.Tensor,  # noqa: A002
        weight: torch.Tensor,
        bias: torch.Tensor | None,
    ) -> torch.Tensor:
        return functional.linear(input, weight, bias)
