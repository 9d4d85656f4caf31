"""`Int4Tensor`: int4 codes, two a byte, with scales and zero points for groups of a row."""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import torch

from qconfig.codec.dtypes import DType
from qconfig.layouts.int4 import Int4TensorLayout, clipped, packed_dimension
from qconfig.tensors import int4_prepack
from qconfig.tensors.geometry import Follows
from qconfig.tensors.int4_codes import dequantize
from qconfig.tensors.int4_linear import int4_linear
from qconfig.tensors.matrix import MatrixTensor
from qconfig.tensors.value_checks import check_finite, check_scale_values
from qconfig.versioning import Layout

_FLOAT8_MAX = 448.0
_LEAST = 1e-12


class Int4Tensor(MatrixTensor):
    """A tensor of values `code * scale + zero_point`, as torchao 0.18's class of that name.

    See `MatrixTensor` for what it serves. Codes are -8 to 7, the even column in the low half of a
    byte; a cut falls on whole bytes and groups. Transposed, bytes hold two rows.

    Attributes:
        qdata: int8, (N, K/2) or (B, N, K/2).
        scale: floating point, (K/g, N) or (B, K/g, N).
        zero_point: floating point, shaped like `scale`: the value of code 0.
        block_size: elements that share a scale, along each dimension.
        act_pre_scale: factor for the activation, (..., K), or None.
        activation_dtype: float8_e4m3fn if `linear` quantizes its activation row by row.
        rounds_products: whether `dequantize`, but not `linear`, rounds `code * scale` to the type
            of the result before it adds the zero point.
    """

    layout_class: ClassVar[type] = Int4TensorLayout
    follows: ClassVar[Mapping[str, Follows]] = {
        "qdata": Follows.SAME,
        "scale": Follows.SWAPPED,
        "zero_point": Follows.SWAPPED,
        "act_pre_scale": Follows.COLUMNS,
    }

    qdata: torch.Tensor
    scale: torch.Tensor
    zero_point: torch.Tensor
    block_size: tuple[int, ...]
    act_pre_scale: torch.Tensor | None
    activation_dtype: DType
    rounds_products: bool

    @classmethod
    def from_layout(cls, layout: Layout, *, check: bool = False) -> Self:
        """Wrap the tensors of a layout, see `PackedTensor.from_layout`.

        Raises:
            LayoutError: another layout than this class holds, or wrong values.
        """
        self = super().from_layout(layout, check=check)
        # Blocks larger than a row, as torchao stores, would not fit when rows are joined.
        self.__dict__["block_size"] = clipped(self.block_size, tuple(self.shape))
        return self

    def dequantize(self, dtype: torch.dtype | None = None) -> torch.Tensor:
        """Return the values as an ordinary tensor.

        Args:
            dtype: floating-point type of the result; by default the one this tensor shows.
        """
        target = dtype or self.shown_dtype
        packed, last = self._packed_dimension(), self.qdata.dim() - 1
        qdata = self.qdata.transpose(packed, last)
        scale, zero = (
            t.transpose(-1, -2).transpose(packed, last) for t in (self.scale, self.zero_point)
        )
        values = dequantize(qdata, scale, zero, target, rounds_products=self.rounds_products)
        return values.transpose(packed, last)

    def linear(self, activation: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        """Return `activation @ self.T + bias`; see `MatrixTensor.linear`."""
        seen = self.activation_seen(activation)
        if self._packed_dimension() == 1:
            result = int4_linear(seen, self.qdata, self.scale.t(), self.zero_point.t(), bias)
        else:
            result = int4_linear(
                seen, self.qdata.t(), self.scale, self.zero_point, bias, transpose=True
            )
        return result if result.dtype == activation.dtype else result.to(activation.dtype)

    def _packed_dimension(self) -> int:
        return packed_dimension(self.qdata.shape, self.logical_shape)

    def activation_seen(self, activation: torch.Tensor) -> torch.Tensor:
        """Return the activation scaled and, for float8, quantized row by row and back in float32.

        The scale of a row is `max(|x|) / 448`, as of the kernels that torchao calls. The gradient
        passes as if nothing had been rounded.
        """
        scaled = self.scaled_activation(activation)
        if self.activation_dtype is not DType.FLOAT8_E4M3FN or not scaled.numel():
            return scaled
        wide = scaled.to(torch.float32)
        values = wide.detach()
        scale = values.abs().amax(-1, keepdim=True).clamp(min=_LEAST) / _FLOAT8_MAX
        codes = (values / scale).clamp(-_FLOAT8_MAX, _FLOAT8_MAX).to(torch.float8_e4m3fn)
        rounded = codes.to(torch.float32) * scale
        return rounded + (wide - values) if wide.requires_grad else rounded

    def fsdp_post_all_gather(
        self,
        all_gather_outputs: tuple[torch.Tensor, ...],
        metadata: Any,
        param_dtype: torch.dtype,
        *,
        out: torch.Tensor | None = None,
    ) -> Any:
        """Return the whole tensor that FSDP2 gathered, into `out` if that is given."""
        for gathered in all_gather_outputs:
            int4_prepack.refilled(gathered)
        return super().fsdp_post_all_gather(all_gather_outputs, metadata, param_dtype, out=out)

    @classmethod
    def check_layout_values(cls, layout: Any) -> None:
        """Check that scales are positive and finite, zero points and factors finite.

        Raises:
            LayoutError: naming field, count and first index.
        """
        check_scale_values(layout, "scale")
        check_finite(layout, ("zero_point", "act_pre_scale"))


@Int4Tensor.operators.implements(torch.ops.aten.copy_.default)
def _copy(func: Any, args: Any, kwargs: Any) -> Any:
    result = MatrixTensor.operators.aten[func](func, args, kwargs)
    # Below autograd, where operators of subclasses run, torch counts no changes.
    int4_prepack.forget(args[0].qdata)
    return result
