"""Layouts of NVFP4, current versions. Retired ones lie in `qconfig.migrations`."""

from attrs import frozen

from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import TensorValue
from qconfig.errors import LayoutError
from qconfig.layouts.block_scaled import check_block_scale, logical_shape
from qconfig.layouts.shown_dtype import check_shown_dtype
from qconfig.versioning import Layout, attribute, register_layout, register_value, tensor

BLOCK = 16
"""Elements of a block: the format has no other."""


@register_value("QuantizeTensorToNVFP4Kwargs")
@frozen
class QuantizeTensorToNVFP4Kwargs:
    """Dynamic NVFP4 quantization of activations, as torchao's class of that name since 0.13."""

    block_size: int = attribute(
        "Elements of a row that share a scale.", default=BLOCK, minimum=BLOCK, maximum=BLOCK
    )
    is_swizzled_scales: bool = attribute(
        "Whether torchao rearranges the activation's scales into tiles.",
        default=False,
        incidental=True,
    )
    use_triton_kernel: bool = attribute("Whether torchao uses its Triton kernel.", default=False)
    use_dynamic_per_tensor_scale: bool = attribute(
        "Whether the second scale follows the largest activation of each call; otherwise it is "
        "act_per_tensor_scale of the weight, or 1.",
        default=False,
    )


@register_layout("NVFP4TensorLayout", 4)
@frozen
class NVFP4TensorLayout(Layout):
    """E2M1 codes with an e4m3 scale per 16 of a row: torchao's NVFP4Tensor since 0.16.

    A value is `code * (per_tensor_scale * scale)`. Codes lie two in a byte, the first in the low
    four bits. With `rounds_scales`, per_tensor_scale and its product with a block scale are rounded
    to `dtype` first, and the product of the second scales of weight and activation to the
    activation's type.
    """

    qdata: TensorValue = tensor("Codes, two a byte: (N, K/2).", "uint8", "*B _ _")
    scale: TensorValue = tensor(
        "Scales of the blocks, (N, K/16), or tiles of them if swizzled.",
        "float8_e4m3fn",
        "*B _ _",
    )
    block_size: int = attribute(
        "Elements of a row that share a scale.", minimum=BLOCK, maximum=BLOCK
    )
    dtype: DType = attribute(
        "Element type that the tensor shows and dequantizes to.", converter=DType.parse
    )
    per_tensor_scale: TensorValue | None = tensor(
        "Second scale: one entry, or one for each matrix, (B, 1, 1).",
        "float32",
        "*P",
        default=None,
    )
    act_per_tensor_scale: TensorValue | None = tensor(
        "Static second scale of the activation, one entry.", "float32", "*A", default=None
    )
    is_swizzled_scales: bool = attribute(
        "Whether scales lie in the 128 x 4 tiles of NVIDIA's block-scaled products.",
        default=False,
        kw_only=True,
        incidental=True,
    )
    use_triton_kernel: bool = attribute(
        "Whether torchao uses its Triton kernel.", default=False, kw_only=True
    )
    act_quant_kwargs: QuantizeTensorToNVFP4Kwargs | None = attribute(
        "How the activation is quantized; null leaves it as it is.", default=None, kw_only=True
    )
    rounds_scales: bool = attribute(
        "Whether per_tensor_scale and its products are rounded to dtype, as by torchao up to 0.17 "
        "where it has no dimensions; else they are float32.",
        default=False,
        kw_only=True,
        added=True,
        incidental=True,
    )

    @property
    def shape(self) -> tuple[int, ...]:
        """Logical shape: two elements a byte along the dimension of the blocks."""
        scale = None if self.is_swizzled_scales else tuple(self.scale.shape)
        return logical_shape(tuple(self.qdata.shape), scale, self.block_size)

    def check_relations(self) -> None:
        """Check that each block has a scale and second scales have one entry a matrix.

        Raises:
            LayoutError: naming the field.
        """
        check_shown_dtype(self.dtype)
        shape = self.shape
        check_block_scale(shape, tuple(self.scale.shape), self.block_size, self.is_swizzled_scales)
        check_second_scales(shape, self.per_tensor_scale, self.act_per_tensor_scale)


def check_second_scales(
    shape: tuple[int, ...], weight: TensorValue | None, activation: TensorValue | None
) -> None:
    """Check that second scales have one entry, or the weight's one for each matrix.

    Args:
        shape: logical shape of the weight.
        weight: its `per_tensor_scale`, or None.
        activation: its `act_per_tensor_scale`, or None.

    Raises:
        LayoutError: naming the field.
    """
    each = (*shape[:-2], 1, 1)
    found = () if weight is None else tuple(weight.shape)
    if set(found) - {1} and found != each:
        raise _wrong_second("per_tensor_scale", found, f"one entry, or shape {each}")
    found = () if activation is None else tuple(activation.shape)
    if set(found) - {1}:
        raise _wrong_second("act_per_tensor_scale", found, "one entry")


def _wrong_second(name: str, found: tuple[int, ...], expected: str) -> LayoutError:
    return LayoutError(
        f"{name} has a wrong shape", pointer=f"/{name}", found=found, expected=expected
    )
