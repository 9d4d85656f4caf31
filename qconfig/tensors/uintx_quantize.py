"""Unsigned codes of 1 to 8 bits, with scales and zero points of groups of a row.

With codes from 0 to `high`:

| algorithm | scale | zero point |
|---|---|---|
| MIN_MAX | `(max - min) / high` | `clamp(-round(min / scale), 0, high)`, a code |
| SYMMETRIC | `max|w| / (high / 2)` | `(high + 1) / 2`, a code |
| HQQ | `1 / s` | `(middle - z) / s`, the value of the middle code |

`min` is at most and `max` at least 0. The first two are `choose_qparams_affine` and
`quantize_affine` of torchao, in the weight's type, with the least scale that torchao's
UIntXWeightOnlyConfig had, 2**-23, and 1e-5 for SYMMETRIC as its 8 bits have. HQQ is
`_choose_qparams_and_quantize_affine_hqq` of torchao 0.18, in float32:
see `qconfig.tensors.int4_hqq`; with other than 4 bits the first `z` is not rounded.
"""

from collections.abc import Iterator

import torch

from qconfig.configs.uintx import UIntxChooseQParamsAlgorithm
from qconfig.tensors.slab_size import slab_elements
from qconfig.tensors.unquantizable import is_finite, not_finite

_LEAST, _LEAST_SYMMETRIC = 2.0**-23, 1e-5
_ROUNDS = 20
_BETA, _KAPPA, _NORM = 10.0, 1.01, 0.7
_LARGEST_FACTOR = 2e4

Quantized = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def quantize_uintx(
    weight: torch.Tensor, group_size: int, bits: int, algorithm: UIntxChooseQParamsAlgorithm
) -> Quantized:
    """Return codes, scales and zero points of a weight.

    Args:
        weight: (N, K), float16, bfloat16, float32 or float64; it is left as it is.
        group_size: elements of a row that share a scale, a divisor of K.
        bits: 1 to 8.
        algorithm: as above.

    Returns:
        Codes, uint8 (N, K); scales (N, K/g) in the weight's type; zero points of that shape,
        int32, or in the weight's type for HQQ.

    Raises:
        BuildError: the weight holds NaN or infinity, or a scale overflows its type.
    """
    weight = weight.detach()
    groups = weight.reshape(weight.shape[0], weight.shape[1] // group_size, group_size)
    if algorithm is UIntxChooseQParamsAlgorithm.HQQ:
        codes, scale, zero_point = _hqq(groups, bits)
    else:
        symmetric = algorithm is UIntxChooseQParamsAlgorithm.SYMMETRIC
        codes, scale, zero_point = _affine(groups, (1 << bits) - 1, symmetric=symmetric)
    if not all(is_finite(part) for part in (weight, scale, zero_point)):
        raise not_finite(weight, scale.dtype)
    return codes.reshape(weight.shape), scale, zero_point


def _affine(groups: torch.Tensor, high: int, *, symmetric: bool) -> Quantized:
    least, most = groups.amin(2).clamp(max=0), groups.amax(2).clamp(min=0)
    if symmetric:
        scale = (torch.maximum(-least, most) / (high / 2)).clamp(min=_LEAST_SYMMETRIC)
        zero = torch.full_like(scale, (high + 1) // 2)
    else:
        scale = (most - least) / float(high)
        # In float16 the width may overflow where the scale does not.
        scale = torch.where(scale.isinf(), most / high - least / high, scale).clamp(min=_LEAST)
        zero = (-torch.round(least / scale)).clamp(0, high)
    zero_point = zero.nan_to_num().to(torch.int32)
    inverse = 1.0 / scale
    if bool(inverse.isinf().any()):  # of the least scales in float16
        inverse = torch.where(inverse.isinf(), 1.0 / scale.float(), inverse.float())
    codes = torch.empty(groups.shape, dtype=torch.uint8, device=groups.device)
    for rows in _slabs(groups):
        scaled = torch.round(groups[rows] * inverse[rows].unsqueeze(2))
        scaled = scaled.add(zero_point[rows].unsqueeze(2)).clamp(0, high)
        codes[rows] = scaled.nan_to_num().to(torch.uint8)
    return codes, scale, zero_point


def _hqq(groups: torch.Tensor, bits: int) -> Quantized:
    high, middle = (1 << bits) - 1, 1 << (bits - 1)
    kind, wide = groups.dtype, torch.promote_types(groups.dtype, torch.float32)
    low, most = groups.amin(2, keepdim=True).to(wide), groups.amax(2, keepdim=True).to(wide)
    factor = (high / (most - low)).clamp(max=_LARGEST_FACTOR)
    zero = -low * factor
    if bits == 4:
        zero = zero.round()
    _improve(groups, factor, zero, high)
    codes = torch.empty(groups.shape, dtype=torch.uint8, device=groups.device)
    for rows in _slabs(groups):
        scaled = groups[rows].to(wide) * factor[rows] + zero[rows]
        codes[rows] = torch.round(scaled).clamp(0, high).nan_to_num().to(torch.uint8)
    scale = 1.0 / factor
    zero_point = (middle - zero) * scale
    return codes, scale.squeeze(2).to(kind), zero_point.squeeze(2).to(kind)


def _improve(groups: torch.Tensor, factor: torch.Tensor, zero: torch.Tensor, high: int) -> None:
    """Better the zeros in rounds, until the mean error of the whole weight falls no more."""
    best, beta = 1e4, _BETA
    for _ in range(_ROUNDS if groups.numel() else 0):
        total = 0.0
        for rows in _slabs(groups):
            total += _improve_slab(
                groups[rows].to(zero.dtype), factor[rows], zero[rows], high, beta
            )
        beta *= _KAPPA
        mean = float(torch.tensor(total / groups.numel(), dtype=zero.dtype))
        if not mean < best:
            break
        best = mean


def _improve_slab(
    values: torch.Tensor, factor: torch.Tensor, zero: torch.Tensor, high: int, beta: float
) -> float:
    """Replace the zeros of some rows by better ones; return the sum of the errors before."""
    codes = torch.round(values * factor + zero).clamp(0, high)
    error = values - (codes - zero) / factor
    size = error.abs()
    shrunk = torch.sign(error) * torch.relu(size - (1.0 / beta) * torch.pow(size, _NORM - 1))
    zero.copy_(torch.mean(codes - (values - shrunk) * factor, 2, keepdim=True))
    return float(size.sum(-1).sum(dtype=torch.float64))


def _slabs(groups: torch.Tensor) -> Iterator[slice]:
    """Yield rows whose copies in float32 stay in cache."""
    step = max(1, slab_elements(groups, 32) // max(1, groups.shape[1] * groups.shape[2]))
    for start in range(0, groups.shape[0], step):
        yield slice(start, start + step)
