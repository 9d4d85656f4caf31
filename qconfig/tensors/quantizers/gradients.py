"""Give a result the gradient of something else: straight-through estimators."""

from typing import Any

import torch


class _Replaced(torch.autograd.Function):
    """The first operand forwards, the gradient to the second."""

    @staticmethod
    def forward(ctx: Any, found: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
        return found.view_as(found)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return None, gradients[0]


def is_differentiated(source: torch.Tensor) -> bool:
    """Return whether gradients may be asked for."""
    return torch.is_grad_enabled() and source.requires_grad


def with_gradient_of(source: torch.Tensor, found: torch.Tensor) -> torch.Tensor:
    """Return `found`, bit for bit, with the gradient that `source` would have.

    Args:
        source: differentiable, of the shape of `found`.
        found: the result; its own gradient is cut off.

    Dynamo makes an instance of torch.autograd.Function, which torch warns of, so graphs have
    arithmetic instead: adding -0 changes nothing, and the difference has the gradient.
    """
    if not is_differentiated(source):
        return found
    if torch.compiler.is_compiling():
        difference = torch.nan_to_num(source.detach() - source, nan=0.0, posinf=0.0, neginf=0.0)
        return found.detach() + -difference
    result: torch.Tensor = _Replaced.apply(found.detach(), source)  # type: ignore[no-untyped-call]
    return result
