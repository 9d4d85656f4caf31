"""Gradients between a quant tensor and its inner tensors.

Inner tensors carry no graph; the outer tensor does, so that a quant tensor may cross the border of
a compiled region with its gradients. `tied` makes a tensor whose graph leads to what it was made
of, `untied` gives one inner tensor whose graph leads to the outer one. The gradient of a quant
tensor is one of the same class that holds a gradient for each inner tensor, which is also what
AOTAutograd expects of a subclass.
"""

from functools import partial
from typing import TYPE_CHECKING, Any, cast

import torch

if TYPE_CHECKING:
    from qconfig.tensors.quant_tensor.inner import InnerTensors


class _Tie(torch.autograd.Function):
    @staticmethod
    def forward(make: Any, names: tuple[str, ...], *tensors: torch.Tensor) -> Any:
        return make({n: t.detach() for n, t in zip(names, tensors, strict=True)})

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.names = inputs[1]

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        return (None, None, *(_inner_gradient(gradients[0], name) for name in ctx.names))


def _inner_gradient(gradient: Any, name: str) -> torch.Tensor | None:
    if hasattr(type(gradient), "inner_names"):
        return cast("torch.Tensor", gradient.stored(name))
    # A plain gradient is that of the values: an operator ran on the outer tensor.
    return gradient if name == "value" else None


class _Untie(torch.autograd.Function):
    @staticmethod
    def forward(tensor: Any, name: str) -> torch.Tensor:
        return cast("torch.Tensor", tensor.raw(name).detach())

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        tensor, ctx.name = inputs
        ctx.cls, ctx.size = type(tensor), tensor.logical_shape
        names, ctx.context = tensor.flat()
        shown = {name: tensor.raw(name) for name in names}
        ctx.shapes = {name: (t.shape, t.dtype) for name, t in shown.items()}

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        own = gradients[0]
        inner = {
            name: own if name == ctx.name else own.new_zeros(shape, dtype=dtype)
            for name, (shape, dtype) in ctx.shapes.items()
        }
        make = partial(_gradient, ctx.cls, inner, ctx.context, ctx.size)
        if torch.is_grad_enabled() and own.requires_grad:  # for derivatives of the gradient
            return tied(make, {ctx.name: own}), None
        return make({}), None


def _gradient(
    cls: Any, inner: dict[str, Any], context: Any, size: Any, own: dict[str, torch.Tensor]
) -> Any:
    return cls.unflat(inner | own, context, size)


def tied(make: Any, tensors: dict[str, torch.Tensor]) -> Any:
    """Return what `make` makes of inner tensors, with a graph that leads to them.

    Args:
        make: from detached tensors, by name, to the quant tensor.
        tensors: the inner tensors that may have gradients, by name.
    """
    return _Tie.apply(make, tuple(tensors), *tensors.values())  # type: ignore[no-untyped-call]


def untied(tensor: "InnerTensors", name: str) -> torch.Tensor:
    """Return an inner tensor with a graph that leads to the outer one."""
    return cast("torch.Tensor", _Untie.apply(tensor, name))  # type: ignore[no-untyped-call]


def added(first: Any, second: Any) -> Any:
    """Return the sum of two gradients of a quant tensor: the engine adds them up."""
    if type(first) is not type(second):
        plain, own = (second, first) if hasattr(type(first), "inner_names") else (first, second)
        names, context = own.flat()
        inner = {n: own.raw(n) + plain if n == "value" else own.raw(n) for n in names}
        return own.unflat(inner, context, own.logical_shape)
    names, context = first.flat()
    inner = {n: first.raw(n) + second.raw(n) for n in names}
    return first.unflat(inner, context, first.logical_shape)
