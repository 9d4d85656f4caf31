"""The builder of the family."""

from typing import Any

from qconfig import register_builder
from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import TensorSpec

from .configs import SketchConfig
from .layouts import SketchLayout


@register_builder(SketchConfig)
class SketchBuilder:
    """`scale = max|w| / (2 ** (bits - 1) - 1)`."""

    def refusal(self, config: SketchConfig, target: Any) -> str | None:
        """Take matrices only."""
        return None if len(target.shape) == 2 else "the weight is not a matrix"

    def layout(self, config: SketchConfig, target: Any) -> SketchLayout:
        """Say what `build` will give."""
        scale = TensorSpec(DType.FLOAT32, (1, 1))
        return SketchLayout(TensorSpec(DType.INT8, target.shape), scale, target.dtype)

    def build(self, config: SketchConfig, weight: Any) -> Any:
        """Quantize a weight."""
        from .tensor import SketchTensor

        largest = 2 ** (config.bits - 1) - 1
        scale = weight.float().abs().amax().clamp(min=1e-30).reshape(1, 1) / largest
        codes = (weight.float() / scale).round().clamp(-largest, largest).char()
        return SketchTensor(codes, scale, DType.parse(weight.dtype))
