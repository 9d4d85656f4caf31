"""`FloatxTensor`: small floating-point codes of 3 to 7 bits, one a byte, with a scale a row."""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch

from qconfig.layouts.floatx import FloatxTensorLayout
from qconfig.tensors.geometry import Follows
from qconfig.tensors.matrix import MatrixTensor
from qconfig.tensors.small_floats import SmallFloat
from qconfig.tensors.value_checks import check_code_range, check_scale_values


class FloatxTensor(MatrixTensor):
    """A tensor of values `qdata * scale`: torchao's weights for FP6-LLM, unpacked.

    `dequantize` has the bits of torchao's `dequantize_affine_floatx`: the product in float32,
    rounded once. `linear` multiplies with these values.

    Attributes:
        qdata: uint8 codes of a sign, `ebits` and `mbits`, (N, K).
        scale: floating point, (N, 1).
        ebits: bits of the exponent.
        mbits: bits of the mantissa.
    """

    layout_class: ClassVar[type] = FloatxTensorLayout
    follows: ClassVar[Mapping[str, Follows]] = {"qdata": Follows.SAME, "scale": Follows.SAME}

    qdata: torch.Tensor
    scale: torch.Tensor
    ebits: int
    mbits: int

    def dequantize(self, dtype: torch.dtype | None = None) -> torch.Tensor:
        """Return the values as an ordinary tensor.

        Args:
            dtype: floating-point type of the result; by default the one this tensor shows.
        """
        kind = SmallFloat(self.ebits, self.mbits)
        table = torch.tensor(kind.values, device=self.qdata.device)
        codes = self.qdata & (2 * kind.sign - 1)
        values = table.index_select(0, codes.to(torch.int32).reshape(-1)).view(codes.shape)
        return (values * self.scale.to(torch.float32)).to(dtype or self.shown_dtype)

    @classmethod
    def check_layout_values(cls, layout: Any) -> None:
        """Check that scales are positive and finite, and that codes keep to their bits.

        Raises:
            LayoutError: naming field, count and first index.
        """
        check_scale_values(layout, "scale")
        check_code_range(layout, "qdata", 0, (2 << (layout.ebits + layout.mbits)) - 1)
