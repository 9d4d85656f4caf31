"""Scales and zero points of blocks of weights, as `choose_qparams_affine` of torchao 0.18.

With the codes of a type from `low` to `high`, in the weight's own type:

| mapping | scale | zero point |
|---|---|---|
| symmetric | `max|w| / ((high - low) / 2)` | 0 |
| symmetric, no clipping | the larger of `min / low` and `max / high` | 0 |
| asymmetric | `(max - min) / (high - low)` | `clamp(low - round(min / scale), low, high)` |

`min` is at most and `max` at least 0; a scale is at least the smallest normal number. Where the
width `max - min` of a float16 block overflows, which gives infinity in torchao, the scale is
`max / (high - low) - min / (high - low)`.
"""

from collections.abc import Callable

import torch

from qconfig.configs.choices import MappingType
from qconfig.tensors.intx_slabs import Slab

Choose = Callable[[Slab, tuple[int, int]], tuple[torch.Tensor, torch.Tensor | None]]
"""From a slab and the bounds of its codes to scales (R, G) and zero points (R, G), or None for 0,
both in the weight's type."""


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


CHOOSE: dict[MappingType, Choose] = {
    MappingType.SYMMETRIC: _symmetric,
    MappingType.SYMMETRIC_NO_CLIPPING_ERR: _no_clipping,
    MappingType.ASYMMETRIC: _asymmetric,
}
"""The function of each mapping."""


def _extremes(slab: Slab) -> tuple[torch.Tensor, torch.Tensor]:
    values = slab.load()
    kind = slab.weight.dtype
    return values.amin(2).clamp_(max=0).to(kind), values.amax(2).clamp_(min=0).to(kind)


def _at_least_normal(scale: torch.Tensor) -> torch.Tensor:
    return scale.clamp_(min=torch.finfo(scale.dtype).smallest_normal)
