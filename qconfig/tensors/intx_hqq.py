"""Scales of symmetric codes by half-quadratic quantization, as torchao 0.18 finds them.

Starting from `max|w| / max(|low|, |high|)`, each round takes the codes of the scale at hand and
then the scale that fits them best, `sum(w * q) / sum(q * q)` of a block, at least the epsilon of
float32; a block of zeros keeps its scale. The rounds end after 20, or when no scale of the whole
weight changes by 1e-5 of itself (`_choose_qparams_and_quantize_scale_only_hqq` of torchao 0.18).
All is done in float32, and the codes are those of the scales before these take their stored type.
"""

import torch

from qconfig.tensors.intx_slabs import Slab, by_slabs, grouped

_ROUNDS = 20
_TOLERANCE = 1e-5
_EPSILON = torch.finfo(torch.float32).eps


def hqq_scale(
    weight: torch.Tensor,
    codes: torch.Tensor,
    blocks: tuple[int, ...],
    bounds: tuple[int, int],
) -> torch.Tensor:
    """Write the codes of a weight and return its scales in float32, or more for float64.

    Args:
        weight: (..., K), floating point, any strides.
        codes: int8, of the weight's shape; they go here.
        blocks: shape of the scales.
        bounds: smallest and largest code.

    Returns:
        Scales of shape `blocks`; not finite where the weight is not.

    Raises:
        LayoutError: a block has more than one row.
    """
    low, high = bounds
    wide = torch.promote_types(weight.dtype, torch.float32)
    scale = torch.empty(blocks, dtype=wide, device=weight.device)

    def start(slab: Slab) -> None:
        peak = slab.load().abs_().amax(2)
        slab.scale.copy_((peak / max(-low, high)).clamp_(min=_EPSILON))

    def finish(slab: Slab) -> None:
        grouped(slab.codes, slab.scale).copy_(_codes(slab.load(), slab.scale, bounds))

    by_slabs(weight, codes, scale, None, start)
    for _ in range(_ROUNDS):
        if not _improve(weight, codes, scale, bounds):
            break
    by_slabs(weight, codes, scale, None, finish, spare=1)
    return scale


def _improve(
    weight: torch.Tensor, codes: torch.Tensor, scale: torch.Tensor, bounds: tuple[int, int]
) -> bool:
    """Fit all scales once; return whether any changed by more than the tolerance."""
    change = torch.zeros((), dtype=scale.dtype, device=scale.device)

    def fit(slab: Slab) -> None:
        values, before = slab.load(), slab.scale
        q = _codes(values, before, bounds)
        over, under = values.mul_(q).sum(2), q.square_().sum(2)
        after = torch.where(under > 0, over / under, before).clamp_(min=_EPSILON)
        step = (after - before).abs() / before.clamp(min=_EPSILON)
        torch.maximum(change, step.max(), out=change)
        before.copy_(after)

    by_slabs(weight, codes, scale, None, fit, spare=1)
    return not bool(change < _TOLERANCE)


def _codes(values: torch.Tensor, scale: torch.Tensor, bounds: tuple[int, int]) -> torch.Tensor:
    return (values / scale.unsqueeze(2)).round_().clamp_(*bounds)
