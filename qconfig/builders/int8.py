"""Builder of the int8 weight-only family."""

from typing import TYPE_CHECKING

from qconfig.builders.base import Target, register_builder
from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import TensorSpec
from qconfig.configs.int8 import Int8WeightOnlyConfig
from qconfig.errors import BuildError
from qconfig.layouts.blocks import scale_shape
from qconfig.layouts.int8 import Int8TensorLayout

if TYPE_CHECKING:
    import torch

_MODULES = ("Linear", "Embedding")
_UNSERVED = ("Conv", "_ConvNd", "RNNBase", "Bilinear", "EmbeddingBag", "MultiheadAttention")


@register_builder(Int8WeightOnlyConfig)
class Int8WeightOnlyBuilder:
    """Quantizes weights of Linear and Embedding, and matrices of experts stacked in rank 3."""

    def refusal(self, config: Int8WeightOnlyConfig, target: Target) -> str | None:
        """Return why this parameter cannot become an Int8Tensor, or None.

        Of a Linear or Embedding that is the weight, and any other matrix that a rule names. Of
        module classes that nobody knows, matrices are served where a rule names the module or the
        class, and stacked matrices of rank 3, as experts have them, always. A checkpoint does
        not tell the classes of all its modules; there, patterns are taken at their word.

        A granularity that does not fit the shape is no refusal but an error of `layout`: a group
        size that does not divide K is a mistake, and skipping the weight would hide it.
        """
        rank = len(target.shape)
        if not target.dtype.is_float:
            return f"dtype {target.dtype.value} is not float16, bfloat16, float32 or float64"
        if rank not in (2, 3):
            return f"rank {rank} is not 2 or 3"
        classes = target.module_classes
        if set(classes) & set(_UNSERVED):
            return f"module class {classes[0]} has no int8 product"
        if rank == 2 and classes and not target.named:
            if not set(classes) & set(_MODULES):
                known = ", ".join(_MODULES)
                return f"module class {classes[0]} is not one of {known}, and no rule names it"
            if target.parameter != "weight":
                return f"{target.parameter} is not the weight of {classes[0]}, and no rule names it"
        return None

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
