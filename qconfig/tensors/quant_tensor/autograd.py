"""Gradients between a quant tensor and its inner tensors.

Inner tensors carry no graph; the outer tensor does, so that a quant tensor may cross the border of
a compiled region with its gradients. `tied` makes a tensor whose graph leads to what it was made
of, `untied` gives one inner tensor whose graph leads to the outer one. The gradient of a quant
tensor is one of the same class that holds a gradient for each inner tensor, which is also what
AOTAutograd expects of a subclass.
"""

from typing import TYPE_CHECKING, Any, cast

import torch

if TYPE_CHECKING:
    from qconfig.tensors.quant_tensor.inner import InnerTensors


class _Tie(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, make: Any, names: tuple[str, ...], *tensors: torch.Tensor) -> Any:
        ctx.names = names
        tensor_class, inner, context, size = make
        own = {n: t.detach() for n, t in zip(names, tensors, strict=True)}
        return tensor_class.unflat(inner | own, context, size)

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
    def forward(ctx: Any, tensor: Any, name: str) -> torch.Tensor:
        ctx.tensor_class, ctx.size, ctx.name = type(tensor), tensor.logical_shape, name
        names, ctx.context = tensor.flat()
        shown = {n: tensor.raw(n) for n in names}
        ctx.shapes = {n: (t.shape, t.dtype) for n, t in shown.items()}
        return cast("torch.Tensor", shown[name].detach())

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        own = gradients[0]
        inner = {
            name: own if name == ctx.name else own.new_zeros(shape, dtype=dtype)
            for name, (shape, dtype) in ctx.shapes.items()
        }
        if torch.is_grad_enabled() and own.requires_grad:  # for derivatives of the gradient
            return tied(ctx.tensor_class, inner, ctx.context, ctx.size, (ctx.name,)), None
        return ctx.tensor_class.unflat(inner, ctx.context, ctx.size), None


def tied(
    tensor_class: Any, inner: dict[str, Any], context: Any, size: Any, names: tuple[str, ...]
) -> Any:
    """Return a quant tensor with a graph that leads to what it is made of.

    Args:
        tensor_class: its class.
        inner: all inner tensors, by name.
        context: the rest of it.
        size: its logical shape.
        names: the inner tensors that have graphs.
    """
    make = (tensor_class, inner, context, size)
    return _Tie.apply(make, names, *[inner[n] for n in names])  # type: ignore[no-untyped-call]


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
