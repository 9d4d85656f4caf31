"""Int4PlainInt32TensorLayout: int4 codes of a row, eight in an int32, the first in its lowest bits.

| ours | torchao | what was new |
|---|---|---|
| 1 | 0.11 to 0.16, AffineQuantizedTensor with Int4XPUAQTTensorImpl | – |
| 2 | 0.14 and later, Int4PlainInt32Tensor | act_pre_scale; qdata for packed_weight |

It ends in UintxTensorLayout, which means the same by both kinds of zero points that version 1 has,
codes from 0 to 15 as they are: `(q - zero) * scale` with int8 zero points, and
`(q - 8) * scale + zero` where they lie beside the scales. Int4TensorLayout could say the first kind
only rounded (`-zero * scale` as a number of the scale's type), IntxUnpackedToInt8TensorLayout not
the second.

torchao 0.17 and later use the class for Ascend NPUs as well, with floating-point zero points. It
subtracts them when it quantizes and hands them to a kernel that is documented to add its offset;
which of both a file means is not known, so its step refuses them.
"""

from functools import partial
from typing import TYPE_CHECKING, Any

from attrs import frozen

from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import TensorValue
from qconfig.configs.supported import choice_of
from qconfig.errors import LayoutError, MigrationError
from qconfig.layouts.blocks import scale_shape
from qconfig.layouts.int4_packing import unpack_words_int4
from qconfig.layouts.uintx import UintxTensorLayout, UintxZeroPointDomain
from qconfig.migrations.int4_groups import check_pairs, check_shown, group_of
from qconfig.versioning import Layout, attribute, migration, register_layout, tensor

if TYPE_CHECKING:
    import torch

_CODES = 8
_PARTS = ("scale_and_zero", "scale", "zero")


@register_layout("Int4PlainInt32TensorLayout", 1)
@frozen
class Int4PlainInt32TensorLayoutV1(Layout):
    """AffineQuantizedTensor with Int4XPUAQTTensorImpl: scale and zero apart, or side by side.

    torchao dropped the flag of a transposed tensor before it was pickled.
    """

    packed_weight: TensorValue = tensor("Codes, eight an int32: (N, K/8).", "int32", "*B N _")
    block_size: tuple[int, ...] = attribute(
        "Elements that share a scale, along each dimension.", min_length=2
    )
    dtype: DType = attribute("Element type that the tensor shows.", converter=DType.parse)
    scale_and_zero: TensorValue | None = tensor(
        "Scale and value of the middle code: (K/g, N, 2).", "float", "*B _ N 2", default=None
    )
    scale: TensorValue | None = tensor(
        "One scale a group: (K/g, N).", "float", "*B _ N", default=None
    )
    zero: TensorValue | None = tensor(
        "Code of the real value zero of each group.", "int8", "*B _ N", default=None
    )

    @property
    def shape(self) -> tuple[int, ...]:
        """(N, K)."""
        return _shape_of(self.packed_weight)

    def check_relations(self) -> None:
        """Check groups and type, and that scales are said once."""
        check_shown(self.dtype)
        if self.scale_and_zero is not None and self.scale is None and self.zero is None:
            check_pairs(self.scale_and_zero, _groups(self, self.shape))
            return
        if self.scale_and_zero is not None or self.scale is None or self.zero is None:
            raise LayoutError(
                "scales and zero points are stored together or apart",
                pointer="/scale_and_zero",
                found=[n for n in _PARTS if getattr(self, n) is not None],
                expected="scale_and_zero, or scale and zero",
            )
        _check_scales(self, ("scale", "zero"), _groups(self, self.shape))


