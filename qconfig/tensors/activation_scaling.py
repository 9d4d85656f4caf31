"""The protocol of tensors that scale activations on their way into a linear."""

from typing import Protocol, Self, runtime_checkable

import torch


@runtime_checkable
class SupportsActivationScaling(Protocol):
    """A quantized weight that can carry a factor for its activations, as AWQ and SmoothQuant need.

    Equalization divides an activation channel by `s` and multiplies the weight's column by it; the
    tensor that results carries `1 / s`.
    """

    def with_activation_scale(self, act_pre_scale: torch.Tensor | None) -> Self:
        """Return the tensor with that factor in place of an earlier one.

        Args:
            act_pre_scale: floating point, (K,) or with leading dimensions; None removes it.

        Raises:
            LayoutError: its last dimension is not K.
        """
