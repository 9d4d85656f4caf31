"""`UintxTensor`: unsigned codes of 1 to 8 bits, one a byte."""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch

from qconfig.layouts.uintx import UintxTensorLayout, UintxZeroPointDomain
from qconfig.tensors import uintx_codes
from qconfig.tensors.geometry import Follows
from qconfig.tensors.matrix import MatrixTensor
from qconfig.tensors.value_checks import check_code_range, check_finite, check_scale_values


class UintxTensor(MatrixTensor):
    """A tensor of values `(qdata - zero_point) * scale`, or with zero points that are values.

    `dequantize` has the bits of `dequantize_affine` of torchao 0.18, and in the domain FLOAT of its
    tinygemm form. `linear` multiplies with these values.

    Attributes:
        qdata: uint8 codes below `2**bit_width`, (N, K) or (B, N, K).
        scale: floating point, one entry a block: (N, K/g), with B in front.
        bit_width: bits of a code, 1 to 8.
        block_size: elements that share a scale, along each dimension.
        zero_point: shaped like `scale`, or None: codes, or in the domain FLOAT values of the middle
            code.
        zero_point_domain: INT or FLOAT.
        act_pre_scale: factor for the activation, (..., K), or None.
    """

    layout_class: ClassVar[type] = UintxTensorLayout
    follows: ClassVar[Mapping[str, Follows]] = {
        "qdata": Follows.SAME,
        "scale": Follows.SAME,
        "zero_point": Follows.SAME,
        "act_pre_scale": Follows.COLUMNS,
    }

    qdata: torch.Tensor
    scale: torch.Tensor
    bit_width: int
    block_size: tuple[int, ...]
    zero_point: torch.Tensor | None
    zero_point_domain: UintxZeroPointDomain
    act_pre_scale: torch.Tensor | None

    def dequantize(self, dtype: torch.dtype | None = None) -> torch.Tensor:
        """Return the values as an ordinary tensor.

        Args:
            dtype: floating-point type of the result; by default the one this tensor shows.
        """
        is_float = self.zero_point_domain is UintxZeroPointDomain.FLOAT
        return uintx_codes.dequantize(
            self.qdata,
            self.scale,
            self.zero_point,
            dtype or self.shown_dtype,
            middle=1 << (self.bit_width - 1) if is_float else None,
        )

    def code_bounds(self) -> tuple[int, int]:
        """Return the smallest and the largest code; see `MatrixTensor.code_bounds`."""
        if self.zero_point_domain is UintxZeroPointDomain.FLOAT:
            return super().code_bounds()
        return 0, (1 << self.bit_width) - 1

    @classmethod
    def check_layout_values(cls, layout: Any) -> None:
        """Check that scales are positive and finite, and that codes keep to their bits.

        Raises:
            LayoutError: naming field, count and first index.
        """
        check_scale_values(layout, "scale")
        check_finite(layout, ("zero_point", "act_pre_scale"))
        if layout.bit_width < 8:
            check_code_range(layout, "qdata", 0, (1 << layout.bit_width) - 1)
