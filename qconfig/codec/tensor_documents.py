"""Tensors inside documents: dtype, shape and exactly the bytes.

`{"type": "Tensor", "dtype": "bfloat16", "shape": [1, 1], "data": "<base64>"}`; the data are the
elements little-endian in row-major order, whatever the strides of the tensor that was written.
"""

import base64
import binascii
from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING, Any

from qconfig.codec.dtypes import DType
from qconfig.codec.raw_memory import byte_view
from qconfig.codec.tensor_values import TensorValue
from qconfig.errors import FieldError, UnknownFieldError, UnknownNameError, json_pointer
from qconfig.limits import DEFAULT_LIMITS, current_limits
from qconfig.versioning.schema_types import Schema, describe_type, shape_schema

if TYPE_CHECKING:
    import torch

_KEYS = ("type", "dtype", "shape", "data")


def tensor_to_document(tensor: "torch.Tensor") -> dict[str, Any]:
    """Return the document of a plain CPU or device tensor of any dtype, 0-d and empty included.

    Args:
        tensor: any strides; a quantized or sparse tensor is not a plain one.

    Raises:
        FieldError: not a plain tensor: a subclass, sparse, on the meta device, or of a quantized
            torch dtype.
    """
    import torch

    if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        raise FieldError(
            "not a plain tensor", found=type(tensor).__name__, expected="torch.Tensor or Parameter"
        )
    return {
        "type": "Tensor",
        "dtype": DType.parse(tensor.dtype).value,
        "shape": list(tensor.shape),
        "data": base64.b64encode(tensor_bytes(tensor)).decode("ascii"),
    }


def tensor_from_document(data: Any) -> "torch.Tensor":
    """Return the tensor of a document, bit for bit.

    Raises:
        FieldError: a key is missing or has a wrong type, or the bytes do not fit the shape.
        UnknownFieldError: a key that tensor documents do not have.
        UnknownNameError: a dtype that torch does not have.
    """
    if not isinstance(data, Mapping) or data.get("type") != "Tensor":
        raise FieldError("not a tensor", found=data, expected='an object of type "Tensor"')
    for key in data:
        if key not in _KEYS:
            raise UnknownFieldError(
                "unknown field", pointer=json_pointer(key), found=key, expected=str(_KEYS)
            )
    dtype, shape = parse_spec(data)
    text = data.get("data")
    if not isinstance(text, str):
        raise FieldError("data is not base64", pointer="/data", found=text, expected="a string")
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise FieldError(
            "data is not base64",
            pointer="/data",
            found=text,
            expected="standard base64 with padding",
        ) from None
    expected = prod(shape) * dtype.itemsize
    if len(raw) != expected:
        raise FieldError(
            "data has a wrong length",
            pointer="/data",
            found=f"{len(raw)} bytes",
            expected=f"{expected} bytes for {dtype} {list(shape)}",
        )
    return tensor_of_bytes(raw, dtype, shape)


def parse_spec(data: Mapping[str, Any]) -> tuple[DType, tuple[int, ...]]:
    """Return dtype and shape of a tensor's document or record.

    Raises:
        UnknownNameError: the dtype is none of torch's.
        FieldError: the shape is not a list of sizes, or breaks `Limits.rank` or `Limits.dimension`.
    """
    name = data.get("dtype")
    if not isinstance(name, str) or name.startswith("torch."):
        raise FieldError(
            "wrong dtype", pointer="/dtype", found=name, expected="a name such as 'int8'"
        )
    try:
        dtype = DType.parse(name)
    except UnknownNameError as error:
        raise error.at(pointer_prefix="/dtype") from None
    shape, limits = data.get("shape"), current_limits()
    if (
        type(shape) is not list
        or len(shape) > limits.rank
        or any(type(n) is not int or not 0 <= n <= limits.dimension for n in shape)
        or prod(shape) > limits.dimension
    ):
        raise FieldError(
            "wrong shape",
            pointer="/shape",
            found=shape,
            expected=f"sizes: {limits.describe('rank')}; each, and their product: "
            f"{limits.describe('dimension')}",
        )
    return dtype, tuple(shape)


def tensor_bytes(tensor: "torch.Tensor") -> bytes:
    """Return the elements of a plain tensor, little-endian and row-major.

    Raises:
        FieldError: the tensor has no such bytes: sparse, meta, or a quantized torch dtype.
    """
    import torch

    if tensor.layout != torch.strided or tensor.is_meta or tensor.is_quantized:
        raise FieldError(
            "tensor has no plain bytes",
            found=f"{tensor.layout}, {tensor.device}, {tensor.dtype}",
            expected="a strided tensor with data",
        )
    plain = tensor.detach().resolve_conj().resolve_neg().cpu()
    if not plain.numel():
        return b""
    # Some dtypes have no copy kernel of their own; an integer view of the same width does.
    flat = plain.view(_carrier(plain.dtype)).contiguous().reshape(-1)
    if flat.stride(0) != 1:  # one element counts as contiguous whatever its stride
        flat = flat.clone(memory_format=torch.contiguous_format)
    return bytes(byte_view(flat))


def tensor_of_bytes(raw: bytes | bytearray, dtype: DType, shape: tuple[int, ...]) -> "torch.Tensor":
    """Return a new tensor that owns a copy of `raw`; the length must fit dtype and shape."""
    import torch

    kind = dtype.to_torch()
    if not raw:
        return torch.empty(0, dtype=torch.uint8).view(kind).reshape(shape)
    return torch.frombuffer(bytearray(raw), dtype=torch.uint8).view(kind).reshape(shape)


def tensor_schema() -> Schema:
    """Return the JSON Schema of a tensor in a document."""
    return {
        "type": "object",
        "properties": {
            "type": {"const": "Tensor"},
            "dtype": {"enum": [dtype.value for dtype in DType], "description": "Element type."},
            "shape": shape_schema(0, DEFAULT_LIMITS.rank),
            "data": {
                "type": "string",
                "contentEncoding": "base64",
                "description": "The elements, little-endian and row-major, in base64.",
            },
        },
        "required": list(_KEYS),
        "additionalProperties": False,
    }


describe_type(TensorValue, tensor_schema)


def _carrier(dtype: "torch.dtype") -> "torch.dtype":
    import torch

    if dtype.is_complex and dtype.itemsize == 16:
        return dtype
    return {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[dtype.itemsize]
