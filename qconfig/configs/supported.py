"""Refuse what a config cannot serve, with what it can: dtypes, granularities, pairs of them."""

from collections.abc import Callable, Iterable
from enum import Enum, StrEnum
from math import isfinite
from typing import Any

from qconfig.codec.dtypes import DType
from qconfig.errors import FieldError, UnknownNameError
from qconfig.versioning.type_check import tupled


def check_supported(value: Any, name: str, supported: Iterable[Any]) -> None:
    """Raise FieldError where a field's value is none of those that are supported."""
    allowed = tuple(supported)
    if value in allowed:
        return
    names = [str(a.value) if isinstance(a, Enum) else str(a) for a in allowed]
    raise FieldError(
        f"{name} is not supported",
        pointer=f"/{name}",
        found=value.value if isinstance(value, Enum) else value,
        expected=names[0] if len(names) == 1 else f"one of {', '.join(names)}",
    )


def check_finite(value: float | None, name: str) -> None:
    """Raise FieldError where a number is infinite or not a number; None is no number."""
    if value is not None and not isfinite(value):
        raise FieldError(
            f"{name} is not finite", pointer=f"/{name}", found=value, expected="a finite number"
        )


def pair_or(default: Any) -> Callable[[Any], Any]:
    """Return a converter to a pair, one for the activation and one for the weight.

    Args:
        default: what stands for None.

    One granularity stands for both; a list or tuple goes through as a tuple.
    """

    def convert(value: Any) -> Any:
        if value is None:
            return (default, default)
        found = tupled(value)
        return found if isinstance(found, tuple) else (found, found)

    return convert


def optional_dtype(value: Any) -> DType | None:
    """Return the DType of a name, a torch.dtype or a DType; None stays None.

    Raises:
        UnknownNameError: there is no such element type.
    """
    return None if value is None else DType.parse(value)


def choice_of(kind: type[StrEnum]) -> Callable[[Any], Any]:
    """Return a converter that takes a member's name as torchao does, in either case.

    Args:
        kind: the enum of the field. What names none of its members is left to the type check.
    """

    def convert(value: Any) -> Any:
        if type(value) is str and value.upper() in kind.__members__:
            return kind[value.upper()]
        return value

    return convert


def dtype_name(value: Any) -> Any:
    """Return the name of a DType or torch.dtype; what is neither is left to the type check."""
    if type(value) is str:
        return value
    try:
        return DType.parse(value).value
    except UnknownNameError:
        return value
