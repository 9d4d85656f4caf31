"""The quantizer of activations: given, learned or running thresholds, and what is seen meanwhile.

Four kinds of state, by `scale_kind`:

- CONST: none, the config has the threshold.
- PARAMETER: `threshold`, learned from the start.
- PARAMETER_FROM_STATS: for `collect_steps` training steps, a batch is rounded with its own
  statistic while `statistic` keeps the running one; the next step makes that the value of
  `threshold`, which is learned from there on.
- STATS: the same without an end; nothing is learned.

`steps` counts the training steps seen. It is a buffer, so that a run that was saved goes on where
it stopped, in the middle of calibration too. In evaluation the running statistic serves until it is
learned; before the first step there is none, and a forward raises UncalibratedError. Compiled or
exported, where no element can be looked at, the outputs are NaN instead.
"""

from typing import Any, cast

import torch
from torch import nn

from qconfig.configs.quant_choices import (
    LEARNED_SCALES,
    LEARNED_ZERO_POINTS,
    SEEN_SCALES,
    SEEN_ZERO_POINTS,
    ScaleKind,
    ZeroPointKind,
)
from qconfig.configs.scale_shapes import GroupwiseConfig
from qconfig.errors import QuantTensorError
from qconfig.modules.activation_scales import (
    batch_depth,
    batch_threshold,
    channel_shape,
    check_channels,
    check_groups,
    levels_of,
    quantized_activation,
    quantized_groups,
    settled_scale,
)
from qconfig.modules.learned_bits import learned_bits, used_bits
from qconfig.modules.made_tensors import Found, made_tensor, rounded_values
from qconfig.modules.recorded_config import RecordsConfig, own_part
from qconfig.modules.running_statistics import Moment, advance, moment_of, remember, served, turned
from qconfig.tensors.quant_tensor.base import QuantTensor
from qconfig.tensors.quantizers import at_least, stored_threshold
from qconfig.tensors.quantizers.zero_points import magnitude


