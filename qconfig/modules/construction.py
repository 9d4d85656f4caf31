"""Calls of the quantized modules' constructors, which take a module and configs."""

from inspect import signature
from typing import Any, Self

from torch import nn

from qconfig.errors import UsageError

_ROLES = ("weight", "act", "trunc")


class TakesModule:
    """A module that is made of the one that it takes the place of, and of configs.

    Who calls it with the arguments of torch's module, or of another library's, is told how it is
    called.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Return a new module, without attributes.

        Raises:
            UsageError: the constructor of the class does not take these arguments.
        """
        # Copies, pickles and frozen modules come without arguments and never call __init__.
        if args or kwargs:
            try:
                signature(cls.__init__).bind(None, *args, **kwargs)
            except TypeError as error:
                raise _misuse(cls, str(error)) from None
        return super().__new__(cls)


def check_source(cls: type, source: Any) -> None:
    """Check what a module is to take the place of.

    Raises:
        UsageError: it is no module.
    """
    if source is not None and not isinstance(source, nn.Module):
        raise _misuse(cls, f"source is of type {type(source).__name__}")


def _misuse(cls: type, found: str) -> UsageError:
    names = list(signature(cls).parameters)
    ordinary = [base.__name__ for base in cls.__mro__ if base.__module__.startswith("torch.nn.")]
    role = next((name for name in names if name in _ROLES), "weight")
    made_of = f"torch.nn.{ordinary[0]}(...)" if ordinary else "module"
    error = UsageError(
        f"{cls.__name__} is made of the module that it takes the place of, and of configs",
        expected="of " + ", ".join(names),
        hint=f"{cls.__name__}({made_of}, {role}=IntQuantConfig(...)), or rules for "
        "qconfig.quantize_; bit widths and scales are fields of configs",
    )
    error.found = found
    return error
