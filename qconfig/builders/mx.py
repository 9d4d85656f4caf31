"""Builder of the MX family."""

from functools import partial
from typing import TYPE_CHECKING

from qconfig.builders.base import Target, register_builder
from qconfig.builders.weights import LINEAR, served_target, weight_refusal
from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import TensorSpec
from qconfig.configs.mx import MXDynamicActivationMXWeightConfig
from qconfig.errors import FieldError
from qconfig.layouts.mx import (
    LEAST_PACKED_BLOCK,
    MXElementType,
    MXTensorLayout,
    QuantizeTensorToMXKwargs,
)

if TYPE_CHECKING:
    import torch

_LEAST_BLOCK = 2


@register_builder(MXDynamicActivationMXWeightConfig)
class MXBuilder:
    """Quantizes weights of Linear and matrices of experts stacked in rank 3.

    Scales lie row by row, where torchao's are in tiles: views of rows work, and a kernel that
    wants tiles gets them when it runs.
    """

    def refusal(self, config: MXDynamicActivationMXWeightConfig, target: Target) -> str | None:
        """Return why this parameter cannot become an MXTensor, or None.

        A block size that does not divide K is no refusal but an error of `layout`.
        """
        return weight_refusal(target, "MX", modules=LINEAR)

    def layout(self, config: MXDynamicActivationMXWeightConfig, target: Target) -> MXTensorLayout:
        """Return the layout that `build` would give, with specs in place of tensors.

        Raises:
            FieldError: the block size does not divide K, or is 1, or 2 for fp4.
        """
        element = MXElementType(config.weight_dtype.value)
        *leading, columns = target.shape
        _check_block(config.block_size, columns, element)
        stored = columns // 2 if element.is_packed else columns
        return MXTensorLayout(
            TensorSpec(DType(element.stored), (*leading, stored)),
            TensorSpec(DType.FLOAT8_E8M0FNU, (*leading, columns // config.block_size)),
            element,
            config.block_size,
            target.dtype,
            kernel_preference=config.kernel_preference,
            act_quant_kwargs=_activation(config),
        )

    def rows_together(self, config: MXDynamicActivationMXWeightConfig, target: Target) -> int:
        """Return how many rows go together, see `BuildsByRows`."""
        return 1

    def build(
        self, config: MXDynamicActivationMXWeightConfig, weight: "torch.Tensor"
    ) -> "torch.Tensor":
        """Return the weight as an MXTensor.

        Args:
            config: element types, block size and how scales are rounded.
            weight: (N, K) or (B, N, K), float16, bfloat16, float32 or float64.

        Raises:
            BuildError: another type or rank, or values that are not finite.
            FieldError: the block size does not divide K, or is 1, or 2 for fp4.
        """
        from qconfig.tensors.mx import MXTensor
        from qconfig.tensors.mx_quantize import quantize_mx

        target = served_target(weight, "MX", partial(self.refusal, config))
        element = MXElementType(config.weight_dtype.value)
        _check_block(config.block_size, target.shape[-1], element)
        codes, scale = quantize_mx(weight, element, config.block_size, config.scaling_mode)
        return MXTensor.from_fields(
            codes,
            scale,
            element,
            config.block_size,
            target.dtype,
            kernel_preference=config.kernel_preference,
            act_quant_kwargs=_activation(config),
        )


def _activation(config: MXDynamicActivationMXWeightConfig) -> QuantizeTensorToMXKwargs:
    return QuantizeTensorToMXKwargs(
        MXElementType(config.activation_dtype.value),
        config.block_size,
        config.scaling_mode,
        config.kernel_preference,
    )


def _check_block(block_size: int, columns: int, element: MXElementType) -> None:
    least = LEAST_PACKED_BLOCK if element.is_packed else _LEAST_BLOCK
    if block_size < least or columns % block_size or columns % 2:
        raise FieldError(
            "block_size does not divide the last dimension",
            pointer="/block_size",
            found=block_size,
            expected=f"a divisor of K = {columns} from {least}, and K even",
        )
