"""What the operators of int8 products share with autograd: the gradient is that of a plain product.

Activations pass as if they had not been rounded.
"""

from typing import Any

import torch

from qconfig.tensors.int8_linear import int8_linear
from qconfig.tensors.linear_calls import bias_gradient, keep_bias


def register_gradient(operator: Any, name: str) -> None:
    """Give an operator its shape without data, and its gradient.

    Args:
        operator: takes (activation, qdata, scale, zero_point, ..., dtype, bias), as
            `int8_dynamic_linear`.
        name: its qualified name.
    """
    operator.register_fake(_fake)
    torch.library.register_autograd(name, _backward, setup_context=_setup)


def _fake(activation: torch.Tensor, qdata: torch.Tensor, *settings: Any) -> torch.Tensor:
    return activation.new_empty((*activation.shape[:-1], qdata.shape[0]), dtype=settings[-2])


def _setup(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    ctx.save_for_backward(*inputs[1:4])
    ctx.dtype = inputs[0].dtype
    keep_bias(ctx, inputs[-1])


def _backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    qdata, scale, zero_point = ctx.saved_tensors
    zero, result = None if zero_point is None else zero_point.t(), None
    if ctx.needs_input_grad[0]:
        result = int8_linear(gradient.to(ctx.dtype), qdata.t(), scale.t(), zero)
    others = len(ctx.needs_input_grad) - 2
    return (result, *(None,) * others, bias_gradient(ctx, gradient))
