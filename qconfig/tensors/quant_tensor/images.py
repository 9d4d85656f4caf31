"""Functions that move and repeat values of images: padding, interpolation, shuffled pixels."""

from typing import Any

import torch
from torch.nn import functional

from qconfig.tensors.quant_tensor.calls import on_tensor
from qconfig.tensors.quant_tensor.clamping import is_on_grid
from qconfig.tensors.quant_tensor.dispatch import run_on_values
from qconfig.tensors.quant_tensor.kept_metadata import (
    KEPT,
    is_constant_along,
    is_per_tensor,
    kept,
)
from qconfig.tensors.quant_tensor.rules import Rule

_TRACED_PAD = torch._C._nn.pad  # noqa: SLF001 (what Dynamo makes of functional.pad)


@on_tensor
def _pad(func: Any, tensor: Any, pad: Any, mode: str = "constant", value: Any = None) -> Any:
    result = run_on_values(func, (tensor, pad, mode, value), {})
    if mode == "constant" and not is_on_grid(tensor, value or 0):
        return result
    padded = [-1 - i // 2 for i, size in enumerate(pad) if size != 0]
    return kept(tensor, result) if is_constant_along(tensor, padded) else result


@on_tensor
def _interpolate(
    func: Any,
    tensor: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    *args: Any,
    **options: Any,
) -> Any:
    result = run_on_values(func, (tensor, size, scale_factor, mode, *args), options)
    if mode not in {"nearest", "nearest-exact"}:
        return result
    along = range(2 - len(tensor.logical_shape), 0)
    return kept(tensor, result) if is_constant_along(tensor, along) else result


@on_tensor
def _shuffle(func: Any, tensor: Any, *args: Any, **options: Any) -> Any:
    result = run_on_values(func, (tensor, *args), options)
    return kept(tensor, result) if is_per_tensor(tensor) else result


IMAGES = (
    Rule(
        "pad(a, sizes, mode, value)",
        (functional.pad, _TRACED_PAD),
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
