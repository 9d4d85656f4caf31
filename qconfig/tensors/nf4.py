"""`NF4Tensor`: codes of 4 bits into a table, with scales that are quantized too (QLoRA)."""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch

from qconfig.layouts.nf4 import NF4TensorLayout
from qconfig.tensors.geometry import Follows
from qconfig.tensors.matrix import MatrixTensor
from qconfig.tensors.value_checks import check_finite, loaded, refuse_where


class NF4Tensor(MatrixTensor):
    """A tensor of values `nf4[code] * scale`, as torchao's class of that name.

    `scale` is `quantized_scalers / quantization_factor + scaler_mean`. Values are those of
    torchao's `get_original_weight`, bit for bit: computed in the type of table and divisors, and
    converted at the end. `linear` multiplies with them. Codes and scales run over all elements in
    one row, so that it has no views and no cuts.

    Attributes:
        quantized_data: uint8, (N * K / 2,), the first code of a byte in its high four bits.
        quantized_scalers: int8, one a block.
        quantization_factor: floating point, one for each `scaler_block_size` scales.
        scaler_mean: floating point, 0-d.
        nf4: floating point, (16,).
        block_size: elements that share a scale.
        scaler_block_size: scales that share a divisor.
    """

    layout_class: ClassVar[type] = NF4TensorLayout
    follows: ClassVar[Mapping[str, Follows]] = {
        "quantized_data": Follows.NOTHING,
        "quantized_scalers": Follows.NOTHING,
        "quantization_factor": Follows.NOTHING,
        "scaler_mean": Follows.NOTHING,
        "nf4": Follows.NOTHING,
    }

    quantized_data: torch.Tensor
    quantized_scalers: torch.Tensor
    quantization_factor: torch.Tensor
    scaler_mean: torch.Tensor
    nf4: torch.Tensor
    block_size: int
    scaler_block_size: int

    def dequantize(self, dtype: torch.dtype | None = None) -> torch.Tensor:
        """Return the values as an ordinary tensor.

        Args:
            dtype: floating-point type of the result; by default the one this tensor shows.
        """
        scales = self._scales().unsqueeze(1)
        codes = self.quantized_data
        pairs = torch.stack((self.nf4.repeat_interleave(16), self.nf4.repeat(16)), dim=1)
        values = pairs.index_select(0, codes.to(torch.int32)).view(-1, self.block_size)
        return (values * scales).to(dtype or self.shown_dtype).view(self.logical_shape)

    def linear(self, activation: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        """Return `activation @ self.T + bias`; see `MatrixTensor.linear`.

        As in torchao the product is rounded before the bias is added.
        """
        result = super().linear(activation, None)
        return result if bias is None else result + bias

    def _scales(self) -> torch.Tensor:
        groups = self.quantized_scalers.view(-1, self.scaler_block_size)
        scales = (groups / self.quantization_factor.unsqueeze(1)).flatten()
        return scales.to(self.scaler_mean.dtype) + self.scaler_mean

    def view_refusal(self) -> str | None:
        """Return why this tensor has no views and cuts."""
        return "its codes and scales run over all elements in one row"

    @classmethod
    def check_layout_values(cls, layout: Any) -> None:
        """Check that table, mean and divisors are finite, and that no divisor is 0.

        Raises:
            LayoutError: naming field, count and first index.
        """
        check_finite(layout, ("nf4", "scaler_mean"))
        factor = loaded(layout.quantization_factor)
        if factor is None:
            return
        # Where all scales of a group are equal, the divisor that torchao stored is infinite.
        bad = factor.isnan() | (factor == 0)
        refuse_where(bad, "quantization_factor", "is 0 or NaN", factor, "other numbers")
