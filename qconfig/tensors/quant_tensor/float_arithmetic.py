"""Negation and absolute values of tensors of small floats; other arithmetic gives plain tensors."""

from typing import Any

from qconfig.errors import UnsupportedOperationError
from qconfig.tensors.quant_tensor.calls import on_tensor, plain
from qconfig.tensors.quant_tensor.metadata_moves import remade
from qconfig.tensors.quant_tensor.operators import (
    ABSOLUTE,
    DIFFERENCE,
    NEGATION,
    POSITIVE,
    PRODUCT,
    QUOTIENT,
    SUM,
)
from qconfig.tensors.quant_tensor.rules import Rule

PLAIN_ARITHMETIC = Rule(
    "a + b, a - b, a * b, a / b", SUM + DIFFERENCE + PRODUCT + QUOTIENT, plain, {}, "plain"
)
"""Sums, differences, products and quotients, where their results have no metadata."""


def check_has_negative(tensor: Any) -> None:
    """Check that a format has what the negation of its values needs.

    Raises:
        UnsupportedOperationError: it has no sign.
    """
    if not tensor.signed:
        raise UnsupportedOperationError(
            f"{type(tensor).__name__} without a sign has no negative values",
            hint="negate .value for a plain tensor",
        )


@on_tensor
def _negated(func: Any, tensor: Any) -> Any:
    check_has_negative(tensor)
    zero_point = tensor.zero_point if tensor.is_symmetric else -tensor.zero_point
    return remade(tensor, value=func(tensor.value), scale=tensor.scale, zero_point=zero_point)


@on_tensor
def _absolute(func: Any, tensor: Any) -> Any:
    value, scale, zero_point = tensor.value, tensor.scale, tensor.zero_point
    return remade(tensor, value=func(value), scale=scale, zero_point=zero_point, signed=False)


FLOAT_ARITHMETIC = (
    PLAIN_ARITHMETIC,
    Rule(
        "-a",
        NEGATION,
        _negated,
        {"scale": "scale", "zero_point": "-zp", "bit_width": "bits", "signed": "true"},
        "an error where there is no sign",
    ),
    Rule(
        "abs(a)",
        ABSOLUTE,
        _absolute,
        {"scale": "scale", "zero_point": "zp", "bit_width": "bits", "signed": "false"},
    ),
    POSITIVE,
)
