"""QuantEmbedding: `torch.nn.Embedding` with a quantized weight."""

import torch
from torch import nn
from torch.nn import functional

from qconfig.modules.layer import QuantModule, rounded
from qconfig.modules.metadata_cache import plain
from qconfig.modules.weight_quantizer import WeightQuantizer
from qconfig.versioning import Config


class QuantEmbedding(QuantModule, nn.Embedding):
    """An Embedding whose weight is rounded when it runs.

    What `max_norm` scales are the rounded rows that are returned, not the weight.

    Args:
        source: the Embedding that it takes the place of; parameters and hooks are shared with it.
        weight: config of the weight, or None for none.
        return_quant_tensor: whether the output keeps its metadata.

    Raises:
        BuildError: the config cannot serve the weight.
    """

    weight_quant: WeightQuantizer | None

    def __init__(
        self,
        source: nn.Embedding,
        *,
        weight: Config | None = None,
        return_quant_tensor: bool = False,
    ) -> None:
        self._init_from(source, return_quant_tensor=return_quant_tensor)
        self.weight_quant = None if weight is None else WeightQuantizer(weight, self.weight)
        self.train(self.training)

    def quant_weight(self) -> torch.Tensor:
        """Return the quantized weight, or the weight itself where no quantizer is for it."""
        weight: torch.Tensor = self.weight
        return weight if self.weight_quant is None else self.weight_quant(weight)

    def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002
        """Return rows of the rounded weight.

        Args:
            input: indices, integers of any shape.

        Raises:
            QuantTensorError: a quant tensor is to be returned, and the rows have no metadata.
        """
        weight: torch.Tensor = self.weight
        if self.returns_plain:
            weight = rounded(self.weight_quant, weight).value
        else:
            weight = self.quant_weight()
        rows = functional.embedding(
            input,
            weight if self.max_norm is None else plain(weight).clone(),
            self.padding_idx,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.sparse,
        )
        return self.packed_output(rows)

    def missing_metadata(self) -> str:
        """Return what there is instead of metadata, for an error."""
        if self.max_norm is not None:
            return "rows that max_norm scales, which lie on no grid any more"
        return super().missing_metadata()
