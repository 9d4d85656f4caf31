"""Operator tables of packed tensors, and the error for everything that is in none."""
# ruff: noqa: SLF001 (what torch offers to subclasses has underscored names)

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch.utils._python_dispatch import return_and_correct_aliasing

from qconfig.errors import UnsupportedOperationError

F = TypeVar("F", bound=Callable[..., Any])
Table = dict[Any, Callable[..., Any]]


class OperatorTable:
    """Which operators a tensor class has: of aten (below autograd) and of torch (above it).

    An aten implementation is called as `f(func, args, kwargs)`, one of torch as
    `f(*args, **kwargs)`.
    """

    def __init__(self, parent: "OperatorTable | None" = None) -> None:
        self.aten: Table = dict(parent.aten) if parent else {}
        self.torch: Table = dict(parent.torch) if parent else {}
        self.named: Table = dict(parent.named) if parent else {}

    def implements(self, *operators: Any) -> Callable[[F], F]:
        """Register the implementation of aten operators."""
        return _registers(self.aten, operators)

    def implements_named(self, *names: str) -> Callable[[F], F]:
        """Register the implementation of operators that torch registers later, or not at all."""
        return _registers(self.named, names)

    def implements_torch(self, *functions: Any) -> Callable[[F], F]:
        """Register the implementation of functions of torch, which autograd sees through."""
        return _registers(self.torch, functions)


def _registers(table: Table, keys: tuple[Any, ...]) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        for key in keys:
            table[key] = function
        return function

    return decorate


def run_aten(cls: type, table: OperatorTable, func: Any, args: Any, kwargs: Any) -> Any:
    """Run an aten operator on packed tensors.

    An operator without an implementation is taken apart where torch defines it by others, and
    refused otherwise; nothing is ever dequantized behind the caller's back.

    Raises:
        UnsupportedOperationError: naming operator and class.
    """
    implementation = table.aten.get(func) or table.named.get(str(func))
    if implementation is not None:
        return implementation(func, args, kwargs)
    if not func._schema.is_mutable:
        result = func.decompose(*args, **kwargs)
        if result is not NotImplemented:
            return result
    raise unsupported(cls, func)


def aliased(func: Any, args: Any, kwargs: Any, result: Any) -> Any:
    """Let the result of a view or in-place operator share the outer storage that its schema says.

    Inference mode keeps no such record, and torch 2.13 fails to write it there.
    """
    if torch.is_inference_mode_enabled():
        return result
    return return_and_correct_aliasing(func, args, kwargs, result)  # type: ignore[no-untyped-call]


def unsupported(cls: type, func: Any, reason: str | None = None) -> UnsupportedOperationError:
    """Return the error for an operator that `cls` does not have."""
    name = str(func) if isinstance(func, torch._ops.OpOverload) else func
    if reason is None and isinstance(func, torch._ops.OpOverload) and func._schema.is_mutable:
        reason = "it would change a packed payload in place"
    return UnsupportedOperationError(
        f"{cls.__name__} does not support {name}" + (f": {reason}" if reason else ""),
        hint="call dequantize() for an ordinary tensor",
    )
