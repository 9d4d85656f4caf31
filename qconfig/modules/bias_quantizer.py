"""The quantizer of a bias, whose scale may be that of the product it is added to."""

from typing import Any

import torch
from torch import nn

from qconfig.configs.float16 import float16_refusal
from qconfig.configs.quant_choices import ScaleKind
from qconfig.errors import BuildError, QuantTensorError
from qconfig.modules.learned_bits import learned_bits, used_bits
from qconfig.modules.made_tensors import Rounded, made_tensor
from qconfig.modules.recorded_config import RecordsConfig, own_part
from qconfig.modules.weight_quantizer import WeightQuantizer
from qconfig.tensors.quantizers import bit_width_of, quantize_int


class ExternalBiasQuantizer(RecordsConfig):
    """Rounds a bias to integers of the scale that the product it is added to has.

    Args:
        config: an IntQuantConfig whose scale kind is EXTERNAL.
        bias: floating point, shape (O,).

    Attributes:
        bit_width: the learned bit width, 0-d, or None.
    """

    bit_width: nn.Parameter | None

    def __init__(self, config: Any, bias: torch.Tensor) -> None:
        super().__init__(own_part(config))
        self.register_parameter("bit_width", learned_bits(config, bias))

    def forward(
        self,
        bias: torch.Tensor,
        input_scale: torch.Tensor | None = None,
        weight_scale: torch.Tensor | None = None,
        *,
        wrap: bool = True,
    ) -> Any:
        """Return the quant tensor of a bias, with the scale `input_scale * weight_scale`.

        Args:
            bias: floating point, shape (O,).
            input_scale: one entry.
            weight_scale: one entry, or one an output channel, of any rank.
            wrap: if not, return a `Rounded`.

        Raises:
            QuantTensorError: a scale lacks, or has as many entries as fit no channel of the bias.
        """
        config = self.recorded
        if input_scale is None or weight_scale is None:
            raise QuantTensorError(
                "the bias has the scale of input times weight",
                found="no scale of the " + ("input" if input_scale is None else "weight"),
                expected="both scales",
            )
        if input_scale.numel() != 1 or weight_scale.numel() not in (1, bias.numel()):
            raise QuantTensorError(
                "the scales of input and weight are not those of the bias' channels",
                found=f"{input_scale.numel()} of the input, {weight_scale.numel()} of the weight",
                expected=f"1 of the input, and 1 or {bias.numel()} of the weight",
            )
        # Codes of many bits are too large for float16, and the values that they stand for are not.
        is_half = bias.dtype is torch.float16 and float16_refusal(config) is not None
        values = bias.float() if is_half else bias
        scale = (weight_scale.reshape(-1) * input_scale.reshape(-1)).to(values.dtype)
        learned = used_bits(config, self.bit_width)
        bits = bit_width_of(config, values) if learned is None else learned
        zero = values.new_zeros(())
        value = quantize_int(
            values,
            scale,
            zero,
            bits,
            signed=config.signed,
            narrow_range=config.narrow_range,
            rounding=config.rounding,
        )
        if is_half:
            value, scale, zero = value.to(bias.dtype), scale.to(bias.dtype), zero.to(bias.dtype)
        if not wrap:
            return Rounded(value, scale)
        return made_tensor(
            config, (value, scale, zero), bias.shape, training=self.training, bit_width=learned
        )


BiasQuantizer = ExternalBiasQuantizer | WeightQuantizer
"""The quantizer of a bias: with the scale of a product, or with one of its own as a weight has."""


def bias_quantizer(config: Any, bias: torch.Tensor) -> BiasQuantizer:
    """Return the quantizer of a bias.

    Args:
        config: how.
        bias: floating point, shape (O,).

    Raises:
        BuildError: groups, which a bias has none of.
    """
    if config.scale_kind is ScaleKind.EXTERNAL:
        return ExternalBiasQuantizer(config, bias)
    if hasattr(config, "group_size"):
        raise BuildError(
            "a bias has no groups",
            pointer="/bias",
            found=type(config).__name__,
            expected="IntQuantConfig or FloatQuantConfig",
        )
    return WeightQuantizer(config, bias)
