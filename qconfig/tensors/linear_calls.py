"""How calls of linears go: with an operator of torch.library or without, row by row."""

from typing import Any

import torch

_PLAIN = (torch.Tensor, torch.nn.Parameter)


def needs_operator(
    activation: torch.Tensor, qdata: torch.Tensor, bias: torch.Tensor | None = None
) -> bool:
    """Return whether a linear has to be an operator of torch.library.

    A tracer, autograd and tensor subclasses have to see one; an ordinary call saves the detour
    through the dispatcher, which takes longer than the product of a small layer.

    Args:
        activation: what is multiplied.
        qdata: codes of the weight.
        bias: what is added, or None.
    """
    if type(activation) is not torch.Tensor or type(qdata) is not torch.Tensor:
        return True
    if bias is not None and type(bias) not in _PLAIN:
        return True
    if bias is not None and bias.requires_grad and torch.is_grad_enabled():
        return True
    return torch.compiler.is_compiling() or activation.requires_grad


def rows_of(activation: torch.Tensor, columns: int) -> torch.Tensor:
    """Return an activation as a matrix.

    Args:
        activation: (..., K), any strides.
        columns: K; of 0, there are no rows.

    Returns:
        (M, K): the activation itself if it is a matrix.
    """
    if activation.dim() == 2:
        return activation
    return activation.reshape(activation.numel() // columns if columns else 0, columns)


def bias_gradient(ctx: Any, gradient: torch.Tensor) -> torch.Tensor | None:
    """Return the gradient of a bias from that of a result, (..., N), or None if nobody asks.

    Args:
        ctx: of an operator that is always called with its bias, or None, in the last place; see
            `keep_bias`.
        gradient: of the result.
    """
    if ctx.bias_dtype is None or not ctx.needs_input_grad[-1]:
        return None
    return gradient.reshape(-1, gradient.shape[-1]).sum(0).to(ctx.bias_dtype)


def keep_bias(ctx: Any, bias: torch.Tensor | None) -> None:
    """Keep what `bias_gradient` needs, when an operator sets up its context."""
    ctx.bias_dtype = None if bias is None else bias.dtype


def empty_sums(
    activation: torch.Tensor, rows: int, bias: torch.Tensor | None, dtype: torch.dtype | None = None
) -> torch.Tensor:
    """Return the result of a linear with nothing to sum, (..., N): zeros, or the bias.

    Args:
        activation: (..., K).
        rows: N.
        bias: (N,) or None.
        dtype: of the result, by default that of the activation.
    """
    result = activation.new_zeros((*activation.shape[:-1], rows), dtype=dtype)
    return result if bias is None else result.add_(bias)
