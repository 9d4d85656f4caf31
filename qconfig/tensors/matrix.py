"""`MatrixTensor`: a packed weight of a linear, an embedding or of experts."""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import torch
from torch.nn import functional

from qconfig.tensors import (
    matrix_ops,  # noqa: F401 (its import fills the table that every class copies)
    matrix_sharding,
    matrix_view_ops,  # noqa: F401 (likewise)
)
from qconfig.tensors.base import PackedTensor
from qconfig.tensors.dispatch import OperatorTable, unsupported
from qconfig.tensors.geometry import Follows
from qconfig.tensors.matrix_table import MATRIX
from qconfig.tensors.value_checks import check_finite


class MatrixTensor(PackedTensor):
    """A packed weight, (N, K) or (B, N, K), with the operators that models and tools use.

    It serves `linear`, `matmul`, `mm`, `mv`, `bmm`, `addmm` and `embedding`; it can be sliced,
    indexed, transposed, split, joined and given leading dimensions as far as no block of a scale
    and no byte is cut.

    A subclass says `layout_class` and `follows`, implements `dequantize`, and `linear` where it
    can do better than dequantizing.

    Attributes:
        follows: how the dimensions of each inner tensor follow the logical ones.
        fixed_blocks: whether the format fixes the size of a block, so that none may be cut short.
    """

    operators: ClassVar[OperatorTable] = MATRIX
    follows: ClassVar[Mapping[str, Follows]]
    fixed_blocks: ClassVar[bool] = False

    # what a family does

    def linear(self, activation: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        """Return `activation @ self.T + bias`.

        Args:
            activation: (..., K), floating point, an ordinary tensor; autocast is done.
            bias: (N,) or None.

        Returns:
            (..., N) in the activation's type; differentiable with respect to the activation.
        """
        scaled = self.scaled_activation(activation)
        return functional.linear(scaled, self.dequantize(activation.dtype), bias)

    def activation_seen(self, activation: torch.Tensor) -> torch.Tensor:
        """Return what `linear` multiplies with: the activation scaled, quantized, dequantized.

        With `output_seen` it defines what `linear` computes, whatever kernel does:
        `output_seen(activation_seen(x) @ dequantize().T + bias)`, up to rounding.

        Args:
            activation: (..., K).

        Returns:
            (..., K) in the activation's type, or float32 where it was quantized.
        """
        return self.scaled_activation(activation)

    def output_seen(self, output: torch.Tensor) -> torch.Tensor:
        """Return what `linear` makes of its result, (..., N): itself, or quantized and back."""
        return output

    def code_bounds(self) -> tuple[int, int]:
        """Return the smallest and the largest code, where values are `(code - zero) * scale`.

        Raises:
            UnsupportedOperationError: the class has other values.
        """
        raise unsupported(type(self), "code_bounds", "its codes are no integers with zero points")

    def view_refusal(self) -> str | None:
        """Return why this tensor has no views and cuts, or None."""
        return None

    # what families share

    def scaled_activation(self, activation: torch.Tensor) -> torch.Tensor:
        """Return the activation times `act_pre_scale`, in its own type.

        Raises:
            UnsupportedOperationError: there is a vector for each of several matrices.
        """
        factor = getattr(self, "act_pre_scale", None)
        if factor is None:
            return activation
        if factor.numel() != factor.shape[-1]:
            shape = tuple(factor.shape)
            raise unsupported(type(self), "an activation scale for each matrix", f"{shape}")
        scaled: torch.Tensor = (activation * factor.reshape(-1)).to(activation.dtype)
        return scaled

    @property
    def blocks(self) -> tuple[int, ...] | None:
        """Elements that share a scale along each dimension, if an attribute says so."""
        block = getattr(self, "block_size", None)
        return block if isinstance(block, tuple) else None

    def restructured(
        self,
        tensors: dict[str, torch.Tensor | None],
        shape: tuple[int, ...],
        blocks: tuple[int, ...] | None,
    ) -> Self:
        """Return a tensor of other shape made of views of the inner tensors, unchecked."""
        attributes = self.inner_attributes
        if "shape" in attributes:
            attributes["shape"] = tuple(shape)
        if blocks is not None:
            attributes["block_size"] = blocks
        return self._wrap(tensors, attributes, self.shown_dtype, torch.Size(shape))

    def fsdp_pre_all_gather(
        self,
        mesh: Any,
        outer_size: torch.Size,
        outer_stride: tuple[int, ...],
        module: Any,
        mp_policy: Any,
    ) -> Any:
        """Return the inner tensors that FSDP2 gathers, and what they belong to."""
        return matrix_sharding.pre_all_gather(self, outer_size[0], mesh.size())

    def fsdp_post_all_gather(
        self,
        all_gather_outputs: tuple[torch.Tensor, ...],
        metadata: Any,
        param_dtype: torch.dtype,
        *,
        out: torch.Tensor | None = None,
    ) -> Any:
        """Return the whole tensor that FSDP2 gathered."""
        return matrix_sharding.post_all_gather(all_gather_outputs, metadata, out)

    def with_activation_scale(self, act_pre_scale: torch.Tensor | None) -> Self:
        """Return the tensor with a factor by which `linear` multiplies its activation first.

        Args:
            act_pre_scale: floating point, (..., K); None removes the factor.

        Raises:
            LayoutError: its last dimension is not K, or an element is not finite.
            UnsupportedOperationError: the layout has no such field.
        """
        if "act_pre_scale" not in self.fields.tensors:
            raise unsupported(type(self), "with_activation_scale", "its layout has no factor")
        result = self.with_fields(act_pre_scale=act_pre_scale)
        check_finite(result, ("act_pre_scale",))
        return result
