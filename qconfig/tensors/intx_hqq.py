"""Scales of symmetric codes by half-quadratic quantization, as torchao 0.18 finds them.

Starting from `max|w| / max(|low|, |high|)`, each round takes the codes of the scale at hand and
then the scale that fits them best, `sum(w * q) / sum(q * q)` of a block, at least the epsilon of
float32; a block of zeros keeps its scale. The rounds end after 20, or when no scale of the whole
weight changes by 1e-5 of itself (`_choose_qparams_and_quantize_scale_only_hqq` of torchao 0.18).
All is done in float32, and the codes are those of the scales before these take their stored type.

A few rows go through all their rounds in cache. A block whose scale does not move is at rest for
good and is left out: of normal weights in groups of 32, half are after the second round.
"""

import torch

from qconfig.tensors.intx_slabs import Slab, by_slabs, grouped

_ROUNDS = 20
_TOLERANCE = 1e-5
_SHARE = 0.75
_FEWEST = 2  # torch sums a single block in another order
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
    wide = torch.promote_types(weight.dtype, torch.float32)
    scale = torch.empty(blocks, dtype=wide, device=weight.device)
    changes = _search(weight, codes, scale, bounds, _ROUNDS)
    rounds = next((i + 1 for i, c in enumerate(changes) if c < _TOLERANCE), _ROUNDS)
    if any(changes[rounds:]):
        # The whole weight had come to rest, but a slab went on.
        _search(weight, codes, scale, bounds, rounds)
    return scale


def _search(
    weight: torch.Tensor,
    codes: torch.Tensor,
    scale: torch.Tensor,
    bounds: tuple[int, int],
    rounds: int,
) -> list[float]:
    """Write scales and codes after so many rounds; return the largest change of each round."""
    changes = torch.zeros(_ROUNDS, dtype=scale.dtype, device=scale.device)

    def search(slab: Slab) -> None:
        values = slab.load().flatten(0, 1)
        q, product = (grouped(buffer, slab.scale).flatten(0, 1) for buffer in slab.spare)
        peak = torch.abs(values, out=product).amax(1)
        found = (peak / max(-bounds[0], bounds[1])).clamp_(min=_EPSILON)
        moving, now = torch.arange(len(found), device=found.device), found
        for i in range(rounds):
            count = len(now)
            after = _improved(values, now, bounds, q[:count], product[:count])
            change = ((after - now).abs() / now.clamp(min=_EPSILON)).max()
            torch.maximum(changes[i], change, out=changes[i])
            moved = after != now
            moves = int(moved.count_nonzero())
            now = after
            if not moves:
                break
            # A scale that has not changed will not: its codes stay the same.
            if _FEWEST <= moves <= _SHARE * count:
                found[moving] = now
                values, moving, now = values[moved], moving[moved], now[moved]
        found[moving] = now
        slab.scale.copy_(found.view(slab.scale.shape))
        _write_codes(slab.load().flatten(0, 1), found, bounds, q)
        grouped(slab.codes, slab.scale).flatten(0, 1).copy_(q)

    by_slabs(weight, codes, scale, None, search, spare=2)
    largest: list[float] = changes.tolist()
    return largest


def _improved(
    values: torch.Tensor,
    scale: torch.Tensor,
    bounds: tuple[int, int],
    q: torch.Tensor,
    product: torch.Tensor,
) -> torch.Tensor:
    """Return the scales that fit blocks (n, g) best, given the codes of scales (n,)."""
    _write_codes(values, scale, bounds, q)
    over = torch.mul(values, q, out=product).sum(1)
    under = q.square_().sum(1)
    return torch.where(under > 0, over / under, scale).clamp_(min=_EPSILON)


def _write_codes(
    values: torch.Tensor, scale: torch.Tensor, bounds: tuple[int, int], q: torch.Tensor
) -> None:
    torch.div(values, scale.unsqueeze(1), out=q).round_().clamp_(*bounds)
