"""Layout of NF4 weights (QLoRA), the same in every release of torchao."""

from math import prod

from attrs import frozen

from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import TensorValue
from qconfig.errors import LayoutError
from qconfig.layouts.shown_dtype import check_shown_dtype
from qconfig.versioning import Layout, attribute, register_layout, tensor

_SIZE = 2**31 - 1


@register_layout("NF4TensorLayout", 1)
@frozen
class NF4TensorLayout(Layout):
    """Codes of 4 bits into a table, with scales that are quantized too: torchao's NF4Tensor.

    Codes and scales run over all elements in order, rows one after the other. A value is
    `nf4[code] * (quantized_scalers / quantization_factor + scaler_mean)`. Source: QLoRA,
    arXiv 2305.14314, section 3.
    """

    quantized_data: TensorValue = tensor(
        "Codes, two a byte, the first in the high four bits.", "uint8", "_"
    )
    quantized_scalers: TensorValue = tensor("One int8 scale a block.", "int8", "_")
    quantization_factor: TensorValue = tensor(
        "One divisor for each scaler_block_size scales.", "float", "_"
    )
    scaler_mean: TensorValue = tensor("What is added to all scales.", "float", "")
    nf4: TensorValue = tensor("What each code means.", "float", "16")
    block_size: int = attribute("Elements that share a scale.", minimum=1, maximum=_SIZE)
    scaler_block_size: int = attribute("Scales that share a divisor.", minimum=1, maximum=_SIZE)
    shape: tuple[int, ...] = attribute("Logical shape.", min_length=2, max_length=2)
    dtype: DType = attribute(
        "Element type that the tensor shows and dequantizes to.", converter=DType.parse
    )

    def check_relations(self) -> None:
        """Check that codes, scales and divisors are as many as the shape needs.

        Raises:
            LayoutError: naming the field.
        """
        check_shown_dtype(self.dtype)
        elements = prod(self.shape)
        if min(self.shape) < 0 or elements % 2 or elements % self.block_size:
            raise LayoutError(
                "block_size does not tile the tensor",
                pointer="/block_size",
                found=self.block_size,
                expected=f"a divisor of the {elements} elements of {self.shape}, an even number",
            )
        blocks = elements // self.block_size
        if blocks % self.scaler_block_size:
            raise LayoutError(
                f"scaler_block_size has a wrong size for {blocks} scales",
                pointer="/scaler_block_size",
                found=self.scaler_block_size,
                expected=f"a divisor of {blocks}",
            )
        for name, expected in (
            ("quantized_data", elements // 2),
            ("quantized_scalers", blocks),
            ("quantization_factor", blocks // self.scaler_block_size),
        ):
            found = tuple(getattr(self, name).shape)
            if found != (expected,):
                raise LayoutError(
                    f"{name} has a wrong size for shape {self.shape}",
                    pointer=f"/{name}",
                    found=found,
                    expected=f"shape {(expected,)}",
                )
