"""Checks of `linear` against the dequantized weight."""

import torch
from torch.nn.functional import linear

from qconfig.testing.subject import Subject, require, require_close


def linear_ranks(subject: Subject) -> None:
    """Activations of rank 1 to 4 give what the dequantized weight gives."""
    tensor = subject.build()
    for leading in ((), (5,), (2, 3), (2, 1, 3)):
        x = subject.activation(*leading)
        with torch.no_grad():
            require_close(linear(x, tensor), linear(x, tensor.dequantize()), f"rank {x.dim()}")


def linear_batches(subject: Subject) -> None:
    """Small and large batches, where kernels change, give the same."""
    tensor = subject.build()
    for rows in (1, 7, 8, 9, 16, 17, 64):
        x = subject.activation(rows)
        with torch.no_grad():
            require_close(linear(x, tensor), linear(x, tensor.dequantize()), f"batch of {rows}")


def linear_bias(subject: Subject) -> None:
    """The bias is added."""
    tensor, x = subject.build(), subject.activation(3)
    bias = torch.arange(subject.shape[0]).to(x.dtype)
    with torch.no_grad():
        require_close(linear(x, tensor, bias), linear(x, tensor.dequantize(), bias), "bias")


def linear_empty(subject: Subject) -> None:
    """An empty batch gives an empty result."""
    tensor = subject.build()
    for leading in ((0,), (2, 0), (0, 3)):
        found = linear(subject.activation(*leading), tensor)
        expected = (*leading, subject.shape[0])
        require(tuple(found.shape) == expected, f"batch {leading} gives {tuple(found.shape)}")


def linear_in_inference_mode(subject: Subject) -> None:
    """Inference mode changes nothing."""
    tensor, x = subject.build(), subject.activation(3)
    with torch.no_grad():
        expected = linear(x, tensor)
    with torch.inference_mode():
        require(torch.equal(linear(x, tensor), expected), "inference mode changes the result")


def gradient_of_activation(subject: Subject) -> None:
    """The gradient reaches the activation, though the weight has none."""
    tensor, x = subject.build(), subject.activation(3)
    found, expected = x.clone().requires_grad_(), x.clone().requires_grad_()
    linear(found, tensor).sum().backward()  # type: ignore[no-untyped-call]
    linear(expected, tensor.dequantize()).sum().backward()  # type: ignore[no-untyped-call]
    if found.grad is None or expected.grad is None:
        require(condition=False, message="no gradient reaches the activation")
    else:
        require_close(found.grad, expected.grad, "gradient")


CHECKS = (
    linear_ranks,
    linear_batches,
    linear_bias,
    linear_empty,
    linear_in_inference_mode,
    gradient_of_activation,
)
