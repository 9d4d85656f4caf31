"""Quantize a weight as a config says: what its threshold is, its scale, its zero point, its values.

A weight is quantized anew whenever it is used. Thresholds, zero points and bit widths that are
learned are passed in; `first_threshold` and `first_zero_point` give what they begin with.
"""

import torch

from qconfig.configs.float16 import float16_refusal
from qconfig.configs.float_formats import minifloat_of
from qconfig.configs.float_quant import FloatQuantConfig
from qconfig.configs.groupwise_quant import GroupwiseFloatQuantConfig, GroupwiseIntQuantConfig
from qconfig.configs.int_quant import IntQuantConfig
from qconfig.configs.quant_choices import LEARNED_SCALES, ScaleKind, ZeroPointKind
from qconfig.configs.scale_shapes import (
    GroupwiseConfig,
    axis_of,
    group_dim_of,
    scale_shape,
)
from qconfig.errors import QuantTensorError
from qconfig.tensors.quantizers.groups import to_groups
from qconfig.tensors.quantizers.integers import quantize_int
from qconfig.tensors.quantizers.minifloats import quantize_float
from qconfig.tensors.quantizers.scales import (
    at_least,
    float_levels,
    int_levels,
    restricted,
    scale_of,
    stored_threshold,
)
from qconfig.tensors.quantizers.statistics import lowest, scale_statistic, statistics_view
from qconfig.tensors.quantizers.zero_points import magnitude, shifted_zero_point
from qconfig.tensors.slab_size import slab_elements

IntConfig = IntQuantConfig | GroupwiseIntQuantConfig
FloatConfig = FloatQuantConfig | GroupwiseFloatQuantConfig
AnyConfig = IntConfig | FloatConfig


