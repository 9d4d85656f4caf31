"""Builder of int4 weights in groups, with activations quantized to int8 token by token."""

from typing import TYPE_CHECKING

from qconfig.builders.base import Target, register_builder
from qconfig.builders.intx import Int8DynamicActivationIntxWeightBuilder
from qconfig.codec.dtypes import DType
from qconfig.configs.granularity import PerGroup
from qconfig.configs.int8_int4 import Int8DynamicActivationInt4WeightConfig
from qconfig.configs.intx import Int8DynamicActivationIntxWeightConfig
from qconfig.layouts.intx import IntxUnpackedToInt8TensorLayout

if TYPE_CHECKING:
    import torch


def as_intx(
    config: Int8DynamicActivationInt4WeightConfig,
) -> Int8DynamicActivationIntxWeightConfig:
    """Return the config of the intx family that builds the same tensors."""
    return Int8DynamicActivationIntxWeightConfig(
        weight_dtype=DType.INT4,
        weight_granularity=PerGroup(config.group_size),
        weight_mapping_type=config.mapping_type,
        weight_scale_dtype=config.weight_scale_dtype,
        act_mapping_type=config.act_mapping_type,
    )


@register_builder(Int8DynamicActivationInt4WeightConfig)
class Int8DynamicActivationInt4WeightBuilder:
    """Quantizes weights of Linear to what torchao calls 8da4w, one code an int8.

    torchao 0.4 to 0.16 built codes of int4 in an AffineQuantizedTensor; codes, scales and zero
    points are the same wherever a scale is at least the epsilon of its type, to which those
    releases raised it.
    """

    def refusal(self, config: Int8DynamicActivationInt4WeightConfig, target: Target) -> str | None:
        """Return why this parameter cannot become an IntxUnpackedToInt8Tensor, or None."""
        return _INTX.refusal(as_intx(config), target)

    def layout(
        self, config: Int8DynamicActivationInt4WeightConfig, target: Target
    ) -> IntxUnpackedToInt8TensorLayout:
        """Return the layout that `build` would give, with specs in place of tensors.

        Raises:
            FieldError: the group size does not divide K.
        """
        return _INTX.layout(as_intx(config), target)

    def rows_together(self, config: Int8DynamicActivationInt4WeightConfig, target: Target) -> int:
        """Return how many rows go together, see `BuildsByRows`."""
        return _INTX.rows_together(as_intx(config), target)

    def build(
        self, config: Int8DynamicActivationInt4WeightConfig, weight: "torch.Tensor"
    ) -> "torch.Tensor":
        """Return the weight as an IntxUnpackedToInt8Tensor.

        Args:
            config: the scheme.
            weight: (N, K), float16, bfloat16, float32 or float64.

        Raises:
            BuildError: another type or rank, or values that are not finite.
            FieldError: as `layout`.
        """
        return _INTX.build(as_intx(config), weight)

    def build_with_qparams(
        self,
        config: Int8DynamicActivationInt4WeightConfig,
        weight: "torch.Tensor",
        scale: "torch.Tensor",
        zero_point: "torch.Tensor | None",
    ) -> "torch.Tensor":
        """Return the weight in given codes; see `IntxWeightOnlyBuilder.build_with_qparams`."""
        return _INTX.build_with_qparams(as_intx(config), weight, scale, zero_point)


_INTX = Int8DynamicActivationIntxWeightBuilder()
