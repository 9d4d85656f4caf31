"""MX codes and block scales of a float tensor, bit for bit those of torchao 0.18 on the CPU.

Each block of a row gets a power of two, 2**(e - 127), such that its largest magnitude m fits the
element type, whose own largest power of two is 2**p and whose largest value is x:

| mode | e - 127 |
|---|---|
| FLOOR | floor(log2 m) - p: OCP Microscaling Formats 1.0, section 6.3; m may saturate |
| CEIL | ceil(log2 m) - p |
| EVEN | floor(log2 m') - p, with m rounded to the mantissa of the element type first |
| RCEIL | ceil(log2(m / x)): cuBLAS documentation, "1D Block Quantization"; nothing saturates |

Codes are the values times 2**(127 - e), rounded to nearest, ties to even, saturated. A block of
zeros, and one so small that its e would be below 0, has e = 0 and codes of 0 or next to it.
"""

from typing import TYPE_CHECKING

import torch
from attrs import frozen

from qconfig.configs.choices import ScaleCalculationMode
from qconfig.layouts.mx import MXElementType
from qconfig.tensors.row_slabs import (
    FLOAT8_BYTES,
    SMALL_BYTES,
    all_finite,
    check_blocks_divide,
    peaks,
    row_slabs,
)
from qconfig.tensors.small_floats import E2M1, E2M3, E3M2, SmallFloat, codes_of, packed
from qconfig.tensors.unquantizable import not_finite

if TYPE_CHECKING:
    from collections.abc import Callable

_BIAS = 127
_MANTISSA = 23
_EXPONENT_MASK = 0xFF
# The others keep magnitudes below what would round to more than the largest value.
_SATURATING = (ScaleCalculationMode.FLOOR, ScaleCalculationMode.EVEN)
_MANTISSA_MASK = (1 << _MANTISSA) - 1


@frozen
class Element:
    """What a quantizer knows of an element type.

    Args:
        largest: its largest value.
        exponent: exponent of the largest power of two that it has.
        mantissa_bits: bits of its mantissa.
        small: its codes, where torch has no such type.
        dtype: torch's type, where there is one.
    """

    largest: float
    exponent: int
    mantissa_bits: int
    small: SmallFloat | None = None
    dtype: torch.dtype = torch.uint8


ELEMENTS = {
    MXElementType.FLOAT8_E4M3FN: Element(448.0, 8, 3, dtype=torch.float8_e4m3fn),
    MXElementType.FLOAT8_E5M2: Element(57344.0, 15, 2, dtype=torch.float8_e5m2),
    MXElementType.FLOAT4_E2M1FN_X2: Element(E2M1.largest, 2, 1, small=E2M1),
    MXElementType.FP6_E2M3: Element(E2M3.largest, 2, 3, small=E2M3),
    MXElementType.FP6_E3M2: Element(E3M2.largest, 4, 2, small=E3M2),
}


def quantize_mx(
    weight: torch.Tensor,
    elem_dtype: MXElementType,
    block_size: int,
    scaling_mode: ScaleCalculationMode,
    *,
    checked: bool = True,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return MX codes and scales.

    Args:
        weight: (..., K), float16, bfloat16, float32 or float64, any strides; left as it is.
        elem_dtype: element type of the codes.
        block_size: elements of a block; it divides K, and 2 divides K for fp4.
        scaling_mode: how scales are rounded.
        checked: whether NaN and infinity are refused; if not, their block gets the scale NaN.

    Returns:
        Codes, (..., K) of torch's type or uint8, (..., K/2) uint8 for fp4; and scales,
        (..., K/block_size) float8_e8m0fnu. Both contiguous.

    Raises:
        BuildError: the weight holds NaN or infinity; count and first index are named.
        UsageError: rows have no whole blocks.
    """
    weight = weight.detach()
    element = ELEMENTS[elem_dtype]
    *leading, columns = weight.shape
    check_blocks_divide(columns, block_size)
    stored = columns // 2 if elem_dtype.is_packed else columns
    codes = torch.empty((*leading, stored), dtype=element.dtype, device=weight.device)
    blocks = columns // block_size
    scale = torch.empty((*leading, blocks), dtype=torch.uint8, device=weight.device)
    if weight.numel():
        rows_of_codes, rows_of_scale = codes.view(-1, stored), scale.view(-1, blocks)
        taken = FLOAT8_BYTES if element.small is None else SMALL_BYTES
        for rows, values, work in row_slabs(weight, taken):
            tiled = values.view(values.shape[0], blocks, block_size)
            peak = peaks(tiled, work)
            if checked and not all_finite(peak):
                raise not_finite(weight)
            finite = None if checked else peak.isfinite()
            exponent, factor = _exponents(peak, element, scaling_mode)
            if finite is not None:
                exponent = torch.where(finite, exponent, _EXPONENT_MASK)
            rows_of_scale[rows] = exponent
            tiled.mul_(factor.unsqueeze(-1))
            if not checked:
                values.nan_to_num_()
            if element.small is not None:
                rows_of_codes[rows] = _small_codes(values, element.small, work)
                continue
            if scaling_mode in _SATURATING:
                values.clamp_(-element.largest, element.largest)
            rows_of_codes[rows] = values
    return codes, scale.view(torch.float8_e8m0fnu)


def _small_codes(values: torch.Tensor, kind: SmallFloat, work: torch.Tensor) -> torch.Tensor:
    codes = codes_of(values, kind, work)
    return packed(codes) if kind == E2M1 else codes


def _exponents(
    peak: torch.Tensor, element: Element, mode: ScaleCalculationMode
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return biased exponents, int32, and by what values are multiplied, float32."""
    if mode is ScaleCalculationMode.RCEIL:
        power = peak.div_(element.largest).log2_().ceil_().clamp_(-_BIAS, _BIAS)
        factor = torch.exp2(-power).masked_fill_(power == -_BIAS, 1.0)
        return power.add_(_BIAS).to(torch.int32), factor
    exponent = _FLOORS[mode](peak, element) - element.exponent
    exponent.clamp_(0, _EXPONENT_MASK)
    # 2**-127 is subnormal; torchao scales by 2**-126 there.
    return exponent, torch.exp2((_BIAS - exponent.clamp(min=1)).float())


def _floor(peak: torch.Tensor, element: Element) -> torch.Tensor:
    return (peak.view(torch.int32) >> _MANTISSA) & _EXPONENT_MASK


def _ceil(peak: torch.Tensor, element: Element) -> torch.Tensor:
    return _floor(peak, element) + ((peak.view(torch.int32) & _MANTISSA_MASK) > 0)


def _even(peak: torch.Tensor, element: Element) -> torch.Tensor:
    half = 1 << (_MANTISSA - element.mantissa_bits - 1)
    return ((peak.view(torch.int32) + half) >> _MANTISSA) & _EXPONENT_MASK


_FLOORS: "dict[ScaleCalculationMode, Callable[[torch.Tensor, Element], torch.Tensor]]" = {
    ScaleCalculationMode.FLOOR: _floor,
    ScaleCalculationMode.CEIL: _ceil,
    ScaleCalculationMode.EVEN: _even,
}