@register_layout("Int4PlainInt32TensorLayout", 2)
@frozen
class Int4PlainInt32TensorLayoutV2(Layout):
    """Int4PlainInt32Tensor of torchao 0.14 and later: a factor for activations."""

    qdata: TensorValue = tensor("Codes, eight an int32: (N, K/8).", "int32", "*B N _")
    scale: TensorValue = tensor("One scale a group: (K/g, N).", "float", "*B _ N")
    zero_point: TensorValue = tensor(
        "Code of the real value zero of each group.", ("int8", "float"), "*B _ N"
    )
    block_size: tuple[int, ...] = attribute(
        "Elements that share a scale, along each dimension.", min_length=2
    )
    shape: tuple[int, ...] = attribute("Shape that the tensor shows: (N, K).", min_length=2)
    dtype: DType = attribute("Element type that the tensor shows.", converter=DType.parse)
    act_pre_scale: TensorValue | None = tensor(
        "Factor by which the activation is multiplied.", "float", "*P _", default=None
    )
    zero_point_domain: UintxZeroPointDomain = attribute(
        "FLOAT where version 1 had scale_and_zero; in no file of torchao.",
        default=UintxZeroPointDomain.INT,
        converter=choice_of(UintxZeroPointDomain),
        kw_only=True,
    )

    def check_relations(self) -> None:
        """Check shape, groups, factor and type."""
        check_shown(self.dtype)
        if self.shape != _shape_of(self.qdata):
            raise LayoutError(
                "shape has a wrong size for the codes",
                pointer="/shape",
                found=self.shape,
                expected=str(_shape_of(self.qdata)),
            )
        _check_scales(self, ("scale", "zero_point"), _groups(self, self.shape))
        factor = self.act_pre_scale
        if factor is not None and factor.shape[-1] != self.shape[-1]:
            raise LayoutError(
                "act_pre_scale has a wrong size for K",
                pointer="/act_pre_scale",
                found=tuple(factor.shape),
                expected=f"(..., {self.shape[-1]})",
            )


@migration()
def part_scale_and_zero(old: Int4PlainInt32TensorLayoutV1) -> Int4PlainInt32TensorLayoutV2:
    """Keep scales and zero points apart, and say what zero points are."""
    pairs: Any = old.scale_and_zero
    scale: Any = old.scale
    zero: Any = old.zero
    domain = UintxZeroPointDomain.INT
    if pairs is not None:
        shape, domain = tuple(pairs.shape)[:-1], UintxZeroPointDomain.FLOAT
        scale, zero = (pairs.map(partial(_half, index=i), shape=shape) for i in (0, 1))
    return Int4PlainInt32TensorLayoutV2(
        old.packed_weight,
        scale,
        zero,
        old.block_size,
        old.shape,
        old.dtype,
        zero_point_domain=domain,
    )


@migration()
def words_to_codes(old: Int4PlainInt32TensorLayoutV2) -> UintxTensorLayout:
    """Give each code a byte, and scales the order of rows.

    Raises:
        MigrationError: floating-point zero points of an NPU.
    """
    qdata: Any = old.qdata
    scale: Any = old.scale
    zero_point: Any = old.zero_point
    kind = DType.parse(zero_point.dtype)
    if kind.is_float and old.zero_point_domain is UintxZeroPointDomain.INT:
        raise MigrationError(
            "zero_point is a floating-point number, as torchao 0.17 and later write it on Ascend "
            "NPUs; whether their kernel adds or subtracts it is not known",
            pointer="/zero_point",
            found=kind.value,
            expected="int8, as written on Intel GPUs",
            hint="quantize the original weight again with the packing format plain",
        )
    *leading, groups, rows = scale.shape
    shape = (*leading, rows, groups)
    return UintxTensorLayout(
        qdata.map(unpack_words_int4, dtype=DType.UINT8, shape=old.shape, by_rows=1),
        scale.map(_rows_first, shape=shape),
        4,
        old.block_size,
        old.dtype,
        zero_point=zero_point.map(_rows_first, shape=shape),
        act_pre_scale=old.act_pre_scale,
        zero_point_domain=old.zero_point_domain,
    )


def _half(pairs: "torch.Tensor", *, index: int) -> "torch.Tensor":
    return pairs[..., index].contiguous()


def _rows_first(value: "torch.Tensor") -> "torch.Tensor":
    return value.transpose(-1, -2).contiguous()


# Checks of retired classes are frozen with them: they do not follow those of the current class.


def _shape_of(packed: TensorValue) -> tuple[int, ...]:
    *leading, words = packed.shape
    return (*leading, _CODES * words)


def _groups(layout: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    group_of(layout.block_size, transposed=False)
    *leading, rows, groups = scale_shape(shape, layout.block_size)
    return (*leading, groups, rows)


def _check_scales(layout: Any, names: tuple[str, str], expected: tuple[int, ...]) -> None:
    for name in names:
        found = tuple(getattr(layout, name).shape)
        if found != expected:
            raise LayoutError(
                f"{name} has a wrong shape for its blocks",
                pointer=f"/{name}",
                found=found,
                expected=f"shape {expected}",
            )
