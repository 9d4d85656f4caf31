"""From values, scale and zero point to the quant tensor that a config describes, or to less."""

from typing import Any, NamedTuple

import torch

from qconfig.configs.float_formats import minifloat_of
from qconfig.configs.groupwise_quant import GroupwiseFloatQuantConfig
from qconfig.configs.scale_shapes import GroupwiseConfig
from qconfig.tensors.quant_tensor import (
    FloatQuantTensor,
    GroupwiseFloatQuantTensor,
    GroupwiseIntQuantTensor,
    IntQuantTensor,
)
from qconfig.tensors.quantizers import from_groups
from qconfig.tensors.quantizers.weights import AnyConfig, FloatConfig

Found = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""Values, scale and zero point."""


class Rounded(NamedTuple):
    """What a layer that returns plain tensors needs of a quant tensor; nothing is wrapped.

    Args:
        value: rounded values, of the logical shape.
        scale: their scale; that of groups in the form of groups.
    """

    value: torch.Tensor
    scale: torch.Tensor


def rounded_values(config: AnyConfig, found: Found, shape: torch.Size) -> Rounded:
    """Return values and scale of what was quantized.

    Args:
        config: how.
        found: values, scale and zero point; grouped where the config says so.
        shape: the logical shape.
    """
    value, scale, _ = found
    if isinstance(config, GroupwiseConfig):
        value = from_groups(value, tuple(shape), config.group_dim)
    return Rounded(value, scale)


def made_tensor(
    config: AnyConfig,
    found: Found,
    shape: torch.Size,
    *,
    training: bool,
    bit_width: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return the quant tensor of a config.

    Args:
        config: how the values were quantized.
        found: values, scale and zero point; grouped where the config says so.
        shape: the logical shape.
        training: whether it is made in training.
        bit_width: what was learned, 0-d; None for the config's.
    """
    value, scale, zero_point = found
    fields: dict[str, Any] = {
        "value": value,
        "scale": scale,
        "zero_point": zero_point,
        "signed": config.signed,
        "training": training,
    }
    if isinstance(config, FloatConfig):
        kind = minifloat_of(config)
        fields |= {
            "exponent_bit_width": kind.exponent_bit_width,
            "mantissa_bit_width": kind.mantissa_bit_width,
            "exponent_bias": kind.exponent_bias,
            "saturating": config.saturating,
            "inf_values": kind.inf_values,
            "nan_values": kind.nan_values,
        }
    else:
        fields["bit_width"] = config.bit_width if bit_width is None else bit_width
    if isinstance(config, GroupwiseConfig):
        fields |= {
            "group_size": config.group_size,
            "group_dim": config.group_dim,
            "dequant_shape": tuple(shape),
        }
        if isinstance(config, GroupwiseFloatQuantConfig):
            return GroupwiseFloatQuantTensor.made(shape, **fields)
        return GroupwiseIntQuantTensor.made(shape, **fields)
    if isinstance(config, FloatConfig):
        return FloatQuantTensor.made(**fields)
    return IntQuantTensor.made(**fields)
