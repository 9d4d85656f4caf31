"""Int4OpaqueTensorLayout: int4 codes in the order of the processor that packed them.

| ours | torchao | what was new |
|---|---|---|
| 1 | 0.7 to 0.16, AffineQuantizedTensor with Int4CPUAQTTensorImpl | – |
| 2 | 0.14 to 0.16, Int4OpaqueTensor | act_pre_scale; qdata for packed_weight |
| 3 | 0.17 and later | qzeros, compensation, act_mapping_type: a second kernel's weights |

It ends in Int4TensorLayout, which knows no processor. `cpu_order` is in no file: whoever reads one
finds out, see `qconfig.layouts.int4_packing`. A tensor of version 1 that was transposed stays so.

A value is `(q - 8) * scale + zero`, in float32 and rounded once: what torch's kernel multiplies,
and so what torchao's `linear` computed since 0.9. `dequantize` of version 1, and `linear` in 0.7
and 0.8, rounded the product to the scale's type before they added the zero point; in bfloat16 that
differs by at most 2**-8 of `(q - 8) * scale` and a last place of the value. Int4TensorLayout says
so in `rounds_products`, which whoever reads a file sets.
"""

from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any

from attrs import frozen

from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import TensorValue
from qconfig.configs.supported import choice_of
from qconfig.errors import LayoutError, MigrationError
from qconfig.layouts.blocks import scale_shape
from qconfig.layouts.int4 import Int4TensorLayout
from qconfig.layouts.int4_packing import CpuInt4Order, cpu_pairs
from qconfig.migrations.int4_groups import check_pairs, check_shown, group_of, int4_layout
from qconfig.versioning import Layout, attribute, migration, register_layout, tensor

if TYPE_CHECKING:
    import torch

_ROWS = 16


class ActMappingType(StrEnum):
    """How the kernel for int8 activations quantizes them, as torchao spells it."""

    ASYMMETRIC = "asymmetric"
    SYMMETRIC = "symmetric"


@register_layout("Int4OpaqueTensorLayout", 1)
@frozen
class Int4OpaqueTensorLayoutV1(Layout):
    """AffineQuantizedTensor with Int4CPUAQTTensorImpl: codes packed for a CPU."""

    packed_weight: TensorValue = tensor("Codes in the kernel's order, (N, K/2).", "uint8", "N _")
    scale_and_zero: TensorValue = tensor(
        "Scale and zero point of each group: (K/g, N, 2).", "float", "_ N 2"
    )
    block_size: tuple[int, ...] = attribute(
        "Elements that share a scale, along each dimension that is shown.", min_length=2
    )
    dtype: DType = attribute("Element type that the tensor shows.", converter=DType.parse)
    transposed: bool = attribute("Whether the tensor shows (K, N).", default=False, kw_only=True)
    cpu_order: CpuInt4Order = attribute(
        "Order of the bytes: that of the processor that packed them.",
        default=CpuInt4Order.AVX512,
        converter=choice_of(CpuInt4Order),
        kw_only=True,
    )

    @property
    def shape(self) -> tuple[int, ...]:
        """(N, K), or (K, N) if transposed."""
        rows, half = self.packed_weight.shape
        return (2 * half, rows) if self.transposed else (rows, 2 * half)

    def check_relations(self) -> None:
        """Check rows, groups and type."""
        _check(self, self.packed_weight, "/packed_weight")


