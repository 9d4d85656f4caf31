"""Negation and absolute values of tensors in groups, in their stored form; the rest is plain."""

from typing import Any

import torch

from qconfig.tensors.quant_tensor.bit_widths import absolute_bits
from qconfig.tensors.quant_tensor.calls import on_tensor
from qconfig.tensors.quant_tensor.dispatch import run_on_values
from qconfig.tensors.quant_tensor.float_arithmetic import PLAIN_ARITHMETIC, check_has_negative
from qconfig.tensors.quant_tensor.metadata_moves import remade
from qconfig.tensors.quant_tensor.operators import ABSOLUTE, NEGATION, POSITIVE
from qconfig.tensors.quant_tensor.rules import Rule


def _is_float(tensor: Any) -> bool:
    return "bit_width" not in type(tensor).fields.numbers


def _changed(tensor: Any, value: torch.Tensor, **changes: Any) -> Any:
    return remade(tensor, tensor.logical_shape, value=value, scale=tensor.grouped_scale, **changes)


@on_tensor
def _negated(func: Any, tensor: Any) -> Any:
    zero_point = tensor.grouped_zero_point
    changes = {"zero_point": zero_point if tensor.is_symmetric else -zero_point}
    if _is_float(tensor):
        check_has_negative(tensor)
    else:
        changes["bit_width"] = tensor.number("bit_width") + (not tensor.signed)
    return _changed(tensor, func(tensor.grouped_value), **changes, signed=True)


@on_tensor
def _absolute(func: Any, tensor: Any) -> Any:
    zero_point = tensor.grouped_zero_point
    changes = {}
    if not _is_float(tensor):
        bits = absolute_bits(tensor, zero_point)
        if bits is None:
            return run_on_values(func, (tensor,), {})
        changes["bit_width"] = bits
        zero_point = zero_point if tensor.is_symmetric else torch.zeros_like(zero_point)
    value = func(tensor.grouped_value)
    return _changed(tensor, value, zero_point=zero_point, **changes, signed=False)


GROUPWISE_ARITHMETIC = (
    PLAIN_ARITHMETIC,
    Rule(
        "-a",
        NEGATION,
        _negated,
        {
            "scale": "scale",
            "zero_point": "-zp",
            "bit_width": "bits; one more if integers are unsigned",
            "signed": "true",
        },
        "an error for floats without a sign",
    ),
    Rule(
        "abs(a)",
        ABSOLUTE,
        _absolute,
        {
            "scale": "scale",
            "zero_point": "0",
            "bit_width": "of integers: bits - 1 if signed; where zp is not 0, as |int - zp| needs",
            "signed": "false",
        },
        "plain where a zero point of integers is no integer",
    ),
    POSITIVE,
)
