"""FloatxTensorLayout: torchao's weights of 3 to 7 bits for tensor cores (FP6-LLM), and unpacked.

| ours | torchao | what was new |
|---|---|---|
| 1 | 0.5 to 0.15, FpxTensorCoreAQTLayout, later FloatxTensorCoreAQTTensorImpl | – |
| 2 | none | one code a byte, in rows |

In version 1 codes are cut into a part of 1, one of 2 and one of 4 bits, as their number of bits
needs, the highest bits in the first part; the parts follow one another. A part has a 32-bit
little-endian word for 32, 16 or 8 codes of a lane, lanes side by side. A lane holds two
neighbours of each 8 x 8 tile. Source: FP6-LLM, arXiv 2401.14112, and its `weight_prepacking.h`.
"""

from functools import partial
from typing import TYPE_CHECKING, Any

from attrs import frozen

from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import TensorValue
from qconfig.errors import LayoutError
from qconfig.layouts.floatx import FloatxTensorLayout
from qconfig.versioning import Layout, attribute, migration, register_layout, tensor

if TYPE_CHECKING:
    import torch

_SHOWN = (DType.FLOAT16, DType.BFLOAT16, DType.FLOAT32, DType.FLOAT64)
_TILE = 64
_LANES = 32
_ORDER = (1, 3, 0, 2)
"""From the high end of a word: codes 1, 5, 9, ..., then those with these remainders modulo 4."""


@register_layout("FloatxTensorLayout", 1)
@frozen
class FloatxTensorLayoutV1(Layout):
    """Codes of small floating-point types in the order of tensor cores, with a scale for each row.

    The block_size that torchao kept beside them says nothing: it is (N, 1).
    """

    packed_floatx_data: TensorValue = tensor(
        "Codes in the order of tensor cores, (N, K * bits / 8).", "uint8", "N _"
    )
    scale: TensorValue = tensor("One scale a row.", "float", "N")
    ebits: int = attribute("Bits of the exponent.", minimum=1, maximum=6)
    mbits: int = attribute("Bits of the mantissa.", minimum=0, maximum=5)
    dtype: DType = attribute("Element type that the tensor shows.", converter=DType.parse)

    @property
    def bits(self) -> int:
        """Bits of a code."""
        return 1 + self.ebits + self.mbits

    @property
    def shape(self) -> tuple[int, ...]:
        """Logical shape."""
        rows, stored = self.packed_floatx_data.shape
        return rows, stored * 8 // self.bits

    def check_relations(self) -> None:
        """Check the number of bits, and that rows and columns are multiples of 64."""
        if self.dtype not in _SHOWN:
            raise LayoutError(
                "dtype is not a floating-point type",
                pointer="/dtype",
                found=self.dtype.value,
                expected="float16, bfloat16, float32 or float64",
            )
        if self.bits > 7:
            raise LayoutError(
                f"mbits has a wrong size for {self.ebits} bits of exponent",
                pointer="/mbits",
                found=self.mbits,
                expected="7 bits or fewer, with the sign",
            )
        rows, stored = self.packed_floatx_data.shape
        if rows % _TILE or stored % (_TILE // 8 * self.bits):
            raise LayoutError(
                f"packed_floatx_data has a wrong size for codes of {self.bits} bits",
                pointer="/packed_floatx_data",
                found=(rows, stored),
                expected=f"{_TILE} rows and {_TILE // 8 * self.bits} bytes, or multiples of these",
            )


@migration()
def unpack_tensor_core_order(old: FloatxTensorLayoutV1) -> FloatxTensorLayout:
    """Put the codes into rows, one a byte."""
    codes: Any = old.packed_floatx_data
    scale: Any = old.scale
    rows, columns = old.shape
    unpacked = partial(_unpacked, bits=old.bits, columns=columns)
    return FloatxTensorLayout(
        codes.spread(unpacked, shape=(rows, columns), together=_TILE),
        scale.reshape(rows, 1),
        old.ebits,
        old.mbits,
        old.dtype,
    )


def _unpacked(
    first: int, stop: int, packed: "torch.Tensor", *, bits: int, columns: int
) -> "torch.Tensor":
    """Return the codes of some rows, (stop - first, K), of all that are packed."""
    import torch

    rows = packed.shape[0]
    result = torch.zeros((stop - first, columns), dtype=torch.uint8, device=packed.device)
    flat, start, left = packed.reshape(-1), 0, bits
    for width in (1, 2, 4):
        if not bits & width:
            continue
        end = start + rows * columns * width // 8
        left -= width
        parts = flat[start:end].view(rows // _TILE, _TILE * columns * width // 8)
        for row in range(first, stop, _TILE):
            band = _band(parts[row // _TILE], width)
            result[row - first : row - first + _TILE] |= band << left
        start = end
    return result


def _band(part: "torch.Tensor", width: int) -> "torch.Tensor":
    """Return a part of the bits of 64 rows, (64, K)."""
    import torch

    per_word = 32 // width
    order = [i for residue in _ORDER for i in range(residue, per_word, 4)]
    shifts = torch.tensor([32 - width * (order.index(i) + 1) for i in range(per_word)])
    words = part.view(-1, 4).to(torch.int32)
    words = (words << torch.arange(0, 32, 8, dtype=torch.int32)).sum(1, dtype=torch.int32)
    codes = (words.view(-1, _LANES, 1) >> shifts.to(torch.int32)) & ((1 << width) - 1)
    lanes = codes.to(torch.uint8).transpose(0, 1)
    # row, pair of columns | 16 columns, 16 rows, 8 columns, 8 rows, column of the pair
    tiles = lanes.reshape(8, 4, -1, 4, 2, 2, 2)
    return tiles.permute(3, 5, 0, 2, 4, 1, 6).reshape(_TILE, -1)
