"""Builder of NF4 weights."""

from functools import partial
from typing import TYPE_CHECKING

from qconfig.builders.base import Target, register_builder
from qconfig.builders.weights import LINEAR, served_target, weight_refusal
from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import TensorSpec
from qconfig.configs.nf4 import NF4WeightOnlyConfig
from qconfig.errors import FieldError
from qconfig.layouts.nf4 import NF4TensorLayout

if TYPE_CHECKING:
    import torch

_refusal = partial(weight_refusal, what="NF4", modules=LINEAR, ranks=(2,))


@register_builder(NF4WeightOnlyConfig)
class NF4WeightOnlyBuilder:
    """Quantizes weights of Linear. The tensors have no views and no cuts."""

    def refusal(self, config: NF4WeightOnlyConfig, target: Target) -> str | None:
        """Return why this parameter cannot become an NF4Tensor, or None."""
        return _refusal(target)

    def layout(self, config: NF4WeightOnlyConfig, target: Target) -> NF4TensorLayout:
        """Return the layout that `build` would give, with specs in place of tensors.

        Raises:
            FieldError: blocks do not fill the weight, or do not fill groups.
        """
        blocks = _blocks(config, target.shape)
        kind = target.dtype
        return NF4TensorLayout(
            TensorSpec(DType.UINT8, (blocks * config.block_size // 2,)),
            TensorSpec(DType.INT8, (blocks,)),
            TensorSpec(kind, (blocks // config.scaler_block_size,)),
            TensorSpec(kind, ()),
            TensorSpec(kind, (16,)),
            config.block_size,
            config.scaler_block_size,
            target.shape,
            kind,
        )

    def build(self, config: NF4WeightOnlyConfig, weight: "torch.Tensor") -> "torch.Tensor":
        """Return the weight as an NF4Tensor.

        Args:
            config: the scheme.
            weight: (N, K), float16, bfloat16, float32 or float64.

        Raises:
            BuildError: another type or rank, or values that are not finite.
            FieldError: as `layout`.
        """
        from qconfig.tensors.nf4 import NF4Tensor
        from qconfig.tensors.nf4_quantize import quantize_nf4

        target = served_target(weight, "NF4", _refusal)
        _blocks(config, target.shape)
        fields = quantize_nf4(weight, config.block_size, config.scaler_block_size)
        return NF4Tensor.from_fields(
            *fields, config.block_size, config.scaler_block_size, target.shape, target.dtype
        )


def _blocks(config: NF4WeightOnlyConfig, shape: tuple[int, ...]) -> int:
    elements = shape[0] * shape[1]
    if elements % 2 or elements % config.block_size:
        raise FieldError(
            "blocks do not fill the weight",
            pointer="/block_size",
            found=config.block_size,
            expected=f"a divisor of {elements} elements, an even number",
            hint="skip this parameter",
        )
    blocks = elements // config.block_size
    if blocks % config.scaler_block_size:
        raise FieldError(
            "scales do not fill groups",
            pointer="/scaler_block_size",
            found=config.scaler_block_size,
            expected=f"a divisor of {blocks} scales",
            hint="skip this parameter",
        )
    return blocks
