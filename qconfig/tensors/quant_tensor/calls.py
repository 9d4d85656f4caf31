"""How rules are called: with a quant tensor first, by position or as `input`."""

from collections.abc import Callable
from typing import Any

from qconfig.tensors.quant_tensor.copies import is_quant
from qconfig.tensors.quant_tensor.dispatch import run_on_values


def on_tensor(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the `apply` of a rule from a function of the function called, tensor and arguments.

    Where the first argument is no quant tensor, or `out=` is given, the operation runs on values.
    """

    def apply(func: Any, *args: Any, **kwargs: Any) -> Any:
        if not args:
            args = (kwargs.pop("input"),)
        if not is_quant(args[0]) or "out" in kwargs:
            return run_on_values(func, args, kwargs)
        return function(func, *args, **kwargs)

    return apply


def plain(func: Any, *args: Any, **kwargs: Any) -> Any:
    """Run an operation on values: the `apply` of rules that always give plain tensors."""
    return run_on_values(func, args, kwargs)
