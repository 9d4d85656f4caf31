"""Checks under torch.compile and with fake tensors."""

from typing import Any

import torch
from torch import nn
from torch._dynamo.testing import CompileCounterWithBackend
from torch._subclasses import FakeTensorMode
from torch.nn.functional import linear

from qconfig.testing.subject import Subject, require, require_close


def compile_full_graph(subject: Subject) -> None:
    """One full graph serves all layers of a shape and all batch sizes."""
    torch._dynamo.reset()  # noqa: SLF001
    counter: Any = CompileCounterWithBackend(subject.compile_backend)

    def call(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = layer(x)
        return result

    compiled = torch.compile(call, fullgraph=True, dynamic=True, backend=counter)
    for seed in range(10):
        layer = subject.quantized_linear(seed)
        for rows in (3, 20):
            x = subject.activation(rows)
            require_close(compiled(layer, x), call(layer, x), f"layer {seed}, batch of {rows}")
    torch._dynamo.reset()  # noqa: SLF001
    count = counter.frame_count
    require(count == 1, f"{count} compilations for 10 layers of one shape and 2 batch sizes")


def compile_blocks(subject: Subject) -> None:
    """Modules that are compiled one by one share a full graph, though each has its own weight."""
    torch._dynamo.reset()  # noqa: SLF001
    counter: Any = CompileCounterWithBackend(subject.compile_backend)
    for seed in range(10):
        layer = subject.quantized_linear(seed)
        compiled = nn.Sequential(layer, nn.ReLU())
        compiled.compile(fullgraph=True, dynamic=True, backend=counter)
        x = subject.activation(3)
        with torch.no_grad():
            require_close(compiled(x), layer(x).relu(), f"block {seed}")
    torch._dynamo.reset()  # noqa: SLF001
    count = counter.frame_count
    require(count == 1, f"{count} compilations for 10 blocks of one shape")


def compile_with_gradient(subject: Subject) -> None:
    """A compiled linear hands the gradient to its activation."""
    torch._dynamo.reset()  # noqa: SLF001
    layer = subject.quantized_linear()
    compiled = torch.compile(layer, fullgraph=True, backend=subject.compile_backend)
    x = subject.activation(3).requires_grad_()
    compiled(x).sum().backward()
    torch._dynamo.reset()  # noqa: SLF001
    require(x.grad is not None, "no gradient reaches the activation")


def fake_tensors(subject: Subject) -> None:
    """Under FakeTensorMode a linear gives shape and type without touching elements."""
    mode = FakeTensorMode()
    tensor = mode.from_tensor(subject.build())
    x = mode.from_tensor(subject.activation(3))
    with mode, torch.no_grad():
        found = linear(x, tensor)
    require(tuple(found.shape) == (3, subject.shape[0]), f"shape {tuple(found.shape)}")
    require(found.dtype == x.dtype, f"dtype {found.dtype}")


def meta_device(subject: Subject) -> None:
    """`to("meta")` keeps class, shape and type."""
    tensor = subject.build()
    found = tensor.to("meta")
    require(type(found) is type(tensor), f"class {type(found).__name__}")
    require(found.device.type == "meta", f"device {found.device}")
    require((found.shape, found.dtype) == (tensor.shape, tensor.dtype), "shape or dtype changes")


CHECKS = (compile_full_graph, compile_blocks, compile_with_gradient, fake_tensors, meta_device)