class ActivationQuantizer(RecordsConfig):
    """Rounds activations as a config says, and holds what was seen and learned.

    Args:
        config: an Int-, Float- or groupwise config; those of input, output and bias are not read.
        channels: shape of an activation with its channels only, such as (1, 64, 1, 1); needed
            where scales are per axis.

    Attributes:
        threshold: the learned threshold, as Brevitas stores it, or None where none is learned.
        zero_point: the learned depth below 0, or None.
        bit_width: the learned bit width, 0-d, or None.
        statistic: running threshold, or None where none is seen.
        zero_point_statistic: running depth below 0, or None.
        steps: int64, 0-d; training steps seen, up to `collect_steps + 1` where what is seen is
            learned; None where nothing is seen.

    Raises:
        BuildError: activations cannot be quantized so.
    """

    threshold: nn.Parameter | None
    zero_point: nn.Parameter | None
    bit_width: nn.Parameter | None
    statistic: torch.Tensor | None
    zero_point_statistic: torch.Tensor | None
    steps: torch.Tensor | None

    def __init__(self, config: Any, channels: tuple[int, ...] = ()) -> None:
        super().__init__(own_part(config))
        shape = channel_shape(config, channels)
        zero_kind = getattr(config, "zero_point_kind", ZeroPointKind.NONE)
        grouped = isinstance(config, GroupwiseConfig)
        learned = config.scale_kind in LEARNED_SCALES
        learned_zero = zero_kind in LEARNED_ZERO_POINTS
        seen = config.scale_kind in SEEN_SCALES and not grouped
        seen_zero = zero_kind in SEEN_ZERO_POINTS and not grouped
        start = torch.full(shape, config.threshold or 1.0)
        start = stored_threshold(start, config.scale_restriction)
        depth = torch.full(shape, getattr(config, "zero_point", None) or 0.0)
        unseen = torch.full(shape, torch.nan)
        self.register_parameter("threshold", nn.Parameter(start) if learned else None)
        self.register_parameter("zero_point", nn.Parameter(depth) if learned_zero else None)
        self.register_parameter("bit_width", learned_bits(config, start))
        self.register_buffer("statistic", unseen.clone() if seen else None)
        self.register_buffer("zero_point_statistic", unseen.clone() if seen_zero else None)
        counts = torch.zeros((), dtype=torch.int64) if seen or seen_zero else None
        self.register_buffer("steps", counts)
        self._always_looks = (seen and not learned) or (seen_zero and not learned_zero)
        self._is_grouped = grouped
        # A Linear takes any number of dimensions, and all but the last are batches.
        self._rank = len(channels) if len(channels) > 2 else 0
        self._looks = counts is not None

    def forward(self, activation: torch.Tensor, *, wrap: bool = True) -> Any:
        """Return the quant tensor of an activation; what is seen in training is remembered.

        Args:
            activation: plain, or a quant tensor, whose values are rounded anew.
            wrap: if not, return a `Rounded`.

        Raises:
            UncalibratedError: the scale comes from what is seen, and nothing has been.
            QuantTensorError: the activation has not the channels that scales are for, or not the
                dimension of groups, or no elements to take statistics of.
        """
        config: Any = self.recorded
        values = activation.value if isinstance(activation, QuantTensor) else activation
        if values.is_nested:
            raise QuantTensorError(
                "activations of several lengths are not quantized",
                found="a nested tensor",
                expected="a dense one",
                hint="TransformerEncoder makes none with enable_nested_tensor=False",
            )
        bits = used_bits(config, self.bit_width)
        if self._is_grouped:
            check_groups(config, self._rank, values)
            found = quantized_groups(values, config, bits)
        else:
            found = self._found(values, bits)
        if not wrap:
            return rounded_values(config, found, values.shape)
        return made_tensor(config, found, values.shape, training=self.training, bit_width=bits)

    def _found(self, values: torch.Tensor, bits: torch.Tensor | None) -> Found:
        config: Any = self.recorded
        moment = self._moment()
        scale = self._scale(values, levels_of(config, bits, values), moment)
        depth = self._depth(values, moment)
        if moment is not None and self.training:
            advance(moment._replace(end=None) if self._always_looks else moment)
        return quantized_activation(values, scale, depth, bits, config)

    def _moment(self) -> Moment | None:
        """Return how many steps were seen, or None where nothing is seen, or no more."""
        if not self._looks or self.steps is None:
            return None
        moment = moment_of(self.steps, self.recorded.collect_steps)
        if moment.is_over and not self._always_looks:
            self._looks = False
            return None
        return moment

    def _scale(
        self, values: torch.Tensor, levels: torch.Tensor, moment: Moment | None
    ) -> torch.Tensor:
        config: Any = self.recorded
        if config.scale_kind is ScaleKind.UNSCALED:
            return levels.new_ones(1)  # the shape that weights have, and Brevitas
        if config.scale_kind is ScaleKind.CONST:
            given = values.new_full((), config.threshold)
            return settled_scale(self._stored(given), levels, config)
        learned, running = self.threshold, self.statistic
        known = cast("torch.Tensor", learned if running is None else running)
        check_channels(config, known.shape, values)
        if running is None or moment is None:
            return settled_scale(known if learned is None else learned, levels, config)
        if not self.training:
            return settled_scale(served(moment, learned, self._stored(running)), levels, config)
        seen = batch_threshold(values, config, running.shape)
        least = at_least(seen, config.min_threshold)
        if learned is None:
            remember(running, seen, moment._replace(end=None), config.momentum)
            return settled_scale(self._stored(least), levels, config)
        # As in Brevitas, the scale of a batch itself is no power of two.
        remember(running, least, moment, config.momentum)
        return turned(
            moment,
            learned,
            self._stored(running),
            lambda: least / levels,
            lambda stored: settled_scale(stored, levels, config),
        )

    def _depth(self, values: torch.Tensor, moment: Moment | None) -> torch.Tensor | None:
        config: Any = self.recorded
        learned, running = self.zero_point, self.zero_point_statistic
        known = learned if running is None else running
        if known is None:
            return None
        check_channels(config, known.shape, values)
        if running is None or moment is None:
            return magnitude(known if learned is None else learned).to(values.dtype)
        if not self.training:
            return magnitude(served(moment, learned, running)).to(values.dtype)
        seen = batch_depth(values, config, running.shape)
        end = None if learned is None else moment.end
        remember(running, seen, moment._replace(end=end), config.momentum)
        if learned is None:
            return magnitude(seen)
        return magnitude(turned(moment, learned, running, lambda: seen, lambda own: own))

    def _stored(self, threshold: torch.Tensor) -> torch.Tensor:
        return stored_threshold(threshold, self.recorded.scale_restriction)

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        super()._load_from_state_dict(*args, **kwargs)
        self._looks = self.steps is not None
