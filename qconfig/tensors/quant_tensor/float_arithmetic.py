"""Negation and absolute values of tensors of small floats; other arithmetic gives plain tensors."""

from typing import Any

import torch

from qconfig.errors import UnsupportedOperationError
from qconfig.tensors.quant_tensor.calls import on_tensor, plain
from qconfig.tensors.quant_tensor.metadata_moves import remade
from qconfig.tensors.quant_tensor.rules import Rule

T = torch.Tensor

NEGATION = (T.neg, T.__neg__, torch.neg, T.negative, torch.negative)
ABSOLUTE = (T.abs, T.__abs__, torch.abs, T.absolute, torch.absolute)
PLAIN = (
    T.add,
    T.__add__,
    T.sub,
    T.__sub__,
    T.subtract,
    T.mul,
    T.__mul__,
    T.multiply,
    T.div,
    T.__truediv__,
    T.divide,
    T.true_divide,
    torch.add,
    torch.sub,
    torch.subtract,
    torch.mul,
    torch.multiply,
    torch.div,
    torch.divide,
    torch.true_divide,
)
"""Sums, differences, products and quotients."""


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


@on_tensor
def _same(_: Any, tensor: Any) -> Any:
    return tensor


FLOAT_ARITHMETIC = (
    Rule("a + b, a - b, a * b, a / b", PLAIN, plain, {}, "plain"),
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
    Rule(
        "+a",
        (T.positive, T.__pos__, torch.positive),
        _same,
        {"scale": "scale", "zero_point": "zp", "bit_width": "bits", "signed": "signed"},
    ),
)
