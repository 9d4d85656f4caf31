"""`Int8Tensor`: int8 codes with block scales, for weights of linears, embeddings and experts."""

from collections.abc import Collection, Mapping
from math import prod
from typing import Any, ClassVar

import attrs
import torch

from qconfig.configs.choices import MappingType
from qconfig.configs.granularity import PerAxis, PerRow, PerTensor, PerToken
from qconfig.layouts.activation import Int8Arithmetic, Int8Product, QuantizeTensorToInt8Kwargs
from qconfig.layouts.int8 import Int8TensorLayout
from qconfig.tensors import blockwise
from qconfig.tensors.activation_qparams import code_range
from qconfig.tensors.dispatch import unsupported
from qconfig.tensors.geometry import Follows, flipped_field
from qconfig.tensors.int8_activation import dequantize_activation, is_per_row
from qconfig.tensors.int8_dynamic_linear import int8_dynamic_linear, quantized_activation
from qconfig.tensors.int8_linear import KERNEL_ALIGNMENT, int8_linear
from qconfig.tensors.int8_rounded_activation import (
    ActivationForm,
    quantize_rounded,
    rounded_values,
)
from qconfig.tensors.int8_rounded_linear import int8_rounded_linear
from qconfig.tensors.matrix import MatrixTensor
from qconfig.tensors.value_checks import (
    check_code_range,
    check_finite,
    check_scale_values,
)

_TOKENS = (PerRow(), PerToken())
_Settings = tuple[torch.Tensor | None, torch.Tensor | None, bool, bool, bool]


