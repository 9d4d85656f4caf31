"""The notation in which the cases are written, and the tensors that they share."""

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from attrs import field, frozen
from brevitas.quant_tensor import (
    FloatQuantTensor,
    GroupwiseFloatQuantTensor,
    GroupwiseIntQuantTensor,
    IntQuantTensor,
)

Better = Any


@frozen
class Row:
    """One case before it is computed.

    Args:
        id: name of the case.
        expr: evaluated with torch, F, T, the four classes and the tensors of the pool it names.
        verdict: reference, quirk (surprising, documented) or defect (not to be copied).
        better: what is right where Brevitas is not: an expression, several that are all right, or a
            dict that is taken as it stands.
        note: why.
        grad: fields to differentiate the expression by, per tensor.
        more: further entries of the case.
    """

    id: str
    expr: str
    verdict: str = "reference"
    better: Better = None
    note: str | None = None
    grad: Mapping[str, list[str]] = field(factory=dict)
    more: Mapping[str, Any] = field(factory=dict)


def quirk(id: str, expr: str, better: Better, note: str | None = None) -> Row:  # noqa: A002
    """Return a case where Brevitas surprises."""
    return Row(id, expr, "quirk", better, note)


def defect(id: str, expr: str, better: Better, note: str | None = None) -> Row:  # noqa: A002
    """Return a case where Brevitas is wrong."""
    return Row(id, expr, "defect", better, note)


def values(expr: str) -> dict[str, str]:
    """Return the expectation that the values are those of `expr`, with or without metadata."""
    return {"values_of": expr}


def only_values(expr: str) -> dict[str, str]:
    """Return the expectation that the result is a plain tensor with the values of `expr`."""
    return {"type": "Tensor", **values(expr)}


RAISES = {"error": {"type": "QuantTensorError", "message": ""}}


def iq(
    codes: Any,
    scale: Any,
    zero_point: Any = 0.0,
    bits: Any = 8.0,
    *,
    signed: bool = True,
    training: bool = False,
    dtype: torch.dtype = torch.float32,
) -> IntQuantTensor:
    """Return the tensor that stores the integers `codes`."""
    scale, zero = torch.tensor(scale, dtype=dtype), torch.tensor(zero_point, dtype=dtype)
    value = (torch.tensor(codes, dtype=dtype) - zero) * scale
    bits = torch.tensor(bits, dtype=torch.float32)
    return IntQuantTensor(value, scale, zero, bits, signed, training)


# exponent bits, mantissa bits, bias, infinities, NaNs
FORMATS: dict[str, tuple[float, float, float, Any, Any]] = {
    "e4m3": (4.0, 3.0, 7.0, None, ("111",)),
    "e5m2": (5.0, 2.0, 15.0, ("00",), ("01", "11", "10")),
    "e4m3fnuz": (4.0, 3.0, 8.0, None, None),
    "e5m2fnuz": (5.0, 2.0, 16.0, None, None),
    "e3m2": (3.0, 2.0, 3.0, None, None),
    "e2m3": (2.0, 3.0, 1.0, None, None),
    "e2m1": (2.0, 1.0, 1.0, None, None),
}
LARGEST = {
    "e4m3": 448.0,
    "e5m2": 57344.0,
    "e4m3fnuz": 240.0,
    "e5m2fnuz": 57344.0,
    "e3m2": 28.0,
    "e2m3": 7.5,
    "e2m1": 6.0,
}


def fq(
    value: Any,
    form: str,
    scale: Any = 1.0,
    *,
    signed: bool = True,
    training: bool = False,
    saturating: bool = True,
    dtype: torch.dtype = torch.float32,
) -> FloatQuantTensor:
    """Return a tensor of minifloats times `scale`."""
    e, m, bias, inf, nan = FORMATS[form]
    scale = torch.tensor(scale, dtype=dtype)
    return FloatQuantTensor(
        torch.tensor(value, dtype=dtype) * scale,
        scale,
        torch.tensor(0.0, dtype=dtype),
        *(torch.tensor(w) for w in (e, m, bias)),
        saturating,
        inf,
        nan,
        signed,
        training,
    )


def gi(
    codes: Any,
    scale: Any,
    dim: int,
    shape: Iterable[int],
    zero_point: Any = 0.0,
    bits: float = 8.0,
    *,
    signed: bool = True,
    dtype: torch.dtype = torch.float32,
) -> GroupwiseIntQuantTensor:
    """Return a groupwise tensor that stores the integers `codes`, in grouped form."""
    scale, zero = torch.tensor(scale, dtype=dtype), torch.tensor(zero_point, dtype=dtype)
    codes = torch.tensor(codes, dtype=dtype)
    size = codes.shape[dim + 1] if dim >= 0 else codes.shape[dim]
    return GroupwiseIntQuantTensor(
        (codes - zero) * scale,
        scale,
        zero,
        size,
        dim,
        torch.tensor(bits),
        signed,
        False,
        tuple(shape),
    )


def gf(value: Any, form: str, scale: Any, dim: int, shape: Iterable[int]) -> Any:
    """Return a groupwise tensor of minifloats times `scale`, in grouped form."""
    e, m, bias, inf, nan = FORMATS[form]
    scale, value = torch.tensor(scale), torch.tensor(value)
    size = value.shape[dim + 1] if dim >= 0 else value.shape[dim]
    return GroupwiseFloatQuantTensor(
        value * scale,
        scale,
        torch.tensor(0.0),
        size,
        dim,
        *(torch.tensor(w) for w in (e, m, bias)),
        True,
        inf,
        nan,
        True,
        False,
        tuple(shape),
    )


def numbered(shape: tuple[int, ...], modulus: int = 13, offset: int = 6) -> Any:
    """Return small integers of that shape that repeat irregularly."""
    count = torch.Size(shape).numel()
    flat = [(7 * i + i * i) % modulus - offset for i in range(count)]
    return torch.tensor(flat, dtype=torch.float32).reshape(shape).tolist()
