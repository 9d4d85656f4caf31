"""`IntxUnpackedToInt8Tensor`: codes of 1 to 8 bits, one an int8, for linears and embeddings."""

from collections.abc import Collection, Mapping
from typing import Any, ClassVar

import attrs
import torch

from qconfig.codec.dtypes import DType
from qconfig.layouts.activation import Int8Arithmetic
from qconfig.layouts.intx import (
    ActivationQuantization,
    IntxUnpackedToInt8TensorLayout,
    code_range,
)
from qconfig.tensors import blockwise
from qconfig.tensors.geometry import Follows
from qconfig.tensors.int8_rounded_activation import ActivationForm, rounded_values
from qconfig.tensors.intx_linear import intx_linear, quantize_tokens
from qconfig.tensors.matrix import MatrixTensor
from qconfig.tensors.value_checks import check_code_range, check_finite, check_scale_values


class IntxUnpackedToInt8Tensor(MatrixTensor):
    """A tensor of values `(qdata - zero_point) * scale`, as torchao 0.18's class of that name.

    Attributes:
        qdata: int8 codes within the range of `target_dtype`, (N, K) or (B, N, K); the tensor has
            its shape and strides.
        scale: floating point, one entry a block: (N, K/g), with B in front.
        target_dtype: int1 to int8.
        block_size: elements that share a scale, along each dimension.
        zero_point: int8 or floating point, shaped like `scale`, or None.
        activation_quantization: how `linear` quantizes its activation, or None. Embeddings have
            no activation.
        act_pre_scale: factor for the activation, (..., K), or None.
        arithmetic: how an older torchao quantized and multiplied, or None for torchao 0.18.
    """

    layout_class: ClassVar[type] = IntxUnpackedToInt8TensorLayout
    follows: ClassVar[Mapping[str, Follows]] = {
        "qdata": Follows.SAME,
        "scale": Follows.SAME,
        "zero_point": Follows.SAME,
        "act_pre_scale": Follows.COLUMNS,
    }

    qdata: torch.Tensor
    scale: torch.Tensor
    target_dtype: DType
    block_size: tuple[int, ...]
    zero_point: torch.Tensor | None
    activation_quantization: ActivationQuantization | None
    act_pre_scale: torch.Tensor | None
    arithmetic: Int8Arithmetic | None

    def dequantize(self, dtype: torch.dtype | None = None) -> torch.Tensor:
        """Return the values as an ordinary tensor.

        Args:
            dtype: floating-point type of the result; by default the one this tensor shows.
        """
        target = dtype or self.shown_dtype
        return blockwise.dequantize(self.qdata, self.scale, self.zero_point, target)

    def linear(self, activation: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        """Return `activation @ self.T + bias`; see `MatrixTensor.linear`."""
        how = self.activation_quantization
        kind = None if how is None else how.value
        scaled, form = self.scaled_activation(activation), self._form()
        return intx_linear(scaled, self.qdata, self.scale, self.zero_point, kind, form, bias)

    def activation_seen(self, activation: torch.Tensor) -> torch.Tensor:
        """Return the activation scaled, quantized and dequantized in at least float32."""
        activation = self.scaled_activation(activation)
        if self.activation_quantization is None:
            return activation
        kind = torch.promote_types(activation.dtype, torch.float32)
        if not activation.numel():
            return activation.to(kind)
        flat, form = activation.reshape(-1, self.shape[-1]), self._form()
        if form is not None:
            return rounded_values(flat.detach(), form).to(kind).view(activation.shape)
        values, scale = quantize_tokens(flat, self.activation_quantization.value)
        return (values.to(kind) * scale.to(kind)).view(activation.shape)

    def _form(self) -> ActivationForm | None:
        if self.arithmetic is None:
            return None
        asymmetric = self.activation_quantization is ActivationQuantization.INT8_ASYM_PER_TOKEN
        return ActivationForm.of(
            self.arithmetic, per_token=True, asymmetric=asymmetric, reduce_range=False
        )

    def code_bounds(self) -> tuple[int, int]:
        """Return the smallest and the largest code of `target_dtype`."""
        return code_range(self.target_dtype)

    @classmethod
    def simplify(cls, layout: Any) -> Any:
        """Return the layout without zero points if all are 0, as torchao stores them."""
        if layout.zero_point is not None and not bool(layout.zero_point.any()):
            return attrs.evolve(layout, zero_point=None)
        return layout

    @classmethod
    def fields_read(cls, layout: Any) -> Collection[str]:
        """Return the tensor field that `simplify` looks into."""
        del layout
        return ("zero_point",)

    @classmethod
    def check_layout_values(cls, layout: Any) -> None:
        """Check that scales are positive and finite, and that codes keep to their range.

        Raises:
            LayoutError: naming field, count and first index.
        """
        check_scale_values(layout, "scale")
        check_finite(layout, ("zero_point", "act_pre_scale"))
        low, high = code_range(layout.target_dtype)
        if (low, high) == (-128, 127):
            return
        check_code_range(layout, "qdata", low, high)
        zero_point = layout.zero_point
        if zero_point is not None and DType.parse(zero_point.dtype) is DType.INT8:
            check_code_range(layout, "zero_point", low, high)
