"""How calls of linears go: with an operator of torch.library or without, row by row."""

import torch


def needs_operator(activation: torch.Tensor, qdata: torch.Tensor) -> bool:
    """Return whether a linear has to be an operator of torch.library.

    A tracer, autograd and tensor subclasses have to see one; an ordinary call saves the detour
    through the dispatcher, which takes longer than the product of a small layer.

    Args:
        activation: what is multiplied.
        qdata: codes of the weight.
    """
    if type(activation) is not torch.Tensor or type(qdata) is not torch.Tensor:
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
