"""Which configs of the fake-quantized family a layer, or an activation, can serve. Pure."""

from typing import Any

from qconfig.builders.base import Target
from qconfig.codec.dtypes import DType
from qconfig.configs.float16 import float16_refusal
from qconfig.configs.granularity import PerAxis, PerTensor
from qconfig.configs.quant_choices import (
    SCALES_OF_GROUPS,
    ZERO_POINTS_OF_GROUPS,
    ScaleKind,
    ZeroPointKind,
)
from qconfig.configs.scale_shapes import GroupwiseConfig

_CHANNELS = 1
"""The axis of channels, in what goes into a layer and in what comes out."""


def layer_refusal(config: Any, target: Target) -> str | None:
    """Return why a Linear or a convolution cannot round what a config says, or None.

    Args:
        config: that of the weight, with those of input, output and bias.
        target: the weight.
    """
    rank, is_half = len(target.shape), target.dtype is DType.FLOAT16
    for role in ("input", "output"):
        nested = getattr(config, role)
        if nested is None:
            continue
        reason = activation_refusal(nested, rank) or (is_half and float16_refusal(nested))
        if reason:
            return f"{role}: {reason}"
    if config.bias is None:
        return None
    if config.bias.scale_kind is ScaleKind.EXTERNAL:
        reason = _product_refusal(config, rank)
    else:
        reason = _bias_refusal(config.bias) or (is_half and float16_refusal(config.bias))
    return f"bias: {reason}" if reason else None


def activation_refusal(config: Any, rank: int | None = None) -> str | None:
    """Return why activations cannot be quantized as a config says, or None.

    Args:
        config: how.
        rank: that of a batch; None where neither that nor the number of channels is known.
    """
    if isinstance(config, GroupwiseConfig):
        return _groups_refusal(config, rank)
    if isinstance(config.granularity, PerTensor):
        return None
    if rank is None:
        return "it does not say how many channels there are, which PerAxis needs"
    axis = config.granularity.axis
    if axis not in (_CHANNELS, _CHANNELS - rank):
        return f"axis {axis} is not that of channels, {_CHANNELS} or {_CHANNELS - rank}"
    return None


def _groups_refusal(config: Any, rank: int | None) -> str | None:
    """Return why activations cannot be quantized in groups as a config says, or None."""
    zero_kind = getattr(config, "zero_point_kind", ZeroPointKind.NONE)
    if config.scale_kind not in SCALES_OF_GROUPS:
        return f"groups of activations have no scale_kind {config.scale_kind.value}"
    if zero_kind not in ZERO_POINTS_OF_GROUPS:
        return f"groups of activations have no zero_point_kind {zero_kind.value}"
    if rank is not None and rank > 2 and not -rank <= config.group_dim < rank:
        return f"group_dim {config.group_dim} is no dimension of {rank}"
    return None


def _bias_refusal(config: Any) -> str | None:
    """Return why a bias cannot have a scale of its own, or None."""
    if isinstance(config, GroupwiseConfig):
        return "a bias has no groups"
    if config.granularity not in (PerTensor(), PerAxis(0), PerAxis(-1)):
        return f"a bias has no axis {config.granularity.axis}"
    return None


def _product_refusal(config: Any, rank: int) -> str | None:
    """Return why a bias cannot have the scale of the product that it is added to, or None."""
    for what, nested, shared in (
        ("weight", config, (PerTensor(), PerAxis(0), PerAxis(-rank))),
        ("input", config.input, (PerTensor(),)),
    ):
        if isinstance(nested, GroupwiseConfig):
            return f"it has the scale of the product, and the {what} has groups"
        if nested is not None and nested.granularity not in shared:
            return f"it has the scale of the product, and the {what} has scales of another axis"
    return None
