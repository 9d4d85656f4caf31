"""Arrangements of AffineQuantizedTensor with one code a byte: plain, QDQ and float8."""

from typing import TYPE_CHECKING

from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import LazyTensor
from qconfig.dialects.torchao.tensors.reading import Context, Fields
from qconfig.dialects.torchao.tensors.shell import (
    Shell,
    layout_object,
    zero_points,
)
from qconfig.dialects.torchao.tensors.uintx import read_unsigned
from qconfig.dialects.torchao.tensors.values import mm_config
from qconfig.errors import MigrationError
from qconfig.migrations.float8_tensor_layout import Float8TensorLayoutV1
from qconfig.migrations.int8_tensor_layout import Int8TensorLayoutV1
from qconfig.migrations.int8_tensor_layout import ZeroPointDomain as Int8Domain
from qconfig.migrations.intx_unpacked_to_int8_tensor_layout import (
    IntxUnpackedToInt8TensorLayoutV1,
)
from qconfig.migrations.intx_unpacked_to_int8_tensor_layout import ZeroPointDomain as IntxDomain
from qconfig.versioning import Layout

if TYPE_CHECKING:
    import torch

_WHOLE = {(None, None), (-128, 127), (-127, 127)}
_WHOLE_NUMBERS = {DType.INT8, DType.INT32, DType.INT64}


def read_plain(shell: Shell, fields: Fields, _context: Context) -> Layout:
    """Read codes one a byte: int8 of the whole range, fewer bits in an int8, or unsigned ones.

    Raises:
        MigrationError: zero points of signed codes that are values.
    """
    layout_object(fields)
    codes = fields.tensor("int_data")
    if codes.dtype is not DType.INT8:
        return read_unsigned(shell, fields, codes)
    _check_signed(shell, codes)
    zero_point = zero_points(shell, fields)
    low, high = shell.bounds
    if (low, high) not in _WHOLE or not (zero_point is None or zero_point.dtype in _WHOLE_NUMBERS):
        return _intx(shell, codes, fields.tensor("scale"), zero_point)
    if zero_point is not None and zero_point.dtype is not DType.INT64:
        zero_point = zero_point.map(_to_int64, dtype=DType.INT64)
    layout: Layout = Int8TensorLayoutV1(
        codes,
        fields.tensor("scale"),
        shell.block_size,
        shell.dtype,
        zero_point=zero_point,
        quant_min=low,
        quant_max=high,
        zero_point_domain=Int8Domain(shell.domain),
    )
    return layout


def read_qdq(shell: Shell, fields: Fields, _context: Context) -> Layout:
    """Read codes of 1 to 8 bits, one an int8, that torchao dequantized for the product.

    Raises:
        MigrationError: zero points that are values, or codes of another type.
    """
    layout_object(fields)
    codes = fields.tensor("int_data")
    _check_signed(shell, codes)
    return _intx(shell, codes, fields.tensor("scale"), zero_points(shell, fields))


def read_float8_impl(shell: Shell, fields: Fields, _context: Context) -> Layout:
    """Read float8 codes with a scale for all of them or one a row.

    Raises:
        MigrationError: it is not known whether the tensor is transposed.
        ContainerError: a `mm_config` that is none.
    """
    named = layout_object(fields)
    codes = fields.tensor("float8_data")
    if _is_transposed(shell, codes, flag=bool(fields.optional("transposed", bool))):
        codes = codes.map(_transposed, shape=codes.shape[::-1])
    layout: Layout = Float8TensorLayoutV1(
        codes,
        fields.tensor("scale"),
        shell.block_size,
        shell.dtype,
        mm_config=None if named is None else mm_config(named.fields.get("mm_config")),
    )
    return layout


def _is_transposed(shell: Shell, codes: LazyTensor, *, flag: bool) -> bool:
    """Return whether a tensor shows its codes transposed.

    torchao's transposition left the codes alone and set the flag of both tensors, as they share
    codes and flag; shape and block_size it exchanged in the new one only. Only of a square tensor
    with one scale nothing else than the flag tells.
    """
    if len(codes.shape) != 2 or shell.shape not in (codes.shape, codes.shape[::-1]):
        return False
    if shell.shape != codes.shape:
        return True
    rows, columns = codes.shape
    if rows != columns or shell.block_size == (1, columns):
        return False
    if shell.block_size == (rows, 1):
        return True
    if flag:
        raise MigrationError(
            "it is not known whether a square tensor with one scale is transposed",
            pointer="/transposed",
            found=True,
            expected="False",
            hint="save the weight again without having called t() of it",
        )
    return False


def _check_signed(shell: Shell, codes: LazyTensor) -> None:
    if codes.dtype is not DType.INT8:
        raise MigrationError(
            "codes are of another type than their class stores",
            pointer="/int_data",
            found=codes.dtype.value,
            expected="int8",
        )
    if shell.domain == "FLOAT":
        raise MigrationError(
            "signed codes with zero points that are values cannot be read",
            pointer="/zero_point",
            found="ZeroPointDomain.FLOAT",
            expected="ZeroPointDomain.INT or ZeroPointDomain.NONE",
        )


def _intx(
    shell: Shell, codes: LazyTensor, scale: LazyTensor, zero_point: LazyTensor | None
) -> Layout:
    low, high = shell.bounds
    layout: Layout = IntxUnpackedToInt8TensorLayoutV1(
        codes,
        scale,
        shell.block_size,
        shell.dtype,
        zero_point=zero_point,
        quant_min=low,
        quant_max=high,
        zero_point_domain=IntxDomain(shell.domain),
    )
    return layout


def _transposed(codes: "torch.Tensor") -> "torch.Tensor":
    import torch

    return codes.view(torch.uint8).t().contiguous().view(codes.dtype)


def _to_int64(zero_point: "torch.Tensor") -> "torch.Tensor":
    import torch

    return zero_point.to(torch.int64)
