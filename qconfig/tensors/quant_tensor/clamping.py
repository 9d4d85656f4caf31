"""Functions that cut values off: they keep metadata where the bounds lie on the grid."""

from typing import Any

import torch
from torch.nn import functional

from qconfig.tensors.quant_tensor.dispatch import is_quant, run_on_values
from qconfig.tensors.quant_tensor.fields import is_real
from qconfig.tensors.quant_tensor.float_mixin import inner_scale
from qconfig.tensors.quant_tensor.int_mixin import int_range
from qconfig.tensors.quant_tensor.kept_metadata import KEPT, kept
from qconfig.tensors.quant_tensor.rules import Rule

T = torch.Tensor
_OFF_GRID = 1e-3
"""How far a bound may lie off, in steps of the grid: what rounding in float32 explains."""


def cut_off(
    func: Any, tensor: Any, bounds: tuple[Any, Any], args: tuple[Any, ...], options: dict[str, Any]
) -> Any:
    """Return the values of a function that cuts values off, with metadata if the bounds fit.

    Args:
        func: a function of torch.
        tensor: what it is called with first.
        bounds: the least and the greatest value, or None for none.
        args: positional arguments after the tensor.
        options: keyword arguments.
    """
    value = run_on_values(func, (tensor, *args), options)
    if not is_quant(tensor):
        return value
    fits = all(is_on_grid(tensor, b, side) for b, side in zip(bounds, (-1, 1), strict=True))
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
    fits = _are_close(exact, rounded) & (rounded >= low) & (rounded <= high)
    return fits | _is_beyond(exact, low, high, side)


def _is_small_float(tensor: Any, exact: torch.Tensor, side: int) -> torch.Tensor:
    step = inner_scale(exact, tensor.number("mantissa_bit_width"), tensor.number("exponent_bias"))
    rounded = (exact / step).round()
    high = tensor.max_value
    low = -high if tensor.signed else 0
    small = rounded * step
    fits = _are_close(exact / step, rounded) & (small >= low) & (small <= high)
    # An infinity would be cut off.
    return fits if tensor.inf_values else fits | _is_beyond(exact, low, high, side)


def _is_beyond(exact: torch.Tensor, low: Any, high: Any, side: int) -> torch.Tensor:
    return (exact >= high) & (side > 0) | (exact <= low) & (side < 0)


def _are_close(exact: torch.Tensor, rounded: torch.Tensor) -> torch.Tensor:
    return torch.isclose(exact, rounded, rtol=1e-7, atol=_OFF_GRID)


def _relu(func: Any, input: Any, inplace: bool = False) -> Any:
    return cut_off(func, input, (0, None), (), {})


def _relu6(func: Any, input: Any, inplace: bool = False) -> Any:
    return cut_off(func, input, (0, 6), (), {})


def _hardtanh(
    func: Any, input: Any, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Any:
    return cut_off(func, input, (min_val, max_val), (min_val, max_val), {})


def _threshold(func: Any, input: Any, threshold: Any, value: Any, inplace: bool = False) -> Any:
    result = run_on_values(func, (input, threshold, value), {})
    return kept(input, result) if is_quant(input) and is_on_grid(input, value) else result


def _clamp(func: Any, input: Any, min: Any = None, max: Any = None, **options: Any) -> Any:
    if options:
        return run_on_values(func, (input, min, max), options)
    return cut_off(func, input, (min, max), (min, max), {})


def _clamp_min(func: Any, input: Any, min: Any, **options: Any) -> Any:
    if options:
        return run_on_values(func, (input, min), options)
    return cut_off(func, input, (min, None), (min,), {})


def _clamp_max(func: Any, input: Any, max: Any, **options: Any) -> Any:
    if options:
        return run_on_values(func, (input, max), options)
    return cut_off(func, input, (None, max), (max,), {})


_PLAIN = (
    "plain where a bound lies between values of the grid; while tracing, 0 is one where zp is known to be "
    "0, and nothing else"
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
    Rule(
        "clamp(a, min, max)",
        (T.clamp, torch.clamp, T.clip, torch.clip),
        _clamp,
        KEPT,
        _PLAIN,
    ),
    Rule("clamp_min(a, min)", (T.clamp_min, torch.clamp_min), _clamp_min, KEPT, _PLAIN),
    Rule("clamp_max(a, max)", (T.clamp_max, torch.clamp_max), _clamp_max, KEPT, _PLAIN),
)
