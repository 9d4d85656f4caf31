"""`SketchTensor`: what its values are; all else comes from its base."""

from collections.abc import Mapping
from typing import ClassVar

import torch

from qconfig import MatrixTensor
from qconfig.tensors.geometry import Follows

from .layouts import SketchLayout


class SketchTensor(MatrixTensor):
    """Values are `qdata * scale`."""

    layout_class: ClassVar[type] = SketchLayout
    follows: ClassVar[Mapping[str, Follows]] = {
        "qdata": Follows.SAME,
        "scale": Follows.NOTHING,
    }

    def dequantize(self, dtype: torch.dtype | None = None) -> torch.Tensor:
        """Return the values as an ordinary tensor."""
        return (self.qdata * self.scale).to(dtype or self.dtype)
