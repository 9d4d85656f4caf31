"""Factors for input channels: AWQ's search and SmoothQuant's formula.

A channel of the activation is multiplied by p, the weight's column by 1 / p; exactly that p, as the
tensor will carry it, so that rounding p to the weight's type shifts nothing.

AWQ (Lin et al., 2023, arXiv 2306.00978), in the form of torchao 0.18: for i = 0 ... n-1 the scales
are `s = max(mean|x| ** (i / n), 1e-4)`, divided by `sqrt(max(s) * min(s))`; the s with the least
mean squared error of the layer's output wins. SmoothQuant (Xiao et al., 2022, arXiv 2211.10438), as
torchao writes it: `s = (max|x| + eps) ** a / (max|w| + eps) ** (1 - a)`, eps = 2**-23. In both,
p = 1 / s. Channels without signal, or columns of zeros, have finite factors too.
"""

from collections.abc import Callable, Iterator

import torch
from torch.nn import functional

from qconfig.errors import BuildError
from qconfig.tensors.unquantizable import is_finite, not_finite

_LEAST_AWQ_SCALE = 1e-4
_EPSILON = 2.0**-23
_AT_ONCE = 1 << 20

Build = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""From a scaled weight and the activation's factor to the quantized tensor that carries it."""


def awq_scales(absmean: torch.Tensor, count: int) -> Iterator[torch.Tensor]:
    """Yield the scales s that are tried, the first all 1.

    Args:
        absmean: mean |x| of each input channel, float32, (K,).
        count: how many.
    """
    for i in range(count):
        scale = absmean.pow(i / count).clamp(min=_LEAST_AWQ_SCALE)
        # In float64, where the product of the extremes cannot overflow.
        middle = (scale.amax().double() * scale.amin().double()).sqrt()
        yield (scale / middle).to(torch.float32)


def smoothquant_scale(absmax: torch.Tensor, weight: torch.Tensor, alpha: float) -> torch.Tensor:
    """Return SmoothQuant's s, float32, (K,).

    Args:
        absmax: largest |x| of each input channel, float32, (K,).
        weight: (N, K), floating point.
        alpha: how much of the difficulty goes to the weight, from 0 to 1.

    Raises:
        BuildError: the weight holds NaN or infinity, or is beyond float32.
    """
    largest = torch.maximum(-weight.amin(0), weight.amax(0)).to(torch.float32)
    if not bool(largest.isfinite().all()):
        raise not_finite(weight)
    return (absmax + _EPSILON).pow(alpha) / (largest + _EPSILON).pow(1 - alpha)


def activation_factor(scale: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return p = 1 / s in the weight's type, positive and finite, (K,)."""
    limits = torch.finfo(dtype)
    return (1.0 / scale.double()).clamp(limits.smallest_normal, limits.max).to(dtype)


def scaled_weight(weight: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
    """Return the weight with its columns divided by the activation's factor, in its own type.

    Args:
        weight: (N, K).
        factor: p, (K,).
    """
    wide = torch.promote_types(weight.dtype, torch.float32)
    weight, divided, scaled = weight.detach(), 1.0 / factor.to(wide), torch.empty_like(weight)
    rows = max(1, _AT_ONCE // max(1, weight.shape[1]))
    for start in range(0, weight.shape[0], rows):
        # torch widens all of what it is given.
        some = slice(start, start + rows)
        torch.mul(weight[some], divided, out=scaled[some])
    return scaled


def awq_search(
    weight: torch.Tensor, absmean: torch.Tensor, sample: torch.Tensor, count: int, build: Build
) -> torch.Tensor:
    """Return the quantized weight whose outputs on the sample are closest to the float ones.

    One quantized tensor exists at a time: the best is made again in the end.

    Args:
        weight: (N, K), floating point.
        absmean: mean |x| of each input channel, float32, (K,), on the weight's device.
        sample: rows of the activation, (M, K), on the weight's device.
        count: how many scales are tried.
        build: quantizes a scaled weight.

    Raises:
        BuildError: the weight as it is cannot be quantized, or nothing finite comes out.
    """
    rows = sample.to(weight.dtype)
    wanted = functional.linear(rows, weight.detach()).to(torch.float64)
    best: torch.Tensor | None = None
    least = float("inf")
    for scale in awq_scales(absmean, count):
        factor = activation_factor(scale, weight.dtype)
        scaled = scaled_weight(weight, factor)
        # Scales may leave float16, and then this one is none; the first leaves weights as they are.
        if best is not None and not is_finite(scaled):
            continue
        tried = build(scaled, factor)
        del scaled
        error = (functional.linear(rows, tried).to(torch.float64) - wanted).square().mean().item()
        del tried
        if best is None or error < least:
            best, least = factor, error
    if best is None or least != least:  # noqa: PLR0124
        raise BuildError(
            "the outputs on the sample are not finite", found=least, expected="finite outputs"
        )
    return build(scaled_weight(weight, best), best)
