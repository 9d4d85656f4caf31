"""Int4TilePackedTo4dTensorLayout: int4 codes as fragments of a GPU's matrix instructions.

| ours | torchao | what was new |
|---|---|---|
| 1 | 0.3 to 0.17, AffineQuantizedTensor with TensorCoreTiledAQTTensorImpl (0.6: AQTLayout) | – |
| 2 | 0.14 and later, Int4TilePackedTo4dTensor | act_pre_scale; qdata for packed_weight |

It ends in Int4TensorLayout. Rows are padded to whole tiles and columns to a multiple of 1024;
`shape` says what is not padding. Which device's fragments they are is in no file: NVIDIA's, unless
whoever reads one knows better. A tensor of version 1 that was transposed stays so.

A value is `(q - 8) * scale + zero`. torch's kernel computes it with one bfloat16 fused
multiply-add, this library in float32, rounded to what the tensor shows. The product of a code and a
bfloat16 scale is exact there, so both give the same bfloat16 where the sum takes no more than the
24 bits of float32.
"""

from functools import partial
from typing import TYPE_CHECKING, Any

from attrs import frozen

from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import TensorValue
from qconfig.configs.supported import choice_of
from qconfig.errors import LayoutError
from qconfig.layouts.int4 import Int4TensorLayout
from qconfig.layouts.int4_packing import GpuInt4Order, gpu_pairs, gpu_shape
from qconfig.migrations.int4_groups import check_pairs, check_shown, group_of, int4_layout
from qconfig.versioning import Layout, attribute, migration, register_layout, tensor

if TYPE_CHECKING:
    import torch

_TILE = 8


@register_layout("Int4TilePackedTo4dTensorLayout", 1)
@frozen
class Int4TilePackedTo4dTensorLayoutV1(Layout):
    """AffineQuantizedTensor with TensorCoreTiledAQTTensorImpl: codes packed for a GPU."""

    packed_weight: TensorValue = tensor(
        "Fragments: (N'/8, K'/(16 T), 32, T/2) for inner_k_tiles T.", "int32", "*B _ _ 32 _"
    )
    scale_and_zero: TensorValue = tensor(
        "Scale and zero point of each group: (K'/g, N', 2).", "float", "*B _ _ 2"
    )
    block_size: tuple[int, ...] = attribute(
        "Elements that share a scale, along each dimension of shape.", min_length=2
    )
    shape: tuple[int, ...] = attribute("Shape that the tensor shows: (N, K).", min_length=2)
    dtype: DType = attribute("Element type that the tensor shows.", converter=DType.parse)
    transposed: bool = attribute("Whether shape is (K, N).", default=False, kw_only=True)
    gpu_order: GpuInt4Order = attribute(
        "Order of the words: that of the device that packed them.",
        default=GpuInt4Order.CUDA,
        converter=choice_of(GpuInt4Order),
        kw_only=True,
    )

    def check_relations(self) -> None:
        """Check tiles, groups, shape and type."""
        _check(self, self.packed_weight, "/packed_weight")


@register_layout("Int4TilePackedTo4dTensorLayout", 2)
@frozen
class Int4TilePackedTo4dTensorLayoutV2(Layout):
    """Int4TilePackedTo4dTensor of torchao 0.14 and later: a factor for activations."""

    qdata: TensorValue = tensor(
        "Fragments: (N'/8, K'/(16 T), 32, T/2) for inner_k_tiles T.", "int32", "*B _ _ 32 _"
    )
    scale_and_zero: TensorValue = tensor(
        "Scale and zero point of each group: (K'/g, N', 2).", "float", "*B _ _ 2"
    )
    block_size: tuple[int, ...] = attribute(
        "Elements that share a scale, along each dimension of shape.", min_length=2
    )
    shape: tuple[int, ...] = attribute("Shape that the tensor shows: (N, K).", min_length=2)
    dtype: DType = attribute("Element type that the tensor shows.", converter=DType.parse)
    act_pre_scale: TensorValue | None = tensor(
        "Factor by which the activation is multiplied.", "float", "*P _", default=None
    )
    transposed: bool = attribute(
        "Whether shape is (K, N); in no file of torchao.", default=False, kw_only=True
    )
    gpu_order: GpuInt4Order = attribute(
        "Order of the words: that of the device that packed them.",
        default=GpuInt4Order.CUDA,
        converter=choice_of(GpuInt4Order),
        kw_only=True,
    )

    def check_relations(self) -> None:
        """Check tiles, groups, shape, factor and type."""
        _check(self, self.qdata, "/qdata")
        factor = self.act_pre_scale
        if factor is not None and factor.shape[-1] not in {1, self.shape[-1]}:
            raise LayoutError(
                "act_pre_scale has a wrong size for K",
                pointer="/act_pre_scale",
                found=tuple(factor.shape),
                expected=f"(..., {self.shape[-1]})",
            )


