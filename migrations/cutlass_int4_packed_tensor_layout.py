"""CutlassInt4PackedTensorLayout: signed int4 codes, two a byte, one scale a row.

| ours | torchao |
|---|---|
| 1 | 0.9 to 0.15, AffineQuantizedTensor with Int4PackedTensorImpl |

It ends in IntxUnpackedToInt8TensorLayout. Around it lay a LinearActivationQuantizedTensor, whose
function is `activation_quantization` here:

| function | activation_quantization |
|---|---|
| _int4_symm_cutlass_quant, _int4_symm_per_token_quant_cutlass (0.9) | INT4_SYM_PER_TOKEN |
| _int8_symm_cutlass_quant | INT8_SYM_PER_TOKEN |

_int8_symm_per_token_reduced_range_quant_cutlass (0.9) has codes from -127 to 127, which no
activation_quantization says.

A value is `code * scale`, in float32 and rounded once, as `dequantize` of the writing releases.
"""

from typing import TYPE_CHECKING, Any

from attrs import frozen

from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import TensorValue
from qconfig.configs.supported import choice_of
from qconfig.errors import LayoutError
from qconfig.layouts.blocks import scale_shape
from qconfig.layouts.intx import ActivationQuantization, IntxUnpackedToInt8TensorLayout
from qconfig.migrations.int4_groups import check_shown
from qconfig.versioning import Layout, attribute, migration, register_layout, tensor

if TYPE_CHECKING:
    import torch


@register_layout("CutlassInt4PackedTensorLayout", 1)
@frozen
class CutlassInt4PackedTensorLayoutV1(Layout):
    """AffineQuantizedTensor with Int4PackedTensorImpl: the even column in a byte's low half."""

    int_data: TensorValue = tensor("Codes, -8 to 7, two a byte: (N, K/2).", "int8", "N _")
    scale: TensorValue = tensor("One scale a row: (N,).", "float", "*S")
    block_size: tuple[int, ...] = attribute(
        "Elements that share a scale, along each dimension.", min_length=2
    )
    dtype: DType = attribute("Element type that the tensor shows.", converter=DType.parse)
    activation_quantization: ActivationQuantization | None = attribute(
        "How the activation is quantized; null leaves it as it is.",
        default=None,
        converter=choice_of(ActivationQuantization),
        kw_only=True,
    )

    @property
    def shape(self) -> tuple[int, ...]:
        """(N, K)."""
        rows, half = self.int_data.shape
        return rows, 2 * half

    def check_relations(self) -> None:
        """Check that there are as many scales as blocks, ones aside, and the type."""
        check_shown(self.dtype)
        expected = scale_shape(self.shape, self.block_size)
        found = tuple(self.scale.shape)
        if [n for n in found if n != 1] != [n for n in expected if n != 1]:
            raise LayoutError(
                "scale has a wrong shape for its blocks",
                pointer="/scale",
                found=found,
                expected=f"shape {expected}, ones aside",
            )


@migration()
def halves_to_codes(old: CutlassInt4PackedTensorLayoutV1) -> IntxUnpackedToInt8TensorLayout:
    """Give each code a byte; scales get their dimensions back."""
    codes: Any = old.int_data
    scale: Any = old.scale
    return IntxUnpackedToInt8TensorLayout(
        codes.map(_unpacked, shape=old.shape, by_rows=1),
        scale.reshape(*scale_shape(old.shape, old.block_size)),
        DType.INT4,
        old.block_size,
        old.dtype,
        activation_quantization=old.activation_quantization,
    )


def _unpacked(packed: "torch.Tensor") -> "torch.Tensor":
    import torch

    return torch.stack((packed << 4 >> 4, packed >> 4), -1).flatten(-2)