def quantize_weight(
    weight: torch.Tensor,
    config: AnyConfig,
    *,
    threshold: torch.Tensor | None = None,
    zero_point: torch.Tensor | None = None,
    bit_width: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the values of a quantized weight, their scales and zero points.

    Args:
        weight: floating point, any shape with elements.
        config: how.
        threshold: what was learned, as `first_threshold` stores it; None for what that gives.
        zero_point: what was learned, as `first_zero_point` stores it; None for what that gives.
        bit_width: what was learned, 0-d; None for the config's.

    Returns:
        Values, of the shape of the weight, or in groups; scales, 0-d, or of as many dimensions as
        the values, with 1 wherever a scale is shared; zero points likewise, 0-d zeros if there are
        none.
    """
    stored = first_threshold(weight, config) if threshold is None else threshold
    values = weight
    if isinstance(config, GroupwiseConfig):
        values = to_groups(weight, config.group_size, config.group_dim)
    if isinstance(config, FloatConfig):
        return _float_weight(values, weight, config, stored)
    bits = bit_width_of(config, weight) if bit_width is None else bit_width
    levels = int_levels(
        bits,
        signed=config.signed,
        narrow_range=config.narrow_range,
        restriction=config.scale_restriction,
        dtype=weight.dtype,
    )
    scale = _scale(stored, levels, config)
    passes = _passes_straight_through(config)
    zero = _zero_point(weight, config, scale, bits, zero_point)
    found = quantize_int(
        values,
        scale,
        zero,
        bits,
        signed=config.signed,
        narrow_range=config.narrow_range,
        rounding=config.rounding,
        straight_through=passes,
    )
    return found, scale, zero


def quantize_by_slabs(
    weight: torch.Tensor, config: AnyConfig
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return what `quantize_weight` does, with little memory where one scale serves all.

    Args:
        weight: as there, without gradients.
        config: how.
    """
    if isinstance(config, GroupwiseConfig) or axis_of(config, weight.dim()) is not None:
        return quantize_weight(weight, config)
    threshold = first_threshold(weight, config)
    zero = None if isinstance(config, FloatConfig) else first_zero_point(weight, config)
    values = torch.empty_like(weight, memory_format=torch.contiguous_format)
    step = max(1, slab_elements(weight, 8 * weight.itemsize) // max(1, weight[0].numel()))
    scale = zero_point = weight
    for start in range(0, weight.shape[0], step):
        rows = slice(start, start + step)
        values[rows], scale, zero_point = quantize_weight(
            weight[rows], config, threshold=threshold, zero_point=zero
        )
    return values, scale, zero_point


def bit_width_of(config: IntConfig, like: torch.Tensor) -> torch.Tensor:
    """Return the bits of a code as a tensor, 0-d, of the type and device of `like`.

    Raises:
        QuantTensorError: `like` is float16, which does not hold codes of so many bits.
    """
    reason = float16_refusal(config) if like.dtype is torch.float16 else None
    if reason is not None:
        raise QuantTensorError(
            reason,
            found=f"bit_width {config.bit_width}",
            expected="fewer bits, or values of another type",
            hint="use bfloat16 or float32",
        )
    return like.new_full((), float(config.bit_width))


def first_threshold(weight: torch.Tensor, config: AnyConfig) -> torch.Tensor | None:
    """Return the threshold of a weight, as models store it; learned ones begin with it.

    Args:
        weight: floating point, any shape with elements.
        config: how; its scale kind is not EXTERNAL.

    Returns:
        Of the shape of scales, and log2 where the config says so; None where nothing is scaled.
    """
    if config.scale_kind is ScaleKind.UNSCALED:
        return None
    shape = scale_shape(tuple(weight.shape), config)
    if config.threshold is not None:
        given = torch.full((), config.threshold, dtype=torch.float32, device=weight.device)
        given = stored_threshold(given.to(weight.dtype), config.scale_restriction)
        return given.expand(shape).clone() if config.scale_kind in LEARNED_SCALES else given
    found = _statistic(weight, config).reshape(shape)
    return stored_threshold(at_least(found, config.min_threshold), config.scale_restriction)


def first_zero_point(weight: torch.Tensor, config: IntConfig) -> torch.Tensor | None:
    """Return what a zero point comes from, as models store it; learned ones begin with it.

    Args:
        weight: floating point, any shape with elements.
        config: how.

    Returns:
        Of the shape of scales: how far below 0 values reach, with either sign; None where there is
        no zero point.
    """
    if config.zero_point_kind is ZeroPointKind.NONE:
        return None
    shape = scale_shape(tuple(weight.shape), config)
    if config.zero_point is not None:
        return weight.new_full(shape, config.zero_point)
    if isinstance(config, GroupwiseConfig):
        values, dim = _grouped(weight, config)
        least = lowest(values, config.zero_point_statistic, dim, keepdim=True)
    else:
        values, over = statistics_view(weight, axis_of(config, weight.dim()))
        least = lowest(values, config.zero_point_statistic, over, config.low_percentile)
    return least.reshape(shape)


def _scale(stored: torch.Tensor | None, levels: torch.Tensor, config: AnyConfig) -> torch.Tensor:
    if stored is None:
        return levels.new_ones(1)
    rule = (config.scale_restriction, config.power_of_two_rounding)
    return scale_of(at_least(restricted(stored, *rule), config.min_threshold), levels, *rule)


def _statistic(weight: torch.Tensor, config: AnyConfig) -> torch.Tensor:
    if isinstance(config, GroupwiseConfig):
        values, dim = _grouped(weight, config)
        return scale_statistic(values, config.scale_statistic, dim, keepdim=True)
    values, over = statistics_view(weight, axis_of(config, weight.dim()))
    percentiles = (config.low_percentile, config.high_percentile)
    return scale_statistic(values, config.scale_statistic, over, percentiles)


def _grouped(weight: torch.Tensor, config: GroupwiseConfig) -> tuple[torch.Tensor, int]:
    dim = group_dim_of(config, weight.dim())
    return to_groups(weight, config.group_size, dim), dim + 1


def _float_weight(
    values: torch.Tensor, weight: torch.Tensor, config: FloatConfig, stored: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    kind = minifloat_of(config)
    scale = _scale(stored, float_levels(kind, weight.dtype, weight.device), config)
    found = quantize_float(
        values,
        scale,
        kind,
        signed=config.signed,
        saturating=config.saturating,
        rounding=config.rounding,
    )
    return found, scale, weight.new_zeros(())


def _zero_point(
    weight: torch.Tensor,
    config: IntConfig,
    scale: torch.Tensor,
    bit_width: torch.Tensor,
    learned: torch.Tensor | None,
) -> torch.Tensor:
    stored = first_zero_point(weight, config) if learned is None else learned
    if stored is None:
        return weight.new_zeros(())
    is_learned = config.zero_point_kind is not ZeroPointKind.STATS
    return shifted_zero_point(
        magnitude(stored) if is_learned else -stored,
        scale,
        bit_width,
        signed=config.signed,
        narrow_range=config.narrow_range,
        rounding=config.rounding,
        quantized=config.quantize_zero_point,
        straight_through=_passes_straight_through(config),
    )


def _passes_straight_through(config: IntConfig) -> bool:
    """Whether gradients of weights out of range pass: nothing that is learned depends on them."""
    return config.scale_kind not in LEARNED_SCALES and not config.learned_bit_width
