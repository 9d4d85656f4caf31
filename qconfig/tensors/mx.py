"""`MXTensor`: codes of 4, 6 or 8 bits with a power of two for each block of a row."""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch

from qconfig.configs.choices import KernelPreference
from qconfig.layouts.mx import MXElementType, MXTensorLayout, QuantizeTensorToMXKwargs
from qconfig.tensors import block_scaled
from qconfig.tensors.geometry import Follows
from qconfig.tensors.matrix import MatrixTensor
from qconfig.tensors.mx_linear import mx_linear
from qconfig.tensors.mx_quantize import ELEMENTS, quantize_mx
from qconfig.tensors.value_checks import check_code_range, check_finite


class MXTensor(MatrixTensor):
    """A tensor of values `qdata * 2**(scale - 127)`, as torchao's class of that name.

    Attributes:
        qdata: codes, (N, K) or (B, N, K); fp4 two a byte along K.
        scale: float8_e8m0fnu, (N, K/block_size), or tiles of them.
        elem_dtype: element type of the codes.
        block_size: elements of a row that share a scale.
        kernel_preference: carried for torchao.
        act_quant_kwargs: how `linear` quantizes its activation first, or None.
        is_swizzled_scales: whether scales lie in tiles; then it has no views.
    """

    layout_class: ClassVar[type] = MXTensorLayout
    fixed_blocks: ClassVar[bool] = True
    follows: ClassVar[Mapping[str, Follows]] = {"qdata": Follows.SAME, "scale": Follows.SAME}

    qdata: torch.Tensor
    scale: torch.Tensor
    elem_dtype: MXElementType
    block_size: int
    kernel_preference: KernelPreference
    act_quant_kwargs: QuantizeTensorToMXKwargs | None
    is_swizzled_scales: bool

    def dequantize(self, dtype: torch.dtype | None = None) -> torch.Tensor:
        """Return the values as an ordinary tensor.

        Args:
            dtype: floating-point type of the result; by default the one this tensor shows.
        """
        return block_scaled.dequantize(
            self.qdata,
            self.scale,
            ELEMENTS[self.elem_dtype].small,
            self.block_size,
            dtype or self.shown_dtype,
            is_swizzled=self.is_swizzled_scales,
        )

    def linear(self, activation: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        """Return `activation @ self.T + bias`; see `MatrixTensor.linear`."""
        kwargs = self.act_quant_kwargs
        result: torch.Tensor = mx_linear(
            activation,
            self.qdata,
            self.scale,
            self.shape[0],
            self.elem_dtype.value,
            self.block_size,
            self.is_swizzled_scales,
            "" if kwargs is None else kwargs.elem_dtype.value,
            "" if kwargs is None else kwargs.scaling_mode.value,
            bias,
        )
        return result

    def activation_seen(self, activation: torch.Tensor) -> torch.Tensor:
        """Return what `linear` multiplies with: quantized and dequantized if the layout says so."""
        kwargs = self.act_quant_kwargs
        if kwargs is None or not activation.numel():
            return activation
        codes, scale = quantize_mx(
            activation, kwargs.elem_dtype, kwargs.block_size, kwargs.scaling_mode, checked=False
        )
        kind = ELEMENTS[kwargs.elem_dtype].small
        return block_scaled.values_of(codes, scale.to(torch.float32), kind, torch.float32)

    def view_refusal(self) -> str | None:
        """Return why this tensor has no views and cuts, or None."""
        return block_scaled.SWIZZLED if self.is_swizzled_scales else None

    @classmethod
    def check_layout_values(cls, layout: Any) -> None:
        """Check that no value is NaN or infinite, and that codes of 6 bits keep to them.

        Raises:
            LayoutError: naming field and first index.
        """
        check_finite(layout, cls.fields.tensors)
        kind = ELEMENTS[layout.elem_dtype].small
        if kind is not None and not layout.elem_dtype.is_packed:
            check_code_range(layout, "qdata", 0, 2 * kind.sign - 1)
