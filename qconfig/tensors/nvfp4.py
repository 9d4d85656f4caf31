"""`NVFP4Tensor`: E2M1 codes with an e4m3 scale for each 16 of a row, and one for all."""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import torch

from qconfig.layouts.nvfp4 import (
    BLOCK,
    NVFP4TensorLayout,
    QuantizeTensorToNVFP4Kwargs,
    check_second_scales,
)
from qconfig.tensors import block_scaled
from qconfig.tensors.geometry import Follows
from qconfig.tensors.matrix import MatrixTensor
from qconfig.tensors.nvfp4_linear import nvfp4_linear
from qconfig.tensors.nvfp4_quantize import per_tensor_scale_of, quantize_nvfp4
from qconfig.tensors.small_floats import E2M1
from qconfig.tensors.value_checks import (
    check_block_scale_values,
    check_finite,
    check_scale_values,
)


class NVFP4Tensor(MatrixTensor):
    """A tensor of values `code * (per_tensor_scale * scale)`, as torchao's class of that name.

    With `rounds_scales`, as torchao up to 0.17 computed, `per_tensor_scale` takes the type that the
    tensor shows, and so does its product with a block scale before it meets a code; where
    activations are quantized, the product of the second scales of both takes the activation's type
    before it meets the sum.

    Attributes:
        qdata: E2M1 codes two a byte, (N, K/2) or (B, N, K/2) uint8.
        scale: float8_e4m3fn, (N, K/16), or tiles of them.
        block_size: 16.
        per_tensor_scale: float32, one entry, or one for each matrix, (B, 1, 1); or None.
        act_per_tensor_scale: float32, one entry, static scale of the activation, or None.
        is_swizzled_scales: whether scales lie in tiles; then it has no views.
        use_triton_kernel: carried for torchao.
        act_quant_kwargs: how `linear` quantizes its activation first, or None.
        rounds_scales: whether scales are rounded so.
    """

    layout_class: ClassVar[type] = NVFP4TensorLayout
    fixed_blocks: ClassVar[bool] = True
    follows: ClassVar[Mapping[str, Follows]] = {
        "qdata": Follows.SAME,
        "scale": Follows.SAME,
        "per_tensor_scale": Follows.MATRICES,
        "act_per_tensor_scale": Follows.NOTHING,
    }

    qdata: torch.Tensor
    scale: torch.Tensor
    block_size: int
    per_tensor_scale: torch.Tensor | None
    act_per_tensor_scale: torch.Tensor | None
    is_swizzled_scales: bool
    use_triton_kernel: bool
    act_quant_kwargs: QuantizeTensorToNVFP4Kwargs | None
    rounds_scales: bool

    def restructured(
        self,
        tensors: dict[str, torch.Tensor | None],
        shape: tuple[int, ...],
        blocks: tuple[int, ...] | None,
    ) -> Self:
        """Return a tensor made of views of the inner ones; see `MatrixTensor.restructured`.

        Raises:
            LayoutError: matrices with a second scale each would be joined within.
        """
        check_second_scales(shape, tensors["per_tensor_scale"], tensors["act_per_tensor_scale"])
        return super().restructured(tensors, shape, blocks)

    def dequantize(self, dtype: torch.dtype | None = None) -> torch.Tensor:
        """Return the values as an ordinary tensor.

        Args:
            dtype: floating-point type of the result; by default the one this tensor shows.
        """
        return block_scaled.dequantize(
            self.qdata,
            self.scale,
            E2M1,
            BLOCK,
            dtype or self.shown_dtype,
            second=self.per_tensor_scale,
            product_dtype=self.shown_dtype if self.rounds_scales else None,
            is_swizzled=self.is_swizzled_scales,
        )

    def linear(self, activation: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        """Return `activation @ self.T + bias`; see `MatrixTensor.linear`."""
        kwargs = self.act_quant_kwargs
        result: torch.Tensor = nvfp4_linear(
            activation,
            self.qdata,
            self.scale,
            self.per_tensor_scale,
            self.act_per_tensor_scale,
            self.shape[0],
            self.is_swizzled_scales,
            kwargs is not None,
            kwargs is not None and kwargs.use_dynamic_per_tensor_scale,
            self.shown_dtype if self.rounds_scales else None,
            bias,
        )
        return result

    def activation_seen(self, activation: torch.Tensor) -> torch.Tensor:
        """Return what `linear` multiplies with: quantized and dequantized if the layout says so."""
        kwargs = self.act_quant_kwargs
        if kwargs is None or not activation.numel():
            return activation
        flat = activation.reshape(-1, activation.shape[-1])
        second = self.act_per_tensor_scale
        if kwargs.use_dynamic_per_tensor_scale:
            second = per_tensor_scale_of(flat)
        codes, scale = quantize_nvfp4(flat, second, checked=False)
        values = block_scaled.dequantize(codes, scale, E2M1, BLOCK, torch.float32, second=second)
        return values.view(activation.shape)

    def view_refusal(self) -> str | None:
        """Return why this tensor has no views and cuts, or None."""
        return block_scaled.SWIZZLED if self.is_swizzled_scales else None

    @classmethod
    def check_layout_values(cls, layout: Any) -> None:
        """Check that second scales are positive and finite, and block scales not negative.

        Raises:
            LayoutError: naming field and first index.
        """
        check_finite(layout, cls.fields.tensors)
        check_block_scale_values(layout, "scale")
        for name in ("per_tensor_scale", "act_per_tensor_scale"):
            check_scale_values(layout, name)
