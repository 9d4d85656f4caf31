"""Builder of int8 weights, and what it shares with those that quantize activations, too."""

from functools import partial
from typing import TYPE_CHECKING, Any

from qconfig.builders.base import Target, register_builder
from qconfig.builders.weights import served_target, weight_refusal
from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import TensorSpec
from qconfig.configs.granularity import Granularity
from qconfig.configs.int8 import Int8PairGranularity, Int8WeightOnlyConfig
from qconfig.layouts.activation import QuantizeTensorToInt8Kwargs
from qconfig.layouts.blocks import check_qparams, scale_shape
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
        return int8_layout(config.granularity, target)

    def rows_together(self, config: Int8WeightOnlyConfig, target: Target) -> int:
        """Return how many rows go together, see `BuildsByRows`."""
        return config.granularity.block_of(target.shape)[0]

    def build(self, config: Int8WeightOnlyConfig, weight: "torch.Tensor") -> "torch.Tensor":
        """Return the weight as an Int8Tensor without zero points.

        Args:
            config: the granularity.
            weight: (N, K) or (B, N, K), float16, bfloat16, float32 or float64.

        Raises:
            BuildError: another type or rank, or values that are not finite.
            FieldError: the granularity does not fit the shape.
        """
        return build_int8(config.granularity, weight)

    def build_with_qparams(
        self,
        config: Int8WeightOnlyConfig,
        weight: "torch.Tensor",
        scale: "torch.Tensor",
        zero_point: "torch.Tensor | None",
    ) -> "torch.Tensor":
        """Return the weight in codes of scales and zero points that are given.

        Args:
            config: the granularity.
            weight: (N, K) or (B, N, K), floating point.
            scale: floating point, one entry a block.
            zero_point: whole numbers, shaped like `scale`, or None for 0.

        Raises:
            BuildError: as `build`; or a scale that is not positive, a zero point that is no code.
            FieldError: as `build`.
            LayoutError: scale or zero point have not one entry a block.
        """
        return int8_with_qparams(config.granularity, weight, scale, zero_point)


def int8_layout(
    granularity: Int8PairGranularity | Granularity,
    target: Target,
    *,
    reduce_range: bool = False,
    act_quant_kwargs: QuantizeTensorToInt8Kwargs | None = None,
) -> Int8TensorLayout:
    """Return the layout of an int8 weight without zero points, with specs in place of tensors.

    Raises:
        FieldError: the granularity does not fit the shape.
    """
    block = granularity.block_of(target.shape)
    return Int8TensorLayout(
        TensorSpec(DType.INT8, target.shape),
        TensorSpec(DType.FLOAT32, scale_shape(target.shape, block)),
        block,
        target.dtype,
        act_quant_kwargs=act_quant_kwargs,
        reduce_range=reduce_range,
    )


def build_int8(
    granularity: Int8PairGranularity | Granularity,
    weight: "torch.Tensor",
    *,
    reduce_range: bool = False,
    **fields: Any,
) -> "torch.Tensor":
    """Return a weight as an Int8Tensor, with scales chosen from it and further fields as given.

    Raises:
        BuildError: another type or rank, or values that are not finite.
        FieldError: the granularity does not fit the shape.
    """
    from qconfig.tensors.int8 import Int8Tensor
    from qconfig.tensors.int8_quantize import quantize_int8

    block = _checked_block(granularity, weight)
    codes, scale = quantize_int8(weight, block, reduce_range=reduce_range)
    dtype = DType.parse(weight.dtype)
    return Int8Tensor.from_fields(codes, scale, block, dtype, reduce_range=reduce_range, **fields)


def int8_with_qparams(
    granularity: Int8PairGranularity | Granularity,
    weight: "torch.Tensor",
    scale: "torch.Tensor",
    zero_point: "torch.Tensor | None",
    *,
    reduce_range: bool = False,
    **fields: Any,
) -> "torch.Tensor":
    """Return a weight as an Int8Tensor of given scales and zero points.

    Raises:
        BuildError: another type or rank, values that are not finite, a scale that is not positive,
            or a zero point that is no code.
        FieldError: the granularity does not fit the shape.
        LayoutError: scale or zero point have not one entry a block.
    """
    from qconfig.tensors.int8 import Int8Tensor
    from qconfig.tensors.intx_quantize import checked_qparams, quantize_with_qparams

    block = _checked_block(granularity, weight)
    check_qparams(tuple(weight.shape), block, scale, zero_point)
    codes_type = DType.INT7 if reduce_range else DType.INT8
    scale, zero_point = checked_qparams(scale, zero_point, codes_type)
    # What a tensor shares, each of its rows is told.
    rows = (*weight.shape[:-1], scale.shape[-1])
    each = None if zero_point is None else zero_point.expand(rows)
    codes = quantize_with_qparams(weight, scale.expand(rows), each, codes_type)
    return Int8Tensor.from_fields(
        codes,
        scale,
        block,
        DType.parse(weight.dtype),
        zero_point=zero_point,
        reduce_range=reduce_range,
        **fields,
    )


def _checked_block(
    granularity: Int8PairGranularity | Granularity, weight: "torch.Tensor"
) -> tuple[int, ...]:
    target = served_target(weight, "int8", partial(weight_refusal, what="int8"))
    return granularity.block_of(target.shape)
