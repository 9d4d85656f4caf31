"""UintxTensorLayout: UintxTensor of torchao, whose codes lie in shards of 4, 2 and 1 bits.

| ours | torchao | what was new |
|---|---|---|
| 1 | 0.5 to 0.17, AffineQuantizedTensor with UintxAQTTensorImpl | – |
| 2 | none: AffineQuantizedTensor with PlainAQTTensorImpl and uint8 codes | one code a byte |

The first shard holds the low bits of all codes, the next those above: 7 bits are 4, 2 and 1. A byte
of a shard of b bits holds 8/b codes that lie a (8/b)-th of `pack_dim` apart, the first in the low
bits (torchao, `dtypes/uintx/bitpacking.py`).
"""

from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

from attrs import frozen

from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import TensorValue
from qconfig.configs.supported import choice_of
from qconfig.errors import LayoutError
from qconfig.layouts.blocks import scale_shape
from qconfig.layouts.uintx import UintxTensorLayout, UintxZeroPointDomain
from qconfig.versioning import Layout, attribute, migration, register_layout, tensor

if TYPE_CHECKING:
    import torch

_SHOWN = (DType.FLOAT16, DType.BFLOAT16, DType.FLOAT32, DType.FLOAT64)
_SHARDS = (4, 2, 1)


@register_layout("UintxTensorLayout", 1)
@frozen
class UintxTensorLayoutV1(Layout):
    """UintxTensor inside AffineQuantizedTensor: codes of 1 to 7 bits in shards of 4, 2 and 1 bits.

    A value is that of version 2; `packed_shape`, a name of torchao's, is the shape unpacked.
    """

    scale: TensorValue = tensor(
        "Scales, (N,) for whole rows or (N, K/g) for groups.", "float", "*S"
    )
    packed_shape: tuple[int, ...] = attribute("Shape of the codes, unpacked.", min_length=2)
    bit_width: int = attribute("Bits of a code.", minimum=1, maximum=7)
    block_size: tuple[int, ...] = attribute(
        "Elements that share a scale, along each dimension.", min_length=2
    )
    dtype: DType = attribute("Element type that the tensor shows.", converter=DType.parse)
    pack_dim: int = attribute("Dimension along which codes share a byte.", default=-1, kw_only=True)
    int4_shard: TensorValue | None = tensor(
        "The low four bits of codes of 4 bits or more.", "uint8", "*F _ _", default=None
    )
    int2_shard: TensorValue | None = tensor(
        "Two bits of codes of 2, 3, 6 or 7 bits.", "uint8", "*T _ _", default=None
    )
    int1_shard: TensorValue | None = tensor(
        "The high bit of codes of 1, 3, 5 or 7 bits.", "uint8", "*O _ _", default=None
    )
    zero_point: TensorValue | None = tensor(
        "Zero points, as many as scales; null for none.",
        ("int8", "int32", "int64", "float"),
        "*Z",
        default=None,
    )
    zero_point_domain: UintxZeroPointDomain = attribute(
        "Whether zero points are codes or values of the middle code.",
        default=UintxZeroPointDomain.INT,
        converter=choice_of(UintxZeroPointDomain),
        kw_only=True,
    )

    @property
    def shape(self) -> tuple[int, ...]:
        """Logical shape."""
        return self.packed_shape

    def check_relations(self) -> None:
        """Check that the shards of the bit width are there, and as many scales as blocks."""
        if self.dtype not in _SHOWN:
            raise LayoutError(
                "dtype is not a floating-point type",
                pointer="/dtype",
                found=self.dtype.value,
                expected="float16, bfloat16, float32 or float64",
            )
        rank = len(self.packed_shape)
        if not -rank <= self.pack_dim < rank or min(self.packed_shape) < 0:
            raise LayoutError(
                "pack_dim has a wrong size for packed_shape",
                pointer="/pack_dim",
                found=self.pack_dim,
                expected=f"a dimension of {self.packed_shape}",
            )
        for bits in _SHARDS:
            _check_shard(self, bits)
        blocks = prod(scale_shape(self.packed_shape, self.block_size))
        for name in ("scale", "zero_point"):
            value = getattr(self, name)
            if value is not None and prod(value.shape) != blocks:
                raise LayoutError(
                    f"{name} has a wrong shape for its blocks",
                    pointer=f"/{name}",
                    found=tuple(value.shape),
                    expected=f"{blocks} elements",
                )
        kind = None if self.zero_point is None else DType.parse(self.zero_point.dtype)
        in_floats = self.zero_point_domain is UintxZeroPointDomain.FLOAT
        if in_floats and kind is not None and not kind.is_float:
            raise LayoutError(
                "zero_point is not supported in the domain FLOAT",
                pointer="/zero_point",
                found=str(kind),
                expected="float16, bfloat16, float32 or float64",
            )


