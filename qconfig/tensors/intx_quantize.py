"""Codes of 1 to 8 bits, scales and zero points of a weight, bit for bit those of torchao 0.18.

For each block of the last dimension, with the codes of the type from `low` to `high`, in the
weight's own type (`choose_qparams_affine` of torchao 0.18):

| mapping | scale | zero point |
|---|---|---|
| symmetric | `max|w| / ((high - low) / 2)` | 0 |
| symmetric, no clipping | the larger of `min / low` and `max / high` | 0 |
| asymmetric | `(max - min) / (high - low)` | `clamp(low - round(min / scale), low, high)` |

`min` is at most and `max` at least 0; a scale is at least the smallest normal number. Then the
scale takes its stored type and `q = clamp(round(w * (1 / scale)) + zero_point, low, high)`, halves
to even; the reciprocal is taken in the scale's type and the product in the wider of both types.

Where torchao's codes are noise, these are sound: a stored float16 scale never becomes 0, its
reciprocal never infinity, and the width `max - min` of a float16 block does not overflow.

Steps on 16-bit floats are slow on CPUs, so rows are widened to float32 in a buffer that stays in
cache; only the product is rounded to the type it has in torchao.
"""

from collections.abc import Callable

import torch

from qconfig.codec.dtypes import DType
from qconfig.configs.choices import IntxChooseQParamsAlgorithm, MappingType
from qconfig.errors import BuildError
from qconfig.layouts.blocks import scale_shape
from qconfig.layouts.intx import code_range
from qconfig.tensors.intx_hqq import hqq_scale
from qconfig.tensors.intx_slabs import Slab, by_slabs, grouped

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
        BuildError: the weight holds NaN or infinity (count and first index are named), a scale
            overflows its type, or the mapping does not exist for these codes or this algorithm.
        LayoutError: the blocks do not tile the weight, or the target type is another.
    """
    weight = weight.detach()
    bounds = code_range(target_dtype)
    _check_mapping(mapping_type, bounds, algorithm)
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
        choose = _CHOOSE[mapping_type]
        by_slabs(
            weight, codes, scale, zero_point, lambda slab: _quantize_slab(slab, bounds, choose)
        )
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


def _check_mapping(
    mapping_type: MappingType, bounds: tuple[int, int], algorithm: IntxChooseQParamsAlgorithm
) -> None:
    if mapping_type is MappingType.SYMMETRIC_NO_CLIPPING_ERR and bounds[1] == 0:
        raise BuildError(
            "int1 has no positive code, so that every positive value would be clipped",
            pointer="/mapping_type",
            found=mapping_type.value,
            expected="SYMMETRIC or ASYMMETRIC",
        )
    hqq = algorithm is IntxChooseQParamsAlgorithm.HQQ_SCALE_ONLY
    if hqq and mapping_type is not MappingType.SYMMETRIC:
        raise BuildError(
            "HQQ_SCALE_ONLY finds scales of the symmetric mapping only",
            pointer="/mapping_type",
            found=mapping_type.value,
            expected="SYMMETRIC",
        )


_Choose = Callable[[Slab, tuple[int, int]], tuple[torch.Tensor, torch.Tensor | None]]


def _quantize_slab(slab: Slab, bounds: tuple[int, int], choose: _Choose) -> None:
    exact, zero_point = choose(slab, bounds)
    slab.scale.copy_(exact)
    _least(slab.scale)
    if slab.zero_point is not None and zero_point is not None:
        slab.zero_point.copy_(zero_point)
    _write_codes(slab, bounds)


def _symmetric(slab: Slab, bounds: tuple[int, int]) -> tuple[torch.Tensor, None]:
    low, high = bounds
    largest = slab.load().abs_().amax(2).to(slab.weight.dtype)
    return _at_least_normal(largest / (float(high - low) / 2)), None


def _no_clipping(slab: Slab, bounds: tuple[int, int]) -> tuple[torch.Tensor, None]:
    low, high = bounds
    least, most = _extremes(slab)
    from_least, from_most = least / float(low), most / float(high)
    return _at_least_normal(torch.where(from_least > from_most, from_least, from_most)), None


def _asymmetric(slab: Slab, bounds: tuple[int, int]) -> tuple[torch.Tensor, torch.Tensor]:
    low, high = bounds
    steps = float(high - low)
    least, most = _extremes(slab)
    width = most - least
    scale = width / steps
    if width.dtype == torch.float16:
        scale = torch.where(width.isinf(), most / steps - least / steps, scale)
    scale = _at_least_normal(scale)
    return scale, torch.clamp(low - torch.round(least / scale), low, high)


_CHOOSE: dict[MappingType, _Choose] = {
    MappingType.SYMMETRIC: _symmetric,
    MappingType.SYMMETRIC_NO_CLIPPING_ERR: _no_clipping,
    MappingType.ASYMMETRIC: _asymmetric,
}


def _extremes(slab: Slab) -> tuple[torch.Tensor, torch.Tensor]:
    values = slab.load()
    kind = slab.weight.dtype
    return values.amin(2).clamp_(max=0).to(kind), values.amax(2).clamp_(min=0).to(kind)


def _at_least_normal(scale: torch.Tensor) -> torch.Tensor:
    return scale.clamp_(min=torch.finfo(scale.dtype).smallest_normal)


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


def not_finite(weight: torch.Tensor, scale_dtype: torch.dtype) -> BuildError:
    """Return the error of a weight that has no finite scale.

    Args:
        weight: what was to be quantized.
        scale_dtype: type of the scales.
    """
    bad = ~weight.isfinite()
    if not bool(bad.any()):
        return BuildError(
            f"the weight is too large for scales in {str(scale_dtype).removeprefix('torch.')}",
            found=float(weight.abs().max()),
            expected=f"scales up to {torch.finfo(scale_dtype).max}",
            hint="give the scales a type with a wider range",
        )
    first = tuple(bad.nonzero()[0].tolist())
    return BuildError(
        f"the weight holds {int(bad.sum())} values that are NaN or infinite, "
        f"the first at {list(first)}",
        found=weight[first].item(),
        expected="finite values",
        hint="quantize the weights of a sound checkpoint, or skip this parameter",
    )