@migration()
def rename_packed_weight(
    old: Int4TilePackedTo4dTensorLayoutV1,
) -> Int4TilePackedTo4dTensorLayoutV2:
    """Call the fragments qdata."""
    return Int4TilePackedTo4dTensorLayoutV2(
        old.packed_weight,
        old.scale_and_zero,
        old.block_size,
        old.shape,
        old.dtype,
        transposed=old.transposed,
        gpu_order=old.gpu_order,
    )


@migration(drops="padding")
def fragments_to_rows(old: Int4TilePackedTo4dTensorLayoutV2) -> Int4TensorLayout:
    """Bring codes back into rows; scales and zero points apart, without those of padding.

    Raises:
        MigrationError: an odd number of columns.
    """
    qdata: Any = old.qdata
    shape = old.shape[::-1] if old.transposed else old.shape
    result: Int4TensorLayout = int4_layout(
        _codes(qdata, shape, old.gpu_order),
        old.scale_and_zero,
        shape=shape,
        group=group_of(old.block_size, transposed=old.transposed),
        dtype=old.dtype,
        act_pre_scale=old.act_pre_scale,
        transposed=old.transposed,
    )
    return result


def _codes(qdata: Any, shape: tuple[int, ...], order: GpuInt4Order) -> Any:
    """Return what will be the codes of a matrix, or of several, in rows."""
    *leading, rows, columns = shape
    packed = (*leading, rows, columns // 2)
    if leading:
        unpacked = partial(_matrices, matrix=(rows, columns), order=order)
        return qdata.map(unpacked, dtype=DType.INT8, shape=packed, by_rows=1)
    tiles = qdata.shape[0]
    if rows != tiles * _TILE:  # rows of padding
        unpacked = partial(_some_rows, columns=columns, order=order)
        return qdata.spread(unpacked, dtype=DType.INT8, shape=packed, together=2 * _TILE)
    return qdata.map(
        partial(_tiles, columns=columns, order=order),
        dtype=DType.INT8,
        shape=(tiles, _TILE, columns // 2),
        by_rows=2 if order is GpuInt4Order.ROCM else 1,
    ).reshape(*packed)


def _tiles(packed: "torch.Tensor", *, columns: int, order: GpuInt4Order) -> "torch.Tensor":
    tiles = packed.shape[0]
    return gpu_pairs(packed, (tiles * _TILE, columns), order).view(tiles, _TILE, columns // 2)


def _some_rows(
    first: int, stop: int, packed: "torch.Tensor", *, columns: int, order: GpuInt4Order
) -> "torch.Tensor":
    tiles = packed[first // _TILE :]
    return gpu_pairs(tiles, (stop - first, columns), order)


def _matrices(
    packed: "torch.Tensor", *, matrix: tuple[int, int], order: GpuInt4Order
) -> "torch.Tensor":
    import torch

    rows, columns = matrix
    found = [gpu_pairs(m, matrix, order) for m in packed.flatten(0, -5)]
    return torch.stack(found).view(*packed.shape[:-4], rows, columns // 2)


# Checks of retired classes are frozen with them: they do not follow those of the current class.


def _check(layout: Any, packed: TensorValue, pointer: str) -> None:
    check_shown(layout.dtype)
    *leading, tiles, _, _, inner = packed.shape
    if inner not in {1, 2, 4} or (layout.gpu_order is GpuInt4Order.ROCM and tiles % 2):
        raise LayoutError(
            f"{pointer[1:]} has a wrong size for the kernel's fragments",
            pointer=pointer,
            found=tuple(packed.shape),
            expected="(N'/8, K'/(16 T), 32, T/2) for T of 2, 4 or 8; N' in sixteens for ROCm",
        )
    shape = layout.shape[::-1] if layout.transposed else layout.shape
    rows, columns = gpu_shape(tuple(packed.shape[-4:]))
    if shape[:-2] != tuple(leading) or shape[-2] > rows or shape[-1] > columns:
        raise LayoutError(
            "shape has a wrong size for the fragments",
            pointer="/shape",
            found=layout.shape,
            expected=f"at most {rows} rows and {columns} columns of each matrix",
        )
    group = group_of(layout.block_size, transposed=layout.transposed)
    if len(layout.block_size) != len(shape):
        raise LayoutError(
            "block_size has a wrong size for the tensor",
            pointer="/block_size",
            found=layout.block_size,
            expected=f"{len(shape)} entries for shape {shape}",
        )
    groups = -(-shape[-1] // group)
    check_pairs(layout.scale_and_zero, (*leading, groups, shape[-2]), padded=True)
