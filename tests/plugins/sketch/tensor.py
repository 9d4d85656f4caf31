"""`SketchTensor`: linear, and whatever its base gives."""

from typing import Any, ClassVar

import torch

from qconfig import PackedTensor

from .layouts import SketchLayout


class SketchTensor(PackedTensor):
    """Values are `qdata * scale`."""

    layout_class: ClassVar[type] = SketchLayout

    def dequantize(self, dtype: torch.dtype | None = None) -> torch.Tensor:
        """Return the values as an ordinary tensor."""
        return (self.qdata * self.scale).to(dtype or self.dtype)


@SketchTensor.operators.implements_torch(torch.nn.functional.linear)
def linear(activation: Any, weight: Any, bias: Any = None) -> torch.Tensor:
    """Return `activation @ weight.T + bias`."""
    return torch.nn.functional.linear(activation, weight.dequantize(), bias)
