"""Int4 codes by half-quadratic quantization, as torchao 0.18 finds them.

Starting from `s = min(15 / (max(w) - min(w)), 20000)` and `z = round(-min(w) * s)` for each group,
a round takes the codes `q = clamp(round(w * s + z), 0, 15)`, the difference `e` of `w` and
`(q - z) / s`, shrinks it to `r = sign(e) * max(|e| - |e| ** -0.3 / beta, 0)`, and sets `z` to the
mean of `q - (w - r) * s`. The rounds end after 20, or when the mean of `|e|` over the weight does
not fall; beta is 10 at first and grows by 1.01 a round. Then the scale is `1 / s`, the zero point
`(8 - z) / s`, the value of code 8 of 0 to 15, here 0 of -8 to 7. All is computed in float32
(`_choose_qparams_and_quantize_affine_hqq` of torchao 0.18, 4 bits, axis 1, whose results are
equal bit for bit unless a round more or less hangs on the last bit of a mean). Each matrix of
experts has rounds of its own.

`r` is zero wherever `|e|` is less than `beta ** (-1 / 1.3)`, at least 0.13, which in usual weights
is everywhere: powers are computed where it is not.
"""

import torch

from qconfig.tensors.int4_quantize import Slab, check_finite_results, empty_results, slabs

_ROUNDS = 20
_BETA, _KAPPA, _NORM = 10.0, 1.01, 0.7
_LARGEST_FACTOR = 2e4
_HIGHEST, _MIDDLE = 15, 8
_SURELY_LESS = 0.999


def quantize_hqq(
    weight: torch.Tensor, group_size: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return packed codes, scales and zero points of a weight.

    Args:
        weight: (..., N, K), floating point, any strides; K is even and divided by `group_size`.
        group_size: elements of a row that share a scale.

    Returns:
        Codes, int8 (..., N, K/2), even columns in the low halves; scales and zero points,
        (..., N, K/g), in the weight's type.

    Raises:
        BuildError: the weight holds NaN or infinity, or its range is too large for its type.
    """
    weight = weight.detach()
    qdata, scale, zero_point = empty_results(weight, group_size)
    if weight.dim() > 2:
        for fields in zip(weight, qdata, scale, zero_point, strict=True):
            _quantize(fields[0], group_size, *fields[1:])
    else:
        _quantize(weight, group_size, qdata, scale, zero_point)
    check_finite_results(weight, scale, zero_point)
    return qdata, scale, zero_point


def _quantize(
    weight: torch.Tensor,
    group_size: int,
    qdata: torch.Tensor,
    scale: torch.Tensor,
    zero_point: torch.Tensor,
) -> None:
    wide = torch.promote_types(weight.dtype, torch.float32)
    factor, zero = torch.empty_like(scale, dtype=wide), torch.empty_like(scale, dtype=wide)
    parts = (weight, group_size, qdata, factor, zero)
    for slab in slabs(*parts):
        _start(slab)
    best, beta = 1e4, _BETA
    for _ in range(_ROUNDS):
        total = sum(_improve(slab, beta) for slab in slabs(*parts, spare=3))
        beta *= _KAPPA
        error = float(torch.tensor(total / max(weight.numel(), 1), dtype=torch.float32))
        if not error < best:
            break
        best = error
    for slab in slabs(*parts):
        values = slab.load()
        values.mul_(slab.scale.unsqueeze(-1)).add_(slab.zero_point.unsqueeze(-1))
        slab.store(values.round_().clamp_(0, _HIGHEST))
    inverse = 1.0 / factor
    scale.copy_(inverse)
    zero_point.copy_((_MIDDLE - zero).mul_(inverse))


def _start(slab: Slab) -> None:
    values = slab.load()
    low, high = values.amin(-1), values.amax(-1)
    factor = (_HIGHEST / (high - low)).clamp_(max=_LARGEST_FACTOR)
    slab.scale.copy_(factor)
    slab.zero_point.copy_((-low * factor).round_())


def _improve(slab: Slab, beta: float) -> float:
    """Replace the zeros of a slab by better ones; return the sum of `|e|` before."""
    weight, (scaled, codes, error) = slab.load(), slab.spares
    factor, zero = slab.scale.unsqueeze(-1), slab.zero_point.unsqueeze(-1)
    torch.mul(weight, factor, out=scaled)
    torch.add(scaled, zero, out=codes).round_().clamp_(0, _HIGHEST)
    torch.sub(codes, zero, out=error).div_(factor)
    torch.sub(weight, error, out=error)
    largest = torch.maximum(error.amax(), -error.amin())
    if not float(largest) < _SURELY_LESS * beta ** (-1 / (2 - _NORM)):
        scaled = weight.sub_(_shrunk(error, beta)).mul_(factor)
    slab.zero_point.copy_(codes.sub_(scaled).mean(-1))
    return float(error.abs_().sum(-1).sum(dtype=torch.float64))


def _shrunk(error: torch.Tensor, beta: float) -> torch.Tensor:
    size = error.abs()
    return torch.sign(error) * torch.relu(size - (1.0 / beta) * torch.pow(size, _NORM - 1))