@migration()
def unpack_shards(old: UintxTensorLayoutV1) -> UintxTensorLayout:
    """Give each code a byte; scales and zero points get their dimensions back."""
    shape = scale_shape(old.packed_shape, old.block_size)
    shards: list[Any] = [getattr(old, _name(b)) for b in _SHARDS if old.bit_width & b]
    scale: Any = old.scale
    zero_point: Any = old.zero_point
    dim = old.pack_dim % len(old.packed_shape)
    if dim:
        unpacked = partial(_unpacked, bits=old.bit_width, dim=dim)
        codes = shards[0].map(unpacked, shape=old.packed_shape, by_rows=1, beside=shards[1:])
    else:
        unpacked = partial(_unpacked_rows, bits=old.bit_width)
        codes = shards[0].spread(unpacked, shape=old.packed_shape, beside=shards[1:])
    return UintxTensorLayout(
        codes,
        scale.reshape(*shape),
        old.bit_width,
        old.block_size,
        old.dtype,
        zero_point=None if zero_point is None else zero_point.reshape(*shape),
        zero_point_domain=old.zero_point_domain,
    )


def _name(bits: int) -> str:
    return f"int{bits}_shard"


def _check_shard(layout: UintxTensorLayoutV1, bits: int) -> None:
    name, expected = _name(bits), list(layout.packed_shape)
    value = getattr(layout, name)
    if not layout.bit_width & bits:
        if value is not None:
            raise LayoutError(
                f"{name} has a wrong size for codes of {layout.bit_width} bits",
                pointer=f"/{name}",
                found=tuple(value.shape),
                expected="no such shard",
            )
        return
    expected[layout.pack_dim] = expected[layout.pack_dim] * bits // 8
    found = None if value is None else tuple(value.shape)
    if found != tuple(expected) or layout.packed_shape[layout.pack_dim] % (8 // bits):
        raise LayoutError(
            f"{name} has a wrong size for {layout.bit_width} bits of {layout.packed_shape}",
            pointer=f"/{name}",
            found=found,
            expected=f"shape {tuple(expected)}, and {8 // bits} codes a byte",
        )


def _unpacked(*shards: "torch.Tensor", bits: int, dim: int) -> "torch.Tensor":
    import torch

    first, shift = shards[0], 0
    widths = [b for b in _SHARDS if bits & b]
    shape = list(first.shape)
    shape[dim] = shape[dim] * 8 // widths[0]
    result = torch.zeros(shape, dtype=torch.uint8, device=first.device)
    for width, shard in zip(widths, shards, strict=True):
        parts = result.chunk(8 // width, dim) if result.numel() else ()
        for place, part in enumerate(parts):
            codes = (shard >> (place * width)).bitwise_and_((1 << width) - 1)
            part.bitwise_or_(codes.bitwise_left_shift_(shift))
        shift += width
    return result


def _unpacked_rows(first: int, stop: int, *shards: "torch.Tensor", bits: int) -> "torch.Tensor":
    """Return some rows of codes that share their bytes with other rows."""
    import torch

    rows, shift = torch.arange(first, stop, device=shards[0].device), 0
    result = torch.zeros((stop - first, *shards[0].shape[1:]), dtype=torch.uint8)
    for width, shard in zip((b for b in _SHARDS if bits & b), shards, strict=True):
        codes = shard.index_select(0, rows % shard.shape[0])
        places = (rows // shard.shape[0] * width).to(torch.uint8)
        codes >>= places.view(-1, *(1 for _ in shard.shape[1:]))
        result |= codes.bitwise_and_((1 << width) - 1).bitwise_left_shift_(shift)
        shift += width
    return result
