"""Builder of unsigned weights of 1 to 8 bits."""

from functools import partial
from typing import TYPE_CHECKING

from qconfig.builders.base import Target, register_builder
from qconfig.builders.weights import LINEAR, served_target, weight_refusal
from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import TensorSpec
from qconfig.configs.granularity import PerGroup
from qconfig.configs.uintx import UIntxChooseQParamsAlgorithm, UIntxWeightOnlyConfig
from qconfig.layouts.blocks import scale_shape
from qconfig.layouts.uintx import UintxTensorLayout, UintxZeroPointDomain

if TYPE_CHECKING:
    import torch

_refusal = partial(weight_refusal, what="uintx", modules=LINEAR, ranks=(2,))


@register_builder(UIntxWeightOnlyConfig)
class UIntxWeightOnlyBuilder:
    """Quantizes weights of Linear; codes lie one a byte, whatever torchao packs them into."""

    def refusal(self, config: UIntxWeightOnlyConfig, target: Target) -> str | None:
        """Return why this parameter cannot become a UintxTensor, or None."""
        return _refusal(target)

    def layout(self, config: UIntxWeightOnlyConfig, target: Target) -> UintxTensorLayout:
        """Return the layout that `build` would give, with specs in place of tensors.

        Raises:
            FieldError: the group size does not divide K.
        """
        block = _block(config, target.shape)
        blocks = scale_shape(target.shape, block)
        domain = _domain(config)
        zero = target.dtype if domain is UintxZeroPointDomain.FLOAT else DType.INT32
        return UintxTensorLayout(
            TensorSpec(DType.UINT8, target.shape),
            TensorSpec(target.dtype, blocks),
            config.bit_width,
            block,
            target.dtype,
            zero_point=TensorSpec(zero, blocks),
            zero_point_domain=domain,
        )

    def rows_together(self, config: UIntxWeightOnlyConfig, target: Target) -> int:
        """Return how many rows go together.

        The rounds of HQQ end for all rows at once; a scale whose inverse float16 does not hold has
        all rows computed in float32.
        """
        is_hqq = config.algorithm is UIntxChooseQParamsAlgorithm.HQQ
        return 0 if is_hqq or target.dtype is DType.FLOAT16 else 1

    def build(self, config: UIntxWeightOnlyConfig, weight: "torch.Tensor") -> "torch.Tensor":
        """Return the weight as a UintxTensor.

        Args:
            config: the scheme.
            weight: (N, K), float16, bfloat16, float32 or float64.

        Raises:
            BuildError: another type or rank, or values that are not finite.
            FieldError: the group size does not divide K.
        """
        from qconfig.tensors.uintx import UintxTensor
        from qconfig.tensors.uintx_quantize import quantize_uintx

        target = served_target(weight, "uintx", _refusal)
        block = _block(config, target.shape)
        codes, scale, zero_point = quantize_uintx(
            weight, block[-1], config.bit_width, config.algorithm
        )
        return UintxTensor.from_fields(
            codes,
            scale,
            config.bit_width,
            block,
            target.dtype,
            zero_point=zero_point,
            zero_point_domain=_domain(config),
        )


def _block(config: UIntxWeightOnlyConfig, shape: tuple[int, ...]) -> tuple[int, ...]:
    if config.group_size is None:
        return 1, shape[-1]
    return PerGroup(config.group_size).block_of(shape)


def _domain(config: UIntxWeightOnlyConfig) -> UintxZeroPointDomain:
    is_hqq = config.algorithm is UIntxChooseQParamsAlgorithm.HQQ
    return UintxZeroPointDomain.FLOAT if is_hqq else UintxZeroPointDomain.INT
