"""Functions that move and repeat values of images: padding, interpolation, shuffled pixels."""

from typing import Any

import torch
from torch.nn import functional

from qconfig.tensors.quant_tensor.clamping import is_on_grid
from qconfig.tensors.quant_tensor.dispatch import is_quant, run_on_values
from qconfig.tensors.quant_tensor.kept_metadata import (
    KEPT,
    is_constant_along,
    is_per_tensor,
    kept,
)
from qconfig.tensors.quant_tensor.rules import Rule


def _pad(func: Any, input: Any, pad: Any, mode: str = "constant", value: Any = None) -> Any:
    result = run_on_values(func, (input, pad, mode, value), {})
    if not is_quant(input) or (mode == "constant" and not is_on_grid(input, value or 0)):
        return result
    padded = [-1 - i // 2 for i, size in enumerate(pad) if size != 0]
    return kept(input, result) if is_constant_along(input, padded) else result


def _interpolate(
    func: Any,
    input: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    *args: Any,
    **options: Any,
) -> Any:
    result = run_on_values(func, (input, size, scale_factor, mode, *args), options)
    if not is_quant(input) or mode not in {"nearest", "nearest-exact"}:
        return result
    along = range(2 - len(input.logical_shape), 0)
    return kept(input, result) if is_constant_along(input, along) else result


def _shuffle(func: Any, *args: Any, **options: Any) -> Any:
    tensor = args[0] if args else options.get("input")
    result = run_on_values(func, args, options)
    return kept(tensor, result) if is_quant(tensor) and is_per_tensor(tensor) else result


IMAGES = (
    Rule(
        "pad(a, sizes, mode, value)",
        (functional.pad,),
        _pad,
        KEPT,
        "plain where the constant is no value of the grid (while tracing: not known to be one), "
        "or metadata varies along a padded dimension",
    ),
    Rule(
        "interpolate(a), mode nearest or nearest-exact",
        (functional.interpolate,),
        _interpolate,
        KEPT,
        "plain in other modes, or where metadata varies along a dimension that changes",
    ),
    Rule(
        "pixel_shuffle, pixel_unshuffle, channel_shuffle",
        (torch.pixel_shuffle, torch.pixel_unshuffle, torch.channel_shuffle),
        _shuffle,
        KEPT,
        "plain where there are several scales or zero points",
    ),
)
