"""Arrangements of AffineQuantizedTensor with unsigned codes: in shards of bits, or one a byte."""

from functools import partial
from typing import TYPE_CHECKING, Any

from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import LazyTensor
from qconfig.dialects.torchao.stored import Stored
from qconfig.dialects.torchao.tensors.reading import Context, Fields
from qconfig.dialects.torchao.tensors.shell import Shell, layout_object, zero_points
from qconfig.errors import MigrationError, QconfigError
from qconfig.layouts.blocks import scale_shape
from qconfig.layouts.uintx import UintxTensorLayout, UintxZeroPointDomain
from qconfig.migrations.uintx_tensor_layout import UintxTensorLayoutV1
from qconfig.versioning import Layout

if TYPE_CHECKING:
    import torch

_SHARDS = ("int4_shard", "int2_shard", "int1_shard")


def read_uintx(shell: Shell, fields: Fields, _context: Context) -> Layout:
    """Read codes of 1 to 7 bits in shards, which are a UintxTensor of their own.

    Raises:
        MigrationError: bounds with another middle code than these bits have.
        ContainerError or UnknownFieldError: fields that no release wrote.
        LayoutError: shards that do not fit each other.
    """
    layout_object(fields)
    codes = Fields(fields.value("int_data", Stored))
    _check_middle(shell, codes.stored.fields.get("bit_width"))
    try:
        shards = {name: codes.optional_tensor(name) for name in _SHARDS}
        layout: Layout = UintxTensorLayoutV1(
            scale=fields.tensor("scale"),
            packed_shape=codes.sizes("packed_shape"),
            bit_width=codes.value("bit_width", int),
            block_size=shell.block_size,
            dtype=shell.dtype,
            pack_dim=codes.value("pack_dim", int),
            zero_point=zero_points(shell, fields),
            zero_point_domain=_domain(shell),
            **shards,
        )
        codes.done()
    except QconfigError as error:
        raise error.at(pointer_prefix="/int_data") from None
    return layout


def read_unsigned(shell: Shell, fields: Fields, codes: LazyTensor) -> Layout:
    """Read codes from 0, one a uint8 or wider, as HQQ's came and as int4 on some devices.

    Args:
        shell: bounds, and what zero points are.
        fields: `scale` and `zero_point`.
        codes: the codes.

    Raises:
        MigrationError: bounds that no number of bits has.
    """
    low, high = shell.bounds
    top = 255 if high is None else high
    bits = max(1, top.bit_length())
    whole = (low or 0, top) == (0, (1 << bits) - 1)
    if (low or 0) < 0 or bits > 8 or (shell.domain == "FLOAT" and not whole):
        raise MigrationError(
            "quant_min and quant_max are no bounds of unsigned codes",
            pointer="/quant_max",
            found=(low, high),
            expected="0 and 2**bits - 1, for 1 to 8 bits",
        )
    if codes.dtype is not DType.UINT8:
        codes = codes.map(partial(_to_uint8, top=top), dtype=DType.UINT8, by_rows=1)
    blocks = scale_shape(codes.shape, shell.block_size)
    zero_point = zero_points(shell, fields)
    return UintxTensorLayout(
        codes,
        fields.tensor("scale").reshape(*blocks),
        bits,
        shell.block_size,
        shell.dtype,
        zero_point=None if zero_point is None else zero_point.reshape(*blocks),
        zero_point_domain=_domain(shell),
    )


def _check_middle(shell: Shell, bits: Any) -> None:
    # torchao's middle code follows the bounds, which are those of uint8 where none are said.
    low, high = shell.bounds
    bounds = (0 if low is None else low, 255 if high is None else high)
    if shell.domain != "FLOAT" or type(bits) is not int or sum(bounds) + 1 == 1 << bits:
        return
    raise MigrationError(
        "zero points are values of another code than the middle one",
        pointer="/quant_max",
        found=(low, high),
        expected=f"0 and {(1 << bits) - 1}",
        hint="the values are no linear's that torchao had; quantize the float weights again",
    )


def _domain(shell: Shell) -> UintxZeroPointDomain:
    if shell.domain == "FLOAT":
        return UintxZeroPointDomain.FLOAT
    return UintxZeroPointDomain.INT


def _to_uint8(codes: "torch.Tensor", *, top: int) -> "torch.Tensor":
    import torch

    outside = (codes < 0) | (codes > top)
    if bool(outside.any()):
        raise MigrationError(
            "int_data holds codes outside their range",
            pointer="/int_data",
            found=int(codes[outside][0]),
            expected=f"codes from 0 to {top}",
        )
    return codes.to(torch.uint8)
