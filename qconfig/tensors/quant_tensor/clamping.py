"""Functions that cut values off: they keep metadata where the bounds lie on the grid."""

from typing import Any

import torch
from torch.nn import functional

from qconfig.tensors.quant_tensor.calls import on_tensor
from qconfig.tensors.quant_tensor.dispatch import run_on_values
from qconfig.tensors.quant_tensor.fields import is_real
from qconfig.tensors.quant_tensor.float_mixin import inner_scale
from qconfig.tensors.quant_tensor.int_mixin import int_range
from qconfig.tensors.quant_tensor.kept_metadata import KEPT, kept
from qconfig.tensors.quant_tensor.rules import Rule

T = torch.Tensor
_OFF_GRID = 1e-3
"""How far a bound may lie off, in steps of the grid: what rounding in float32 explains."""


def cut_off(func: Any, tensor: Any, least: Any, greatest: Any, *args: Any) -> Any:
    """Return the values of a function that cuts values off, with metadata if the bounds fit.

    Args:
        func: a function of torch.
        tensor: what it is called with first.
        least: the least value that is left, or None.
        greatest: the greatest one, or None.
        args: positional arguments after the tensor.
    """
    value = run_on_values(func, (tensor, *args), {})
    fits = is_on_grid(tensor, least, -1) and is_on_grid(tensor, greatest, 1)
    return kept(tensor, value) if fits else value


def is_on_grid(tensor: Any, bound: Any, side: int = 0) -> bool:
    """Return whether a number is a value that a quant tensor can have.

    While tracing, that is known only of 0 where the zero point is.

    Args:
        tensor: not one in groups.
        bound: a number; None is on every grid, a tensor on none.
        side: 1 for a bound that may also lie above all values of the grid, -1 below, 0 for none.
    """
    if bound is None:
        return True
    if not isinstance(bound, int | float):
        return False
    if bound == 0 and tensor.is_symmetric:
        return True
    if not (is_real(tensor.scale) and is_real(tensor.zero_point)):
        return False
    with torch.no_grad():
        steps = bound / tensor.scale.double()
        if tensor.kind == "int":
            fits = _is_integer(tensor, steps + tensor.zero_point.double(), side)
        elif tensor.is_symmetric:
            fits = _is_small_float(tensor, steps, side)
        else:
            return False
        return bool(fits.all())


def _is_integer(tensor: Any, exact: torch.Tensor, side: int) -> torch.Tensor:
    low, high = int_range(tensor.number("bit_width"), signed=tensor.signed)
    rounded = exact.round()
    fits: torch.Tensor = _are_close(exact, rounded) & (rounded >= low) & (rounded <= high)
    return fits | _is_beyond(exact, low, high, side)


def _is_small_float(tensor: Any, exact: torch.Tensor, side: int) -> torch.Tensor:
    step = inner_scale(exact, tensor.number("mantissa_bit_width"), tensor.number("exponent_bias"))
    rounded = (exact / step).round()
    high = tensor.max_value
    low = -high if tensor.signed else 0
    small = rounded * step
    fits: torch.Tensor = _are_close(exact / step, rounded) & (small >= low) & (small <= high)
    # An infinity would be cut off.
    return fits if tensor.inf_values else fits | _is_beyond(exact, low, high, side)


def _is_beyond(exact: torch.Tensor, low: Any, high: Any, side: int) -> torch.Tensor:
    if side == 0:
        return torch.zeros_like(exact, dtype=torch.bool)
    beyond: torch.Tensor = exact >= high if side > 0 else exact <= low
    return beyond


def _are_close(exact: torch.Tensor, rounded: torch.Tensor) -> torch.Tensor:
    return torch.isclose(exact, rounded, rtol=1e-7, atol=_OFF_GRID)


# Whatever `inplace` says, the result is a new tensor.


@on_tensor
def _relu(func: Any, tensor: Any, *args: Any, **options: Any) -> Any:
    return cut_off(func, tensor, 0, None)


@on_tensor
def _relu6(func: Any, tensor: Any, *args: Any, **options: Any) -> Any:
    return cut_off(func, tensor, 0, 6)


@on_tensor
def _hardtanh(
    func: Any, tensor: Any, min_val: Any = -1.0, max_val: Any = 1.0, *args: Any, **options: Any
) -> Any:
    return cut_off(func, tensor, min_val, max_val, min_val, max_val)


@on_tensor
def _threshold(
    func: Any, tensor: Any, threshold: Any, value: Any, *args: Any, **options: Any
) -> Any:
    result = run_on_values(func, (tensor, threshold, value), {})
    return kept(tensor, result) if is_on_grid(tensor, value) else result


_PLAIN = (
    "plain where a bound lies between values of the grid; while tracing, plain unless the bound "
    "and zp are known to be 0"
)

CLAMPS = (
    Rule("relu(a)", (functional.relu, torch.relu, T.relu), _relu, KEPT, _PLAIN),
    Rule("relu6(a)", (functional.relu6,), _relu6, KEPT, _PLAIN),
    Rule("hardtanh(a, min, max)", (functional.hardtanh,), _hardtanh, KEPT, _PLAIN),
    Rule(
        "threshold(a, threshold, value)",
        (functional.threshold, torch.threshold),
        _threshold,
        KEPT,
        _PLAIN,
    ),
)
