"""`IntxStaticActivationTensor`: intx weights of linears whose activations have static scales."""

from collections.abc import Collection, Mapping
from typing import Any, ClassVar, Self

import attrs
import torch

from qconfig.codec.dtypes import DType
from qconfig.layouts.intx import code_range
from qconfig.layouts.intx_static import IntxStaticActivationTensorLayout, are_sums_of
from qconfig.tensors import blockwise
from qconfig.tensors.geometry import Follows
from qconfig.tensors.intx_static_linear import intx_static_linear
from qconfig.tensors.intx_static_product import row_sums
from qconfig.tensors.intx_static_quantize import static_values
from qconfig.tensors.matrix import MatrixTensor
from qconfig.tensors.value_checks import check_code_range, check_scale_values, loaded, refuse_where

_ZERO_POINTS = ("zero_point", "act_quant_zero_point", "output_act_quant_zero_point")


class IntxStaticActivationTensor(MatrixTensor):
    """A tensor of values `(qdata - zero_point) * scale` whose linear quantizes its activation.

    The activation is quantized to int8 with scales that were found beforehand and lie on the
    tensor, in every product and on every device; the output of the product and its bias too, if it
    has a scale. `dequantize` and `embedding` give values of the weight alone.

    Attributes:
        qdata: int8 codes in the range of `target_dtype`, (N, K) or (B, N, K).
        scale: floating point, one entry a block: (N, K/g), with B in front.
        act_quant_scale: floating point, (1,), or (K,) for a scale per input channel.
        target_dtype: int1 to int8.
        block_size: elements that share a scale, along each dimension.
        zero_point: int8, shaped like `scale`, or None for 0.
        act_quant_zero_point: int8, shaped like `act_quant_scale`, or None for 0.
        output_act_quant_scale: floating point, (1,) or (N,), or None to leave the output.
        output_act_quant_zero_point: int8, shaped like `output_act_quant_scale`, or None for 0.
        weight_sums: int32 (N, 1), the sums of `qdata` along K, or None; a cut along K drops them.
    """

    layout_class: ClassVar[type] = IntxStaticActivationTensorLayout
    follows: ClassVar[Mapping[str, Follows]] = {
        "qdata": Follows.SAME,
        "scale": Follows.SAME,
        "act_quant_scale": Follows.COLUMNS,
        "zero_point": Follows.SAME,
        "act_quant_zero_point": Follows.COLUMNS,
        "output_act_quant_scale": Follows.ROWS,
        "output_act_quant_zero_point": Follows.ROWS,
        "weight_sums": Follows.SAME,
    }

    qdata: torch.Tensor
    scale: torch.Tensor
    act_quant_scale: torch.Tensor
    target_dtype: DType
    block_size: tuple[int, ...]
    zero_point: torch.Tensor | None
    act_quant_zero_point: torch.Tensor | None
    output_act_quant_scale: torch.Tensor | None
    output_act_quant_zero_point: torch.Tensor | None
    weight_sums: torch.Tensor | None

    def dequantize(self, dtype: torch.dtype | None = None) -> torch.Tensor:
        """Return the values of the weight as an ordinary tensor.

        Args:
            dtype: floating-point type of the result; by default the one this tensor shows.
        """
        target = dtype or self.shown_dtype
        return blockwise.dequantize(self.qdata, self.scale, self.zero_point, target)

    def linear(self, activation: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        """Return the product of the quantized activation, (..., K), with bias, (..., N)."""
        return intx_static_linear(
            activation,
            self.qdata,
            self.scale,
            self.act_quant_scale,
            self.zero_point,
            self.act_quant_zero_point,
            self.output_act_quant_scale,
            self.output_act_quant_zero_point,
            self.weight_sums,
            bias,
        )

    def activation_seen(self, activation: torch.Tensor) -> torch.Tensor:
        """Return the activation, (..., K), quantized and dequantized, in float32 or float64."""
        return static_values(activation, self.act_quant_scale, self.act_quant_zero_point)

    def output_seen(self, output: torch.Tensor) -> torch.Tensor:
        """Return an output, (..., N), quantized and dequantized if it has a scale."""
        if self.output_act_quant_scale is None:
            return output
        return static_values(output, self.output_act_quant_scale, self.output_act_quant_zero_point)

    def restructured(
        self,
        tensors: dict[str, torch.Tensor | None],
        shape: tuple[int, ...],
        blocks: tuple[int, ...] | None,
    ) -> Self:
        """Return a tensor of other shape made of views; sums that a cut made wrong are dropped."""
        sums, codes = tensors["weight_sums"], tensors["qdata"]
        if sums is not None and codes is not None:
            untouched = sums is self.weight_sums
            if untouched or not are_sums_of(tuple(sums.shape), tuple(codes.shape)):
                tensors = tensors | {"weight_sums": None}
        return super().restructured(tensors, shape, blocks)

    @classmethod
    def simplify(cls, layout: Any) -> Any:
        """Return the layout without zero points that are all 0, and with sums where they serve."""
        changes: dict[str, Any] = {
            name: None
            for name in _ZERO_POINTS
            if getattr(layout, name) is not None and not bool(getattr(layout, name).any())
        }
        layout = attrs.evolve(layout, **changes)
        wanted = sums_serve(layout)
        if wanted and layout.weight_sums is None:
            layout = attrs.evolve(layout, weight_sums=row_sums(layout.qdata))
        if not wanted and layout.weight_sums is not None:
            layout = attrs.evolve(layout, weight_sums=None)
        return layout

    @classmethod
    def fields_read(cls, layout: Any) -> Collection[str]:
        """Return the tensor fields that `simplify` looks into: codes where it may add them up."""
        may_sum = layout.weight_sums is None and sums_serve(layout)
        return (*_ZERO_POINTS, "qdata") if may_sum else _ZERO_POINTS

    @classmethod
    def check_layout_values(cls, layout: Any) -> None:
        """Check that scales are positive and finite, codes in range, and sums right.

        Raises:
            LayoutError: naming field, count and first index.
        """
        low, high = code_range(layout.target_dtype)
        check_code_range(layout, "qdata", low, high)
        check_code_range(layout, "zero_point", low, high)
        check_scale_values(layout, "scale")
        check_static_scales(layout)
        codes, sums = loaded(layout.qdata), loaded(layout.weight_sums)
        if codes is not None and sums is not None:
            by_rows = tuple(sums.shape) == (*codes.shape[:-1], 1)
            right = row_sums(codes) if by_rows else row_sums(codes.mT).mT
            bad = sums != right
            refuse_where(bad, "weight_sums", "is not the sum of qdata", sums, "sums along K")


def sums_serve(layout: Any) -> bool:
    """Return whether a product with this weight uses the sums of its rows."""
    if layout.act_quant_zero_point is None or layout.act_quant_scale.shape[0] != 1:
        return False
    return bool(layout.scale.shape[-1] == 1 and layout.qdata.shape[-1] > 1)


def check_static_scales(layout: Any) -> None:
    """Check the values of scales of activations and outputs.

    Raises:
        LayoutError: naming field, count and first index of what is not a positive finite number,
            or below the normal numbers of float32, in which it is used.
    """
    for name in ("act_quant_scale", "output_act_quant_scale"):
        check_scale_values(layout, name)
        scale = loaded(getattr(layout, name))
        if scale is not None and scale.dtype == torch.float64:
            least = torch.finfo(torch.float32).tiny
            most = torch.finfo(torch.float32).max
            bad = (scale < least) | (scale > most)
            refuse_where(bad, name, "does not fit float32", scale, f"{least} to {most}")