@register_layout("Int4OpaqueTensorLayout", 2)
@frozen
class Int4OpaqueTensorLayoutV2(Layout):
    """Int4OpaqueTensor of torchao 0.14 to 0.16: a factor for activations."""

    qdata: TensorValue = tensor("Codes in the kernel's order, (N, K/2).", "uint8", "N _")
    scale_and_zero: TensorValue = tensor(
        "Scale and zero point of each group: (K/g, N, 2).", "float", "_ N 2"
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
    cpu_order: CpuInt4Order = attribute(
        "Order of the bytes: that of the processor that packed them.",
        default=CpuInt4Order.AVX512,
        converter=choice_of(CpuInt4Order),
        kw_only=True,
    )

    def check_relations(self) -> None:
        """Check rows, groups, shape, factor and type."""
        _check(self, self.qdata, "/qdata")
        _check_shape(self)


@register_layout("Int4OpaqueTensorLayout", 3)
@frozen
class Int4OpaqueTensorLayoutV3(Layout):
    """Int4OpaqueTensor of torchao 0.17 and later: two kernels.

    With `act_mapping_type` the weight is that of the kernel for int8 activations, which has a shape
    and an order of its own.
    """

    qdata: TensorValue = tensor(
        "Codes in the kernel's order, (N, K/2).", ("uint8", "int8"), "*D _ _"
    )
    scale_and_zero: TensorValue = tensor(
        "Scale and zero point of each group: (K/g, N, 2).", "float", "_ _ _"
    )
    block_size: tuple[int, ...] = attribute(
        "Elements that share a scale, along each dimension of shape.", min_length=2
    )
    shape: tuple[int, ...] = attribute("Shape that the tensor shows: (N, K).", min_length=2)
    dtype: DType = attribute("Element type that the tensor shows.", converter=DType.parse)
    act_pre_scale: TensorValue | None = tensor(
        "Factor by which the activation is multiplied.", "float", "*P _", default=None
    )
    qzeros: TensorValue | None = tensor(
        "Zero points for the kernel of int8 activations.", "int8", "*Q", default=None
    )
    compensation: TensorValue | None = tensor(
        "Sums of codes for the kernel of int8 activations.", "int32", "*C", default=None
    )
    act_mapping_type: ActMappingType | None = attribute(
        "How int8 activations are quantized; null for the kernel of float activations.",
        default=None,
        kw_only=True,
    )
    transposed: bool = attribute(
        "Whether shape is (K, N); in no file of torchao.", default=False, kw_only=True
    )
    cpu_order: CpuInt4Order = attribute(
        "Order of the bytes: that of the processor that packed them.",
        default=CpuInt4Order.AVX512,
        converter=choice_of(CpuInt4Order),
        kw_only=True,
    )

    def check_relations(self) -> None:
        """Check rows, groups, shape, factor and type; for int8 activations the type alone."""
        if self._for_int8_activations():
            check_shown(self.dtype)
            return
        if len(self.qdata.shape) != 2:
            raise LayoutError(
                "qdata has a wrong size for a matrix",
                pointer="/qdata",
                found=tuple(self.qdata.shape),
                expected="(N, K/2)",
            )
        _check(self, self.qdata, "/qdata")
        _check_shape(self)

    def _for_int8_activations(self) -> bool:
        return (self.qzeros, self.compensation, self.act_mapping_type) != (None, None, None)


@migration()
def say_shape(old: Int4OpaqueTensorLayoutV1) -> Int4OpaqueTensorLayoutV2:
    """Say the shape that the tensor shows; the bytes have another name."""
    return Int4OpaqueTensorLayoutV2(
        old.packed_weight,
        old.scale_and_zero,
        old.block_size,
        old.shape,
        old.dtype,
        transposed=old.transposed,
        cpu_order=old.cpu_order,
    )


@migration()
def add_kernel_of_int8_activations(old: Int4OpaqueTensorLayoutV2) -> Int4OpaqueTensorLayoutV3:
    """Say that the weight is for the kernel of float activations, the only one so far."""
    return Int4OpaqueTensorLayoutV3(
        old.qdata,
        old.scale_and_zero,
        old.block_size,
        old.shape,
        old.dtype,
        act_pre_scale=old.act_pre_scale,
        transposed=old.transposed,
        cpu_order=old.cpu_order,
    )


@migration()
def codes_to_rows(old: Int4OpaqueTensorLayoutV3) -> Int4TensorLayout:
    """Bring codes back into rows; scales and zero points apart.

    Raises:
        MigrationError: the weight is for the kernel of int8 activations.
    """
    for name in ("qzeros", "compensation", "act_mapping_type"):
        if getattr(old, name) is not None:
            raise MigrationError(
                f"{name} belongs to an int4 weight that torchao 0.17 or later packed for the CPU "
                "kernel of int8 activations (da8w4_linear_cpu); only that kernel knows its order",
                pointer=f"/{name}",
                found=tuple(getattr(getattr(old, name), "shape", ())) or str(getattr(old, name)),
                expected="a weight for float activations, without qzeros",
                hint="quantize the original weight again with the packing format plain",
            )
    qdata: Any = old.qdata
    shape = old.shape[::-1] if old.transposed else old.shape
    result: Int4TensorLayout = int4_layout(
        qdata.map(
            partial(_rows, order=old.cpu_order), dtype=DType.INT8, by_rows=old.cpu_order.rows
        ),
        old.scale_and_zero,
        shape=shape,
        group=group_of(old.block_size, transposed=old.transposed),
        dtype=old.dtype,
        act_pre_scale=old.act_pre_scale,
        transposed=old.transposed,
    )
    return result


def _rows(packed: "torch.Tensor", *, order: CpuInt4Order) -> "torch.Tensor":
    import torch

    return cpu_pairs(packed.view(torch.uint8), order)


# Checks of retired classes are frozen with them: they do not follow those of the current class.


def _check(layout: Any, packed: TensorValue, pointer: str) -> None:
    check_shown(layout.dtype)
    rows, half = packed.shape
    if rows % _ROWS:
        raise LayoutError(
            f"{pointer[1:]} has a wrong size for the kernel, which packs sixteen rows at a time",
            pointer=pointer,
            found=tuple(packed.shape),
            expected=f"a multiple of {_ROWS} rows",
        )
    group = group_of(layout.block_size, transposed=layout.transposed)
    groups = scale_shape((rows, 2 * half), (1, min(group, 2 * half) or 1))
    check_pairs(layout.scale_and_zero, groups[::-1])


def _check_shape(layout: Any) -> None:
    rows, half = layout.qdata.shape
    expected = (2 * half, rows) if layout.transposed else (rows, 2 * half)
    if layout.shape != expected:
        raise LayoutError(
            "shape has a wrong size for the codes",
            pointer="/shape",
            found=layout.shape,
            expected=str(expected),
        )
    factor = layout.act_pre_scale
    if factor is not None and factor.shape[-1] not in {1, layout.shape[-1]}:
        raise LayoutError(
            "act_pre_scale has a wrong size for K",
            pointer="/act_pre_scale",
            found=tuple(factor.shape),
            expected=f"(..., {layout.shape[-1]})",
        )
