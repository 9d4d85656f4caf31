"""Sums, products, quotients, negation and absolute values of integer tensors."""

from collections.abc import Callable
from typing import Any

import torch

from qconfig.errors import QuantTensorError
from qconfig.tensors.quant_tensor.bit_widths import (
    absolute_bits,
    bits_of_range,
    range_of,
    range_of_bits,
    sum_bits,
)
from qconfig.tensors.quant_tensor.calls import on_tensor
from qconfig.tensors.quant_tensor.dispatch import run_on_values
from qconfig.tensors.quant_tensor.operands import both_symmetric, common_scale, is_int
from qconfig.tensors.quant_tensor.operators import (
    ABSOLUTE,
    DIFFERENCE,
    NEGATION,
    POSITIVE,
    PRODUCT,
    QUOTIENT,
    SUM,
)
from qconfig.tensors.quant_tensor.rules import Formula, Rule

_PAIR = "plain, unless both are IntQuantTensors"
_SIGNED = Formula("signed1 or signed2", lambda a, b: a.signed or b.signed)
_TRAINING = Formula("training1 or training2", lambda a, b: a.training or b.training)
_MEAN = Formula("(scale1 + scale2) / 2", common_scale)
_BITS_OF_BOTH = Formula("bits1 + bits2", lambda a, b: a.number("bit_width") + b.number("bit_width"))
_ZERO = Formula("0", lambda a, _: a.zero_point)


def _pair(result: dict[str, Formula], condition: Callable[[Any, Any], bool] | None = None) -> Any:
    def apply(func: Any, input: Any, other: Any, **options: Any) -> Any:  # noqa: A002
        if not (is_int(input) and is_int(other)) or options:
            return run_on_values(func, (input, other), options)
        if condition is not None and not condition(input, other):
            return run_on_values(func, (input, other), options)
        fields = {name: formula(input, other) for name, formula in result.items()}
        value = func(input.value, other.value)
        symmetric = both_symmetric(input, other)
        return type(input).made(value=value, **fields, symmetric=symmetric)

    return apply


def _are_symmetric(first: Any, second: Any) -> bool:
    """Return whether both have no zero point; while tracing, whether it is known.

    Raises:
        QuantTensorError: one has one.
    """
    for operand in (first, second):
        if operand.is_symmetric is False:
            raise QuantTensorError(
                "a product or quotient of integers needs zero points of 0",
                found=operand.zero_point.flatten()[:4].tolist(),
                expected="0",
                hint="multiply with .value for a plain tensor",
            )
    return both_symmetric(first, second) is True


_SUM = {
    "scale": _MEAN,
    "zero_point": Formula("zp1 + zp2", lambda a, b: a.zero_point + b.zero_point),
    "bit_width": Formula("fewest that hold [min1 + min2, max1 + max2]", sum_bits),
    "signed": _SIGNED,
    "training": _TRAINING,
}


def _negated_range(tensor: Any) -> tuple[Any, Any]:
    bits = tensor.number("bit_width")
    return range_of_bits(bits if tensor.signed else bits + 1, signed=True)


def _difference_bits(first: Any, second: Any) -> Any:
    (low, high), (other_low, other_high) = range_of(first), _negated_range(second)
    return bits_of_range(low + other_low, high + other_high, signed=True)


_DIFFERENCE = {
    "scale": _MEAN,
    "zero_point": Formula("zp1 - zp2", lambda a, b: a.zero_point - b.zero_point),
    "bit_width": Formula("as a + (-b)", _difference_bits),
    "signed": Formula("true", lambda *_: True),
    "training": _TRAINING,
}
_PRODUCT = {
    "scale": Formula("scale1 * scale2", lambda a, b: a.scale * b.scale),
    "zero_point": _ZERO,
    "bit_width": _BITS_OF_BOTH,
    "signed": _SIGNED,
    "training": _TRAINING,
}


def _quotient_scale(first: Any, second: Any) -> Any:
    bits = second.number("bit_width") - second.signed
    # Beyond this, a float has no power of two, and the scale is 0 anyway.
    bits = bits.clamp(max=1023) if isinstance(bits, torch.Tensor) else min(bits, 1023)
    return first.scale / (second.scale * 2.0**bits)


_QUOTIENT = {
    "scale": Formula("scale1 / (scale2 * 2**(bits2 - signed2))", _quotient_scale),
    "zero_point": _ZERO,
    "bit_width": _BITS_OF_BOTH,
    "signed": _SIGNED,
    "training": _TRAINING,
}


@on_tensor
def _negated(_: Any, tensor: Any) -> Any:
    return type(tensor).made(
        value=-tensor.value,
        scale=tensor.scale,
        zero_point=-tensor.zero_point,
        bit_width=tensor.number("bit_width") + (not tensor.signed),
        signed=True,
        training=tensor.training,
        symmetric=tensor.is_symmetric,
    )


@on_tensor
def _absolute(func: Any, tensor: Any) -> Any:
    if not tensor.signed and tensor.is_symmetric:
        return tensor
    bits = absolute_bits(tensor, tensor.zero_point)
    if bits is None:
        return run_on_values(func, (tensor,), {})
    return type(tensor).made(
        value=tensor.value.abs(),
        scale=tensor.scale,
        zero_point=tensor.zero_point if tensor.is_symmetric else 0,
        bit_width=bits,
        signed=False,
        training=tensor.training,
        symmetric=True,
    )


ARITHMETIC = (
    Rule("a + b", SUM, _pair(_SUM), _SUM, _PAIR),
    Rule(
        "a - b",
        DIFFERENCE,
        _pair(_DIFFERENCE),
        _DIFFERENCE,
        _PAIR,
    ),
    Rule(
        "a * b",
        PRODUCT,
        _pair(_PRODUCT, _are_symmetric),
        _PRODUCT,
        f"{_PAIR}; an error where a zero point is not 0",
    ),
    Rule(
        "a / b",
        QUOTIENT,
        _pair(_QUOTIENT, _are_symmetric),
        _QUOTIENT,
        f"{_PAIR}; an error where a zero point is not 0",
    ),
    Rule(
        "-a",
        NEGATION,
        _negated,
        {
            "scale": "scale",
            "zero_point": "-zp",
            "bit_width": "bits, one more if unsigned",
            "signed": "true",
            "training": "training",
        },
    ),
    Rule(
        "abs(a)",
        ABSOLUTE,
        _absolute,
        {
            "scale": "scale",
            "zero_point": "0",
            "bit_width": "bits - 1 if signed; where zp is not 0, what |int - zp| needs",
            "signed": "false",
            "training": "training",
        },
        "plain where a zero point is no integer",
    ),
    POSITIVE,
)
