"""BlockSparseTensorLayout: int8 codes of which only blocks that are not all 0 are stored.

| ours | torchao |
|---|---|
| 1 | 0.6 to 0.16, AffineQuantizedTensor with BlockSparseAQTTensorImpl (AQTLayout in 0.6) |

It ends in Int8TensorLayout, which stores the zeros: no values change, the kernel does.
"""

from functools import partial
from typing import TYPE_CHECKING, Any

from attrs import frozen

from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import TensorValue
from qconfig.errors import LayoutError, MigrationError
from qconfig.layouts.activation import QuantizeTensorToInt8Kwargs
from qconfig.layouts.blocks import scale_shape
from qconfig.layouts.int8 import Int8TensorLayout
from qconfig.migrations.int4_groups import check_shown
from qconfig.versioning import Layout, attribute, migration, register_layout, tensor

if TYPE_CHECKING:
    import torch

_AT_ONCE = 1 << 10


@register_layout("BlockSparseTensorLayout", 1)
@frozen
class BlockSparseTensorLayoutV1(Layout):
    """AffineQuantizedTensor with BlockSparseAQTTensorImpl: torch's block compressed rows."""

    bsr_values: TensorValue = tensor("Codes of the stored blocks.", "int8", "Z _ _")
    bsr_crow_indices: TensorValue = tensor(
        "Of each row of blocks, the first that is stored, and their number at the end.",
        ("int32", "int64"),
        "_",
    )
    bsr_col_indices: TensorValue = tensor(
        "Of each stored block, its place in its row.", ("int32", "int64"), "Z"
    )
    scale: TensorValue = tensor("One scale a row: (N,).", "float", "*S")
    block_size: tuple[int, ...] = attribute(
        "Elements that share a scale, along each dimension.", min_length=2
    )
    shape: tuple[int, ...] = attribute("Shape that the tensor shows: (N, K).", min_length=2)
    dtype: DType = attribute("Element type that the tensor shows.", converter=DType.parse)
    zero_point: TensorValue | None = tensor(
        "Code of the real value zero, shaped like scale.",
        ("int8", "int32", "int64"),
        "*S",
        default=None,
    )
    act_quant_kwargs: QuantizeTensorToInt8Kwargs | None = attribute(
        "How the activation is quantized; null leaves it as it is.", default=None, kw_only=True
    )

    def check_relations(self) -> None:
        """Check blocks, scales and type."""
        check_shown(self.dtype)
        _, height, width = self.bsr_values.shape
        rows = self.bsr_crow_indices.shape[0] - 1
        whole = len(self.shape) == 2 and height and width and not self.shape[1] % width
        if not whole or self.shape[0] != rows * height:
            raise LayoutError(
                "shape has a wrong size for the blocks",
                pointer="/shape",
                found=self.shape,
                expected=f"{rows} rows of blocks of {height} x {width}",
            )
        expected = scale_shape(self.shape, self.block_size)
        for name in ("scale", "zero_point"):
            value = getattr(self, name)
            if value is None:
                continue
            found = tuple(value.shape)
            if [n for n in found if n != 1] != [n for n in expected if n != 1]:
                raise LayoutError(
                    f"{name} has a wrong shape for its blocks",
                    pointer=f"/{name}",
                    found=found,
                    expected=f"shape {expected}, ones aside",
                )


@migration()
def store_zeros(old: BlockSparseTensorLayoutV1) -> Int8TensorLayout:
    """Store all codes; scales get their dimensions back, zero points become int8."""
    values: Any = old.bsr_values
    scale: Any = old.scale
    zero_point: Any = old.zero_point
    shape = scale_shape(old.shape, old.block_size)
    if zero_point is not None:
        if DType.parse(zero_point.dtype) is not DType.INT8:
            zero_point = zero_point.map(_to_int8, dtype=DType.INT8)
        zero_point = zero_point.reshape(*shape)
    dense = partial(
        _dense, starts=old.bsr_crow_indices, places=old.bsr_col_indices, shape=old.shape
    )
    return Int8TensorLayout(
        values.map(dense, shape=old.shape),
        scale.reshape(*shape),
        old.block_size,
        old.dtype,
        zero_point=zero_point,
        act_quant_kwargs=old.act_quant_kwargs,
    )


def _dense(
    values: "torch.Tensor", *, starts: Any, places: Any, shape: tuple[int, ...]
) -> "torch.Tensor":
    import torch

    stored, height, width = values.shape
    across = shape[1] // width
    first, place = starts.load().to(torch.int64), places.load().to(torch.int64)
    counts = first.diff()
    ends = (int(first[0]), int(first[-1])) == (0, stored)
    if not ends or bool((counts < 0).any()) or bool((counts > across).any()):
        raise MigrationError(
            "bsr_crow_indices does not part the stored blocks into rows",
            pointer="/bsr_crow_indices",
            found=first.tolist()[:16],
            expected=f"from 0 to {stored}, none less than the one before",
        )
    outside = (place < 0) | (place >= across)
    if bool(outside.any()):
        raise MigrationError(
            "bsr_col_indices names a block outside of its row",
            pointer="/bsr_col_indices",
            found=int(place[outside][0]),
            expected=f"0 to {across - 1}",
        )
    result = torch.zeros(shape, dtype=torch.int8)
    blocks = result.view(len(counts), height, across, width)
    rows = torch.arange(len(counts)).repeat_interleave(counts)
    for start in range(0, stored, _AT_ONCE):
        some = slice(start, start + _AT_ONCE)
        blocks[rows[some], :, place[some]] = values[some]
    return result


def _to_int8(zero_point: "torch.Tensor") -> "torch.Tensor":
    import torch

    outside = (zero_point < -128) | (zero_point > 127)
    if bool(outside.any()):
        raise MigrationError(
            "zero_point does not fit int8",
            pointer="/zero_point",
            found=int(zero_point[outside][0]),
            expected="codes from -128 to 127",
        )
    return zero_point.to(torch.int8)
