"""Builder of the int8 weight-only family."""

from typing import TYPE_CHECKING

from qconfig.builders.base import Target, register_builder
from qconfig.builders.weights import weight_refusal
from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import TensorSpec
from qconfig.configs.int8 import Int8WeightOnlyConfig
from qconfig.errors import BuildError
from qconfig.layouts.blocks import scale_shape
from qconfig.layouts.int8 import Int8TensorLayout

if TYPE_CHECKING:
    import torch


@register_builder(Int8WeightOnlyConfig)
class Int8WeightOnlyBuilder:
    """Quantizes weights of Linear and Embedding, and matrices of experts stacked in rank 3."""

    def refusal(self, config: Int8WeightOnlyConfig, target: Target) -> str | None:
        """Return why this parameter cannot become an Int8Tensor, or None.

        A granularity that does not fit the shape is no refusal but an error of `layout`: a group
        size that does not divide K is a mistake, and skipping the weight would hide it.
        """
        return weight_refusal(target, "int8")

    def layout(self, config: Int8WeightOnlyConfig, target: Target) -> Int8TensorLayout:
        """Return the layout that `build` would give, with specs in place of tensors.

        Raises:
            FieldError: the granularity does not fit the shape.
        """
        block = config.granularity.block_of(target.shape)
        scale = TensorSpec(DType.FLOAT32, scale_shape(target.shape, block))
        return Int8TensorLayout(TensorSpec(DType.INT8, target.shape), scale, block, target.dtype)

    def build(self, config: Int8WeightOnlyConfig, weight: "torch.Tensor") -> "torch.Tensor":
        """Return the weight as an Int8Tensor without zero points.

        Args:
            config: the granularity.
            weight: (N, K) or (B, N, K), float16, bfloat16, float32 or float64.

        Raises:
            BuildError: another type or rank, or values that are not finite.
            FieldError: the granularity does not fit the shape.
        """
        from qconfig.tensors.int8 import Int8Tensor
        from qconfig.tensors.int8_quantize import quantize_int8

        shape = tuple(weight.shape)
        reason = self.refusal(config, Target("", shape, DType.parse(weight.dtype), named=True))
        if reason is not None:
            raise BuildError(f"the weight cannot be quantized to int8: {reason}")
        block = config.granularity.block_of(shape)
        codes, scale = quantize_int8(weight, block)
        return Int8Tensor(codes, scale, block, DType.parse(weight.dtype))
