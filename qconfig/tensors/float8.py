"""`Float8Tensor`: float8 codes with block scales, for weights of linears, embeddings, experts."""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch

from qconfig.configs.choices import KernelPreference
from qconfig.configs.float8 import Float8MMConfig
from qconfig.layouts.float8 import Float8TensorLayout, QuantizeTensorToFloat8Kwargs
from qconfig.tensors import float8_codes
from qconfig.tensors.float8_activation import Format, round_trip
from qconfig.tensors.float8_linear import float8_linear
from qconfig.tensors.geometry import Follows
from qconfig.tensors.matrix import MatrixTensor
from qconfig.tensors.value_checks import check_finite, check_scale_values


class Float8Tensor(MatrixTensor):
    """A tensor of values `qdata * scale`, as torchao's class of that name.

    A product with `act_quant_kwargs` quantizes its activation first, with `act_quant_scale` if
    there is one; with `output_act_quant_kwargs` its result, bias included, goes to float8 and back.

    Attributes:
        qdata: float8_e4m3fn or float8_e5m2 codes, (N, K) or (B, N, K).
        scale: floating point, one entry a block: (N, 1), (1, 1), (N, K/g), (N/128, K/128), with B
            in front.
        block_size: elements that share a scale, along each dimension.
        act_quant_scale: static scale of the activation, one element, or None.
        output_act_quant_scale: static scale of the output, one element, or None.
        act_pre_scale: factor for the activation, (..., K), or None.
        act_quant_kwargs: how activations are quantized, or None.
        output_act_quant_kwargs: how outputs are quantized, or None.
        mm_config: how torchao's product is computed; carried.
        kernel_preference: which of torchao's kernels to use; carried.
    """

    layout_class: ClassVar[type] = Float8TensorLayout
    follows: ClassVar[Mapping[str, Follows]] = {
        "qdata": Follows.SAME,
        "scale": Follows.SAME,
        "act_quant_scale": Follows.NOTHING,
        "output_act_quant_scale": Follows.NOTHING,
        "act_pre_scale": Follows.COLUMNS,
    }

    qdata: torch.Tensor
    scale: torch.Tensor
    block_size: tuple[int, ...]
    act_quant_scale: torch.Tensor | None
    output_act_quant_scale: torch.Tensor | None
    act_pre_scale: torch.Tensor | None
    act_quant_kwargs: QuantizeTensorToFloat8Kwargs | None
    output_act_quant_kwargs: QuantizeTensorToFloat8Kwargs | None
    mm_config: Float8MMConfig | None
    kernel_preference: KernelPreference

    def dequantize(self, dtype: torch.dtype | None = None) -> torch.Tensor:
        """Return the values as an ordinary tensor, the bits of torchao 0.18.

        Args:
            dtype: floating-point type of the result; by default the one this tensor shows.
        """
        return float8_codes.dequantize(self.qdata, self.scale, dtype or self.shown_dtype)

    def linear(self, activation: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        """Return `activation @ self.T + bias`; see `MatrixTensor.linear`."""
        scaled = self.scaled_activation(activation)
        form = _form(self.act_quant_kwargs)
        result = float8_linear(scaled, self.qdata, self.scale, form, self.act_quant_scale, bias)
        if self.output_act_quant_kwargs is None:
            return result
        return self.output_seen(result).to(result.dtype)

    def activation_seen(self, activation: torch.Tensor) -> torch.Tensor:
        """Return the activation as it is multiplied; see `MatrixTensor.activation_seen`."""
        scaled, form = self.scaled_activation(activation), _form(self.act_quant_kwargs)
        return scaled if form is None else round_trip(scaled, form, self.act_quant_scale)

    def output_seen(self, output: torch.Tensor) -> torch.Tensor:
        """Return the output quantized and dequantized; see `MatrixTensor.output_seen`."""
        form = _form(self.output_act_quant_kwargs)
        return output if form is None else round_trip(output, form, self.output_act_quant_scale)

    @classmethod
    def check_layout_values(cls, layout: Any) -> None:
        """Check that scales are positive and finite, and that no code is NaN or infinite.

        Raises:
            LayoutError: naming field, count and first index.
        """
        for name in ("scale", "act_quant_scale", "output_act_quant_scale"):
            check_scale_values(layout, name)
        check_finite(layout, ("qdata", "act_pre_scale"))


def _form(kwargs: QuantizeTensorToFloat8Kwargs | None) -> Format | None:
    if kwargs is None:
        return None
    bounds = (kwargs.hp_value_lb, kwargs.hp_value_ub)
    return Format(kwargs.float8_dtype.to_torch(), kwargs.group, bounds)
