"""Scales, zero points and values of activations, as plain functions of tensors and a config."""

from typing import Any

import torch

from qconfig.configs.float_formats import minifloat_of
from qconfig.configs.granularity import PerTensor
from qconfig.configs.quant_choices import (
    SCALES_OF_GROUPS,
    ZERO_POINTS_OF_GROUPS,
    ScaleKind,
    ZeroPointKind,
)
from qconfig.configs.scale_shapes import GroupwiseConfig
from qconfig.errors import BuildError, QuantTensorError
from qconfig.modules.made_tensors import Found
from qconfig.tensors.quantizers import (
    at_least,
    bit_width_of,
    float_levels,
    int_levels,
    lowest,
    quantize_float,
    quantize_int,
    restricted,
    scale_of,
    scale_statistic,
    shifted_zero_point,
    statistics_view,
    stored_threshold,
    to_groups,
)
from qconfig.tensors.quantizers.weights import AnyConfig, FloatConfig


def channel_shape(config: Any, channels: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of the threshold of activations: () or 1 wherever it is shared.

    Args:
        config: how activations are quantized.
        channels: shape of an activation with its channels only.

    Raises:
        BuildError: the scale is one from outside; groups have a scale that is learned; or scales
            are per axis and the number of channels is not known.
    """
    if config.scale_kind is ScaleKind.EXTERNAL:
        raise _unserved("activations have no scale from outside", config.scale_kind)
    if isinstance(config, GroupwiseConfig):
        zero_kind = getattr(config, "zero_point_kind", ZeroPointKind.NONE)
        if config.scale_kind not in SCALES_OF_GROUPS:
            raise _unserved("groups of activations have no learned scale", config.scale_kind)
        if zero_kind not in ZERO_POINTS_OF_GROUPS:
            raise _unserved("groups of activations have no learned zero point", zero_kind)
        return ()
    if isinstance(config.granularity, PerTensor):
        return ()
    axis, rank = config.granularity.axis, len(channels)
    # One channel is one of few, on the axis where channels usually are.
    if not -rank <= axis < rank or (channels[axis] == 1 and axis % rank != 1):
        raise BuildError(
            "scales of activations are per axis, and its number of channels is not known",
            pointer="/granularity",
            found=f"axis {axis} of {channels}",
            expected="PerTensor, or an axis whose size is known",
            hint="make the module with channels=, such as channels=(1, 64, 1, 1)",
        )
    kept = axis % rank
    return tuple(size if dim == kept else 1 for dim, size in enumerate(channels))


def _unserved(message: str, kind: Any) -> BuildError:
    return BuildError(message, found=kind.value, expected="another kind")


def check_channels(config: Any, shape: torch.Size, values: torch.Tensor) -> None:
    """Check that scales per axis fit an activation.

    Args:
        config: how activations are quantized.
        shape: that of its threshold.
        values: the activation.

    Raises:
        QuantTensorError: it has another number of channels; or another rank, and the axis is
            counted from the front.
    """
    if len(shape) and config.granularity.axis >= 0 and values.dim() != len(shape):
        raise QuantTensorError(
            "scales are per axis, and the activation has another rank than they are for",
            found=tuple(values.shape),
            expected=f"{len(shape)} dimensions, as in {tuple(shape)}",
            hint="count the axis from the end, or take one scale for all",
        )
    if not shape:
        return
    axis = config.granularity.axis
    if not -values.dim() <= axis or values.shape[axis] != shape[axis]:
        raise QuantTensorError(
            "scales are per axis, and the activation has another number of channels",
            found=tuple(values.shape),
            expected=f"{shape[axis]} on axis {axis}",
        )


def check_groups(config: GroupwiseConfig, rank: int, values: torch.Tensor) -> None:
    """Check that an activation has the dimension along which groups lie.

    Args:
        config: how activations are quantized.
        rank: that of a batch, where it is always the same; else 0.
        values: the activation.

    Raises:
        QuantTensorError: there is no such dimension, or it is counted from the front and is another
            one, for there is no batch.
    """
    found, dim = values.dim(), config.group_dim
    if not -found <= dim < found or (rank and dim >= 0 and rank != found):
        raise QuantTensorError(
            "groups lie along a dimension that the activation does not have",
            found=tuple(values.shape),
            expected=f"{rank} dimensions" if rank else f"a dimension {dim}",
            hint="count group_dim from the end",
        )


def batch_threshold(values: torch.Tensor, config: Any, shape: torch.Size) -> torch.Tensor:
    """Return the statistic of a batch that is its threshold, of the shape of the threshold."""
    view, dim = _view(values, config)
    percentiles = (config.low_percentile, config.high_percentile)
    return scale_statistic(view, config.scale_statistic, dim, percentiles).reshape(shape)


def batch_depth(values: torch.Tensor, config: Any, shape: torch.Size) -> torch.Tensor:
    """Return the value of a batch that its least code stands for, at most 0."""
    view, dim = _view(values, config)
    return lowest(view, config.zero_point_statistic, dim, config.low_percentile).reshape(shape)


def _view(values: torch.Tensor, config: Any) -> tuple[torch.Tensor, int | None]:
    if not values.numel():
        raise QuantTensorError(
            "an empty batch has no statistic",
            found=tuple(values.shape),
            expected="an activation with elements",
            hint="leave empty batches out of training",
        )
    axis = None if isinstance(config.granularity, PerTensor) else config.granularity.axis
    return statistics_view(values, axis)


def levels_of(config: AnyConfig, bits: torch.Tensor | None, like: torch.Tensor) -> torch.Tensor:
    """Return by what a threshold is divided, 0-d, of the type and device of `like`."""
    if isinstance(config, FloatConfig):
        return float_levels(minifloat_of(config), like.dtype, like.device)
    return int_levels(
        bit_width_of(config, like) if bits is None else bits,
        signed=config.signed,
        narrow_range=config.narrow_range,
        restriction=config.scale_restriction,
        dtype=like.dtype,
    )


def settled_scale(stored: torch.Tensor, levels: torch.Tensor, config: Any) -> torch.Tensor:
    """Return the scale of a threshold as it is stored."""
    rule = (config.scale_restriction, config.power_of_two_rounding)
    threshold = restricted(stored.to(levels.dtype), *rule)
    return scale_of(at_least(threshold, config.min_threshold), levels, *rule)


def quantized_activation(
    values: torch.Tensor,
    scale: torch.Tensor,
    depth: torch.Tensor | None,
    bits: torch.Tensor | None,
    config: AnyConfig,
) -> Found:
    """Return rounded values with their scale and zero point.

    Args:
        values: floating point, any shape, or in groups.
        scale: broadcasts to `values`.
        depth: how far below 0 values reach, from 0, or None.
        bits: bit width, 0-d; None for the config's.
        config: how.
    """
    none = values.new_zeros(())
    if isinstance(config, FloatConfig):
        found = quantize_float(
            values,
            scale,
            minifloat_of(config),
            signed=config.signed,
            saturating=config.saturating,
            rounding=config.rounding,
        )
        return found, scale, none
    width = bit_width_of(config, values) if bits is None else bits
    rule: dict[str, Any] = {
        "signed": config.signed,
        "narrow_range": config.narrow_range,
        "rounding": config.rounding,
    }
    quantized = config.quantize_zero_point
    zero = (
        none
        if depth is None
        else shifted_zero_point(depth, scale, width, quantized=quantized, **rule)
    )
    return quantize_int(values, scale, zero, width, **rule), scale, zero


def quantized_groups(values: torch.Tensor, config: Any, bits: torch.Tensor | None) -> Found:
    """Return an activation rounded in groups, each with a scale of its own values.

    Args:
        values: floating point, any shape.
        config: a groupwise one; statistics are those of this activation.
        bits: bit width, 0-d; None for the config's.
    """
    dim = config.group_dim % values.dim()
    groups = to_groups(values, config.group_size, dim)
    levels = levels_of(config, bits, values)
    depth = None
    if config.scale_kind is ScaleKind.UNSCALED:
        scale = torch.ones_like(levels)
    else:
        if config.scale_kind is ScaleKind.CONST:
            threshold = values.new_full((), config.threshold)
        else:
            threshold = scale_statistic(groups, config.scale_statistic, dim + 1, keepdim=True)
        stored = stored_threshold(
            at_least(threshold, config.min_threshold), config.scale_restriction
        )
        scale = settled_scale(stored, levels, config)
    if getattr(config, "zero_point_kind", ZeroPointKind.NONE) is ZeroPointKind.STATS:
        depth = -lowest(groups, config.zero_point_statistic, dim + 1, keepdim=True)
    return quantized_activation(groups, scale, depth, bits, config)
