"""Codes of 1 to 8 bits, scales and zero points of a weight, bit for bit those of torchao 0.18.

Scales and zero points are chosen block by block of the last dimension, in the weight's own type,
see `qconfig.tensors.intx_mappings`. Then the scale takes its stored type and
`q = clamp(round(w * (1 / scale)) + zero_point, low, high)`, halves to even; the reciprocal is taken
in the scale's type and the product in the wider of both types (`quantize_affine`).

Where torchao's codes are noise, these are sound: a stored float16 scale never becomes 0, and its
reciprocal never infinity.

Steps on 16-bit floats are slow on CPUs, so rows are widened to float32 in a buffer that stays in
cache; only the product is rounded to the type it has in torchao.
"""

import torch

from qconfig.codec.dtypes import DType
from qconfig.configs.choices import IntxChooseQParamsAlgorithm, MappingType
from qconfig.layouts.blocks import scale_shape
from qconfig.layouts.intx import check_mapping, code_range
from qconfig.tensors.intx_hqq import hqq_scale
from qconfig.tensors.intx_mappings import CHOOSE, Choose
from qconfig.tensors.intx_slabs import Slab, by_slabs, grouped
from qconfig.tensors.unquantizable import not_finite, refuse_blocks

_LEAST_FLOAT16 = 2.0**-24


