"""Rounding whose gradient is that of the identity (Bengio et al., arXiv 1308.3432)."""

import torch

from qconfig.tensors.quantizers.gradients import with_gradient_of


def round_ste(value: torch.Tensor) -> torch.Tensor:
    """Return the nearest integers, halves to even."""
    return with_gradient_of(value, value.round())


def ceil_ste(value: torch.Tensor) -> torch.Tensor:
    """Return the next integers."""
    return with_gradient_of(value, value.ceil())