class Int8Tensor(MatrixTensor):
    """A tensor of values `(qdata - zero_point) * scale`, as torchao 0.18's class of that name.

    Attributes:
        qdata: int8 codes, (N, K) or (B, N, K); the tensor has its shape and strides.
        scale: floating point, one entry a block: (N, 1), (1, 1), (N, K/g), with B in front.
        block_size: elements that share a scale, along each dimension.
        zero_point: int8, shaped like `scale`, or None.
        act_quant_scale: static scale of the activation, or None.
        act_quant_zero_point: static zero point of the activation, or None.
        act_pre_scale: factor for the activation, (..., K), or None.
        act_quant_kwargs: how `linear` quantizes activations; None leaves them as they are.
        reduce_range: whether codes keep to -64 ... 63.
        arithmetic: how an older torchao quantized and multiplied, or None for torchao 0.18.
    """

    layout_class: ClassVar[type] = Int8TensorLayout
    follows: ClassVar[Mapping[str, Follows]] = {
        "qdata": Follows.SAME,
        "scale": Follows.SAME,
        "zero_point": Follows.SAME,
        "act_quant_scale": Follows.COLUMNS,
        "act_quant_zero_point": Follows.COLUMNS,
        "act_pre_scale": Follows.COLUMNS,
    }

    qdata: torch.Tensor
    scale: torch.Tensor
    block_size: tuple[int, ...]
    zero_point: torch.Tensor | None
    act_quant_scale: torch.Tensor | None
    act_quant_zero_point: torch.Tensor | None
    act_pre_scale: torch.Tensor | None
    act_quant_kwargs: QuantizeTensorToInt8Kwargs | None
    reduce_range: bool
    arithmetic: Int8Arithmetic | None

    def dequantize(self, dtype: torch.dtype | None = None) -> torch.Tensor:
        """Return the values as an ordinary tensor.

        Args:
            dtype: floating-point type of the result; by default the one this tensor shows.
        """
        target = dtype or self.shown_dtype
        return blockwise.dequantize(self.qdata, self.scale, self.zero_point, target)

    def linear(self, activation: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        """Return `activation @ self.T + bias`; see `MatrixTensor.linear`.

        Raises:
            UnsupportedOperationError: `act_quant_kwargs` ask for activation scales that this
                product does not have.
        """
        kwargs = self._kwargs_for(activation)
        if kwargs is None:
            scaled = self.scaled_activation(activation)
            result = int8_linear(scaled, self.qdata, self.scale, self.zero_point)
            # As in torchao 0.18 the product is rounded before the bias is added.
            return result if bias is None else result + bias
        settings = self._activation_settings(kwargs, activation)
        rounded = self._rounded(settings)
        if rounded is None:
            return int8_dynamic_linear(
                self._widely_scaled(activation),
                self.qdata,
                self.scale,
                self.zero_point,
                *settings,
                activation.dtype,
                bias,
            )
        form, product = rounded
        return int8_rounded_linear(
            self._widely_scaled(activation),
            self.qdata,
            self.scale,
            self.zero_point,
            *settings[:2],
            form,
            product,
            activation.dtype,
            bias,
        )

    def activation_seen(self, activation: torch.Tensor) -> torch.Tensor:
        """Return the activation scaled, quantized and dequantized; see `MatrixTensor`."""
        kwargs = self._kwargs_for(activation)
        if kwargs is None:
            return self.scaled_activation(activation)
        settings = self._activation_settings(kwargs, activation)
        rounded = self._rounded(settings)
        scaled = self._widely_scaled(activation.detach())
        kind = torch.promote_types(scaled.dtype, torch.float32)
        if not scaled.numel():
            return scaled.to(kind)
        flat = scaled.reshape(-1, scaled.shape[-1])
        if rounded is None:
            seen = dequantize_activation(*quantized_activation(flat, *settings), kind)
        elif rounded[1] is Int8Product.VALUES:
            seen = rounded_values(flat, rounded[0], *settings[:2]).to(kind)
        else:
            seen = dequantize_activation(*quantize_rounded(flat, rounded[0], *settings[:2]), kind)
        return seen.view(scaled.shape)

    def _kwargs_for(self, activation: torch.Tensor) -> QuantizeTensorToInt8Kwargs | None:
        how = self.arithmetic
        if how is not None and how.skips_single_tokens and activation.shape[1:2] == (1,):
            return None
        return self.act_quant_kwargs

    def _rounded(self, settings: _Settings) -> tuple[ActivationForm, Int8Product] | None:
        """Return how an older torchao computes, where that is asked for."""
        how = self.arithmetic
        if how is None:
            return None
        _, _, per_token, asymmetric, reduce_range = settings
        form = ActivationForm.of(
            how, per_token=per_token, asymmetric=asymmetric, reduce_range=reduce_range
        )
        return form, how.product

    def _widely_scaled(self, activation: torch.Tensor) -> torch.Tensor:
        # As torchao 0.18 does, codes are made of the product in the wider type.
        factor, how = self.act_pre_scale, self.arithmetic
        if factor is None:
            return activation
        if how is not None and how.rounds_scaled:
            return self.scaled_activation(activation)
        return self.scaled_activation(
            activation.to(torch.promote_types(activation.dtype, factor.dtype))
        )

    def _serves(self, scale: torch.Tensor, activation: torch.Tensor, *, per_token: bool) -> bool:
        if per_token and is_per_row(scale):
            return scale.numel() == prod(activation.shape[:-1])
        return scale.numel() in (1, self.qdata.shape[-1])

    def view_refusal(self) -> str | None:
        """Return why this tensor has no views and cuts, or None."""
        scale = self.act_quant_scale
        if scale is None or not is_per_row(scale) or flipped_field(self) is not None:
            return None
        return "its act_quant_scale has an entry for each row of one batch"

    def _activation_settings(
        self, kwargs: QuantizeTensorToInt8Kwargs, activation: torch.Tensor
    ) -> _Settings:
        scale, zero_point = self.act_quant_scale, self.act_quant_zero_point
        per_token = kwargs.granularity in _TOKENS
        per_channel = kwargs.granularity == PerAxis(-1) and scale is not None
        asymmetric = kwargs.mapping_type is MappingType.ASYMMETRIC
        reason = None
        if not (per_token or per_channel or isinstance(kwargs.granularity, PerTensor)):
            reason = f"granularity {kwargs.granularity} of activations; PerTensor and PerRow are"
        elif not asymmetric and kwargs.mapping_type is not MappingType.SYMMETRIC:
            reason = f"mapping_type {kwargs.mapping_type}; SYMMETRIC and ASYMMETRIC are"
        elif scale is not None and not self._serves(scale, activation, per_token=per_token):
            reason = f"act_quant_scale of shape {tuple(scale.shape)}; 1 element, K or (M, 1) are"
        if reason is not None:
            raise unsupported(type(self), "linear", f"it has {reason} served")
        return scale, zero_point, per_token, asymmetric, kwargs.reduce_range

    def code_bounds(self) -> tuple[int, int]:
        """Return the smallest and the largest code."""
        return code_range(reduce_range=self.reduce_range)

    @classmethod
    def simplify(cls, layout: Any) -> Any:
        """Return the layout with equal values in the form that has the faster kernel.

        Zero points that are all 0, as torchao stores them, are left out. Codes at an odd address,
        as in a file that another library wrote, are copied.
        """
        if layout.zero_point is not None and not bool(layout.zero_point.any()):
            layout = attrs.evolve(layout, zero_point=None)
        if layout.qdata.numel() and layout.qdata.data_ptr() % KERNEL_ALIGNMENT:
            layout = attrs.evolve(layout, qdata=layout.qdata.clone())
        return layout

    @classmethod
    def fields_read(cls, layout: Any) -> Collection[str]:
        """Return the tensor fields that `simplify` looks into."""
        source = layout.qdata.source
        is_copied = source is not None and source.offset % KERNEL_ALIGNMENT
        return ("zero_point", "qdata") if is_copied else ("zero_point",)

    @classmethod
    def check_layout_values(cls, layout: Any) -> None:
        """Check that scales are positive and finite, and that codes keep to a reduced range.

        Raises:
            LayoutError: naming field, count and first index.
        """
        check_scale_values(layout, "scale")
        check_scale_values(layout, "act_quant_scale")
        check_finite(layout, ("act_pre_scale",))
        low, high = code_range(reduce_range=True)
        if layout.reduce_range:
            check_code_range(layout, "qdata", low, high)
            check_code_range(layout, "zero_point", low, high)
        kwargs = layout.act_quant_kwargs
        if kwargs is not None and kwargs.reduce_range:
            check_code_range(layout, "act_quant_zero_point", low, high)
