"""The closed table of element types: torch's names, storage sizes and safetensors codes.

It knows nothing of torch until `to_torch` is called, so that a document or a header can be read
in milliseconds.
"""

from enum import StrEnum
from typing import TYPE_CHECKING, Any

from qconfig.errors import UnknownNameError, nearest

if TYPE_CHECKING:
    import torch


class DType(StrEnum):
    """A torch element type, by its name in torch 2.13 (`DType.BFLOAT16 == "bfloat16"`)."""

    BOOL = "bool"
    UINT8 = "uint8"
    INT8 = "int8"
    UINT16 = "uint16"
    INT16 = "int16"
    UINT32 = "uint32"
    INT32 = "int32"
    UINT64 = "uint64"
    INT64 = "int64"
    FLOAT8_E4M3FN = "float8_e4m3fn"
    FLOAT8_E4M3FNUZ = "float8_e4m3fnuz"
    FLOAT8_E5M2 = "float8_e5m2"
    FLOAT8_E5M2FNUZ = "float8_e5m2fnuz"
    FLOAT8_E8M0FNU = "float8_e8m0fnu"
    FLOAT4_E2M1FN_X2 = "float4_e2m1fn_x2"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    COMPLEX32 = "complex32"
    COMPLEX64 = "complex64"
    COMPLEX128 = "complex128"
    INT1 = "int1"
    INT2 = "int2"
    INT3 = "int3"
    INT4 = "int4"
    INT5 = "int5"
    INT6 = "int6"
    INT7 = "int7"
    UINT1 = "uint1"
    UINT2 = "uint2"
    UINT3 = "uint3"
    UINT4 = "uint4"
    UINT5 = "uint5"
    UINT6 = "uint6"
    UINT7 = "uint7"
    BITS8 = "bits8"
    BITS16 = "bits16"
    BITS1X8 = "bits1x8"
    BITS2X4 = "bits2x4"
    BITS4X2 = "bits4x2"
    QINT8 = "qint8"
    QUINT8 = "quint8"
    QINT32 = "qint32"
    QUINT4X2 = "quint4x2"
    QUINT2X4 = "quint2x4"

    @property
    def itemsize(self) -> int:
        """Bytes of one element as torch stores it: 1 unless the table says otherwise."""
        return _ITEMSIZE.get(self, 1)

    @property
    def safetensors_code(self) -> str | None:
        """The dtype code of the safetensors format, or None where the format has none."""
        return _SAFETENSORS.get(self)

    @property
    def is_float(self) -> bool:
        """Whether the type is a real floating-point type of at least 16 bits."""
        return self in _WIDE_FLOATS

    @classmethod
    def parse(cls, value: Any) -> "DType":
        """Return the member for a member, a name (`"int8"`, `"torch.int8"`) or a torch.dtype.

        Raises:
            UnknownNameError: no dtype of torch 2.13 has that name.
        """
        if isinstance(value, cls):
            return value
        name = str(value).removeprefix("torch.")
        try:
            return cls(name)
        except ValueError:
            raise UnknownNameError(
                "unknown dtype",
                found=value,
                expected="a dtype name of torch 2.13, such as 'bfloat16'",
                hint=nearest(name, [member.value for member in cls]),
            ) from None

    def to_torch(self) -> "torch.dtype":
        """Return the torch.dtype of that name.

        Raises:
            UnknownNameError: the installed torch is too old to have it.
        """
        import torch

        dtype = vars(torch).get(self.value)
        if not isinstance(dtype, torch.dtype):
            raise UnknownNameError(
                f"torch {torch.__version__} has no dtype {self.value}", found=self.value
            )
        return dtype


_D = DType
_WIDE_FLOATS = frozenset({_D.FLOAT16, _D.BFLOAT16, _D.FLOAT32, _D.FLOAT64})
_ITEMSIZE = {
    _D.UINT16: 2,
    _D.INT16: 2,
    _D.FLOAT16: 2,
    _D.BFLOAT16: 2,
    _D.BITS16: 2,
    _D.UINT32: 4,
    _D.INT32: 4,
    _D.FLOAT32: 4,
    _D.COMPLEX32: 4,
    _D.QINT32: 4,
    _D.UINT64: 8,
    _D.INT64: 8,
    _D.FLOAT64: 8,
    _D.COMPLEX64: 8,
    _D.COMPLEX128: 16,
}
_SAFETENSORS = {
    _D.BOOL: "BOOL",
    _D.UINT8: "U8",
    _D.INT8: "I8",
    _D.UINT16: "U16",
    _D.INT16: "I16",
    _D.UINT32: "U32",
    _D.INT32: "I32",
    _D.UINT64: "U64",
    _D.INT64: "I64",
    _D.FLOAT8_E4M3FN: "F8_E4M3",
    _D.FLOAT8_E4M3FNUZ: "F8_E4M3FNUZ",
    _D.FLOAT8_E5M2: "F8_E5M2",
    _D.FLOAT8_E5M2FNUZ: "F8_E5M2FNUZ",
    _D.FLOAT8_E8M0FNU: "F8_E8M0",
    _D.FLOAT4_E2M1FN_X2: "F4",
    _D.FLOAT16: "F16",
    _D.BFLOAT16: "BF16",
    _D.FLOAT32: "F32",
    _D.FLOAT64: "F64",
    _D.COMPLEX64: "C64",
}
FROM_SAFETENSORS = {code: dtype for dtype, code in _SAFETENSORS.items()}
