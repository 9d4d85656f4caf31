"""From a range of activations to a static scale and zero point, and back to what codes keep.

Formulas, in the type of the range, are those of `choose_qparams_affine` of torchao 0.18 with
`eps=2**-23`, where `low` and `high` are first widened to contain 0:

- SYMMETRIC: `scale = max(-low, high) / ((qmax - qmin) / 2)`, zero point 0;
- SYMMETRIC_NO_CLIPPING_ERR: `scale = max(low / qmin, high / qmax)`, zero point 0;
- ASYMMETRIC: `scale = (high - low) / (qmax - qmin)`, `zero_point = qmin - round(low / scale)`,
  clamped to the codes. Where `high - low` passes the largest number of the type, which gives
  torchao an infinite scale, it is `high / (qmax - qmin) - low / (qmax - qmin)`.

float8: `scale = max(-low, high) / largest code` (torchao's `_choose_scale_float8`), and 1 where
nothing but 0 was seen, which torchao turns into NaN.
"""

import torch

from qconfig.codec.dtypes import DType
from qconfig.configs.choices import MappingType
from qconfig.errors import FieldError
from qconfig.tensors.float8_quantize import scale_of

LEAST_INT8_SCALE = 2.0**-23
"""The smallest scale of int8 activations; torchao's `eps` for Int8Tensor."""


def code_range(*, reduce_range: bool = False) -> tuple[int, int]:
    """Return the smallest and the largest int8 code."""
    return (-64, 63) if reduce_range else (-128, 127)


def choose_activation_qparams(
    low: torch.Tensor,
    high: torch.Tensor,
    mapping_type: MappingType,
    dtype: DType = DType.INT8,
    *,
    reduce_range: bool = False,
    least_code: int | None = None,
    least_scale: float = LEAST_INT8_SCALE,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return scale and zero point for values from `low` to `high`.

    Args:
        low: smallest values, floating point, one for each scale, any shape.
        high: largest values, not below `low`, of its shape and type.
        mapping_type: how values map to codes.
        dtype: int8, float8_e4m3fn or float8_e5m2.
        reduce_range: whether int8 codes keep to -64 ... 63.
        least_code: the smallest int8 code, if it is another.
        least_scale: the smallest scale of int8 codes.

    Returns:
        Scales, in the type of `low`, and zero points, int8, or None where they would all be 0 by
        definition; both of the shape of `low`.

    Raises:
        FieldError: another dtype, or float8 that is not SYMMETRIC or has a reduced range.
    """
    if dtype is not DType.INT8:
        largest = torch.maximum(-low, high)
        return _float8_scale(largest, mapping_type, dtype, reduce_range=reduce_range), None
    qmin, qmax = code_range(reduce_range=reduce_range)
    qmin = qmin if least_code is None else least_code
    if mapping_type is MappingType.SYMMETRIC:
        scale = torch.maximum(-low, high) / (float(qmax - qmin) / 2)
        return scale.clamp(min=least_scale), None
    low, high = low.clamp(max=0), high.clamp(min=0)
    if mapping_type is MappingType.SYMMETRIC_NO_CLIPPING_ERR:
        scale = torch.maximum(low / float(qmin), high / float(qmax))
        return scale.clamp(min=least_scale), None
    span, steps = high - low, float(qmax - qmin)
    scale = torch.where(span.isinf(), high / steps - low / steps, span / steps)
    scale = scale.clamp(min=least_scale)
    zero_point = (qmin - torch.round(low / scale)).clamp(qmin, qmax)
    return scale, zero_point.to(torch.int8)


def _float8_scale(
    largest: torch.Tensor, mapping_type: MappingType, dtype: DType, *, reduce_range: bool
) -> torch.Tensor:
    if dtype not in (DType.FLOAT8_E4M3FN, DType.FLOAT8_E5M2):
        raise FieldError(
            "activations have no such codes",
            found=dtype.value,
            expected="int8, float8_e4m3fn or float8_e5m2",
        )
    if mapping_type is not MappingType.SYMMETRIC or reduce_range:
        raise FieldError(
            "float8 codes are symmetric, and their range is not reduced", found=mapping_type.value
        )
    return scale_of(largest, dtype.to_torch())


def kept(
    values: torch.Tensor,
    scale: torch.Tensor,
    zero_point: torch.Tensor | None,
    dtype: DType = DType.INT8,
    *,
    reduce_range: bool = False,
) -> torch.Tensor:
    """Return what is left of values once they were codes, as torchao's quantize_affine makes them.

    Args:
        values: float32.
        scale: float32, broadcast against `values`.
        zero_point: int8, shaped like `scale`, or None.
        dtype: int8, float8_e4m3fn or float8_e5m2.
        reduce_range: whether int8 codes keep to -64 ... 63.
    """
    if dtype is not DType.INT8:
        kind = dtype.to_torch()
        largest = torch.finfo(kind).max
        return (values / scale).clamp(-largest, largest).to(kind).to(torch.float32) * scale
    qmin, qmax = code_range(reduce_range=reduce_range)
    zero = 0.0 if zero_point is None else zero_point.to(torch.float32)
    codes = (torch.round(values * (1.0 / scale)) + zero).clamp(qmin, qmax)
    return (codes - zero) * scale
