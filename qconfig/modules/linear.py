"""QuantLinear: `torch.nn.Linear` with quantizers."""

import torch
from torch import nn
from torch.nn import functional

from qconfig.modules.layer import QuantWeightLayer


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

    def _channels(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return (1, self.in_features), (1, self.out_features)

    def _product(
        self,
        input: torch.Tensor,  # noqa: A002
        weight: torch.Tensor,
        bias: torch.Tensor | None,
    ) -> torch.Tensor:
        return functional.linear(input, weight, bias)
