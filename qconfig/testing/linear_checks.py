"""Checks of `linear` against what the tensor says it multiplies."""

import torch
from torch.nn.functional import linear

from qconfig.testing.subject import (
    Subject,
    equal_packed,
    require,
    require_close,
    require_linear,
)


def linear_ranks(subject: Subject) -> None:
    """Activations of rank 1 to 4 give what the dequantized weight gives."""
    tensor = subject.build()
    for leading in ((), (5,), (2, 3), (2, 1, 3)):
        x = subject.activation(*leading)
        with torch.no_grad():
            require_linear(linear(x, tensor), tensor, x, f"rank {x.dim()}")


def linear_batches(subject: Subject) -> None:
    """Small and large batches, where kernels change, give the same."""
    tensor = subject.build()
    for rows in (1, 7, 8, 9, 16, 17, 64):
        x = subject.activation(rows)
        with torch.no_grad():
            require_linear(linear(x, tensor), tensor, x, f"batch of {rows}")


def linear_bias(subject: Subject) -> None:
    """The bias is added."""
    tensor, x = subject.build(), subject.activation(3)
    bias = torch.arange(subject.shape[0]).to(x.dtype)
    with torch.no_grad():
        require_linear(linear(x, tensor, bias), tensor, x, "bias", bias)


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
    """The gradient reaches the activation, as if it were not quantized; the weight has none."""
    tensor, x = subject.build(), subject.activation(3)
    found, expected = x.clone().requires_grad_(), x.clone().requires_grad_()
    linear(found, tensor).sum().backward()  # type: ignore[no-untyped-call]
    scaled = getattr(tensor, "scaled_activation", lambda value: value)(expected)
    linear(scaled, tensor.dequantize()).sum().backward()  # type: ignore[no-untyped-call]
    if found.grad is None or expected.grad is None:
        require(condition=False, message="no gradient reaches the activation")
    else:
        require_close(found.grad, expected.grad, "gradient")


def successive_forwards(subject: Subject) -> None:
    """Forwards of ranks 1, 2 and 3 one after another are right and leave the weight as it was."""
    tensor, before = subject.build(), subject.build()
    x = subject.activation(6)
    with torch.no_grad():
        first = linear(x, tensor)
        for other in (x[0], x.view(2, 3, -1)):
            require_linear(linear(other, tensor), tensor, other, "another rank")
        require(torch.equal(linear(x, tensor), first), "a second forward gives another result")
    require(equal_packed(tensor, before), "a forward changes the weight")


def adapters_train(subject: Subject) -> None:
    """Low-rank adapters on top of a quantized layer, and the layer before it, get gradients."""
    layer, dtype = subject.quantized_linear(), subject.dtype.to_torch()
    rows, columns = subject.shape
    before = torch.nn.Linear(columns, columns, dtype=dtype)
    down = torch.nn.Linear(columns, 4, bias=False, dtype=dtype)
    up = torch.nn.Linear(4, rows, bias=False, dtype=dtype)
    x = before(subject.activation(5))
    (layer(x) + up(down(x))).square().mean().backward()
    for name, module in (("the layer before", before), ("lora_A", down), ("lora_B", up)):
        gradient = module.weight.grad
        if gradient is None:
            require(condition=False, message=f"{name} gets no gradient")
        else:
            require(gradient.isfinite().all(), f"the gradient of {name} is not finite")
            require(gradient.any(), f"the gradient of {name} is zero")
    require(layer.weight.grad is None, "the packed weight gets a gradient")


CHECKS = (
    linear_ranks,
    linear_batches,
    linear_bias,
    linear_empty,
    linear_in_inference_mode,
    gradient_of_activation,
    successive_forwards,
    adapters_train,
)
