"""A bit width that training changes."""

from typing import Any

import torch
from torch import nn

from qconfig.tensors.quantizers import rounded
from qconfig.tensors.quantizers.zero_points import magnitude


def learned_bits(config: Any, like: torch.Tensor) -> nn.Parameter | None:
    """Return the parameter of a learned bit width, 0-d; None where it is fixed or there is none.

    Args:
        config: the config of the quantizer.
        like: the parameter has its type and device.
    """
    if not getattr(config, "learned_bit_width", False):
        return None
    return nn.Parameter(like.detach().new_full((), float(config.bit_width)))


def used_bits(config: Any, learned: torch.Tensor | None) -> torch.Tensor | None:
    """Return the bit width that is computed with: rounded, and never below `min_bit_width`.

    `round(|learned - min_bit_width| + min_bit_width)`, where the gradient passes the rounding: a
    width that fell below the least one rises from it again.
    """
    if learned is None:
        return None
    return rounded(magnitude(learned - config.min_bit_width) + config.min_bit_width)