def quantize_intx(
    weight: torch.Tensor,
    block_size: tuple[int, ...],
    target_dtype: DType,
    mapping_type: MappingType = MappingType.SYMMETRIC,
    *,
    scale_dtype: torch.dtype | None = None,
    algorithm: IntxChooseQParamsAlgorithm = IntxChooseQParamsAlgorithm.AFFINE,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Return codes, scales and zero points of a weight.

    Args:
        weight: (..., K), float16, bfloat16, float32 or float64, any strides; it is left as it is.
        block_size: elements that share a scale: 1 in each dimension but the last.
        target_dtype: int1 to int8.
        mapping_type: how real values map to codes.
        scale_dtype: floating-point type of the scales; by default that of the weight.
        algorithm: AFFINE as above, or HQQ_SCALE_ONLY, see `qconfig.tensors.intx_hqq`.

    Returns:
        Codes, int8, of the weight's shape; scales, one entry a block; zero points, int8, shaped
        like the scales, or None where all are 0 because the mapping is symmetric.

    Raises:
        BuildError: the weight holds NaN or infinity (count and first index are named), or a scale
            overflows its type.
        FieldError: the mapping does not exist for these codes or this algorithm.
        LayoutError: the blocks do not tile the weight, or the target type is another.
    """
    weight = weight.detach()
    bounds = code_range(target_dtype)
    check_mapping(mapping_type, target_dtype, algorithm)
    kind = scale_dtype or weight.dtype
    blocks = scale_shape(tuple(weight.shape), block_size)
    codes = torch.empty(weight.shape, dtype=torch.int8, device=weight.device)
    scale = torch.empty(blocks, dtype=kind, device=weight.device)
    zero_point = None
    if mapping_type is MappingType.ASYMMETRIC:
        zero_point = torch.empty(blocks, dtype=torch.int8, device=weight.device)
    if algorithm is IntxChooseQParamsAlgorithm.HQQ_SCALE_ONLY:
        exact = hqq_scale(weight, codes, blocks, bounds)
        scale.copy_(exact.to(weight.dtype))
        if kind != weight.dtype:
            _least(scale)
            by_slabs(weight, codes, scale, None, lambda slab: _write_codes(slab, bounds))
    else:
        choose_and_write(weight, codes, scale, zero_point, bounds, mapping_type)
    if not bool(scale.isfinite().all()):
        raise not_finite(weight, kind)
    return codes, scale, zero_point


def quantize_with_qparams(
    weight: torch.Tensor,
    scale: torch.Tensor,
    zero_point: torch.Tensor | None,
    target_dtype: DType,
) -> torch.Tensor:
    """Return the int8 codes of a weight for scales and zero points that are given.

    Args:
        weight: (..., K), floating point, any strides.
        scale: floating point, positive; its sizes divide the weight's, only the last is smaller.
        zero_point: int8, shaped like `scale`, or None.
        target_dtype: int1 to int8.

    Raises:
        BuildError: the weight holds NaN or infinity.
        LayoutError: the target type is another.
    """
    weight = weight.detach()
    bounds = code_range(target_dtype)
    codes = torch.empty(weight.shape, dtype=torch.int8, device=weight.device)
    finite = True

    def write(slab: Slab) -> None:
        nonlocal finite
        finite = finite and bool(slab.weight.isfinite().all())
        _write_codes(slab, bounds)

    by_slabs(weight, codes, scale, zero_point, write)
    if not finite:
        raise not_finite(weight, scale.dtype)
    return codes


def checked_qparams(
    scale: torch.Tensor, zero_point: torch.Tensor | None, target_dtype: DType
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return given scales and zero points as a tensor stores them, copied and detached.

    Args:
        scale: floating point.
        zero_point: whole numbers of any type, or None for zeros.
        target_dtype: int1 to int8.

    Returns:
        The scales in their own type; zero points as int8, or None where all are 0.

    Raises:
        BuildError: a scale is not positive and finite, or a zero point is no code of the type.
    """
    scale = scale.detach().clone(memory_format=torch.contiguous_format)
    low, high = code_range(target_dtype)
    refuse_blocks(~(scale.isfinite() & (scale > 0)), scale, "scale", "positive finite numbers")
    if zero_point is None:
        return scale, None
    zero = zero_point.detach()
    bad = (zero < low) | (zero > high) | (zero != zero.round())
    refuse_blocks(bad, zero, "zero_point", f"whole numbers from {low} to {high}")
    codes = zero.to(torch.int8).contiguous()
    return scale, codes if bool(codes.any()) else None


def choose_and_write(  # noqa: PLR0917
    weight: torch.Tensor,
    codes: torch.Tensor,
    scale: torch.Tensor,
    zero_point: torch.Tensor | None,
    bounds: tuple[int, int],
    mapping_type: MappingType,
    *,
    elements: int | None = None,
) -> None:
    """Write codes, scales and zero points; values that are not finite give scales that are not.

    Args:
        weight: (..., K), floating point, any strides.
        codes: int8, contiguous, of the weight's shape.
        scale: floating point, contiguous; its shape says what shares a scale.
        zero_point: int8, shaped like `scale`, for the asymmetric mapping, else None.
        bounds: smallest and largest code.
        mapping_type: how real values map to codes.
        elements: how many are worked on at a time; None for what takes an eighth of the weight.

    Raises:
        LayoutError: a block has more than one row.
    """
    choose = CHOOSE[mapping_type]
    by_slabs(
        weight,
        codes,
        scale,
        zero_point,
        lambda slab: _quantize_slab(slab, bounds, choose),
        elements=elements,
    )


def _quantize_slab(slab: Slab, bounds: tuple[int, int], choose: Choose) -> None:
    exact, zero_point = choose(slab, bounds)
    slab.scale.copy_(exact)
    _least(slab.scale)
    if slab.zero_point is not None and zero_point is not None:
        slab.zero_point.copy_(zero_point)
    _write_codes(slab, bounds)


def _least(scale: torch.Tensor) -> None:
    # What torchao allows in the weight's type may be 0 in the scale's.
    half = scale.dtype == torch.float16
    scale.clamp_(min=_LEAST_FLOAT16 if half else torch.finfo(scale.dtype).smallest_normal)


def _write_codes(slab: Slab, bounds: tuple[int, int]) -> None:
    inverse = 1.0 / slab.scale
    if inverse.dtype == torch.float16 and bool(inverse.isinf().any()):
        inverse = torch.where(inverse.isinf(), 1.0 / slab.scale.float(), inverse.float())
    values = slab.product(inverse.unsqueeze(2)).round_()
    if slab.zero_point is not None:
        values.add_(slab.zero_point.unsqueeze(2))
    grouped(slab.codes, slab.scale).copy_(values.clamp_(*bounds))
