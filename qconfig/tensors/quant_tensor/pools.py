"""Pools that select values: max pools. Metadata stays."""

from typing import Any

import torch
from torch.nn import functional

from qconfig.tensors.quant_tensor.calls import on_tensor
from qconfig.tensors.quant_tensor.dispatch import run_on_values
from qconfig.tensors.quant_tensor.kept_metadata import KEPT, is_constant_along, kept
from qconfig.tensors.quant_tensor.rules import Rule

_POOLS: dict[int, tuple[Any, ...]] = {
    1: (
        functional.max_pool1d,
        functional.max_pool1d_with_indices,
        torch.max_pool1d,
        torch.max_pool1d_with_indices,
        functional.adaptive_max_pool1d,
        functional.adaptive_max_pool1d_with_indices,
        torch.adaptive_max_pool1d,
    ),
    2: (
        functional.max_pool2d,
        functional.max_pool2d_with_indices,
        torch.max_pool2d,
        functional.adaptive_max_pool2d,
        functional.adaptive_max_pool2d_with_indices,
    ),
    3: (
        functional.max_pool3d,
        functional.max_pool3d_with_indices,
        torch.max_pool3d,
        functional.adaptive_max_pool3d,
        functional.adaptive_max_pool3d_with_indices,
    ),
}
"""Max pools by the number of dimensions that they reduce."""
POOLED_DIMS = {function: dims for dims, pools in _POOLS.items() for function in pools}


@on_tensor
def _max_pool(func: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
    result = run_on_values(func, (tensor, *args), kwargs)
    if not is_constant_along(tensor, range(-POOLED_DIMS[func], 0)):
        return result
    if isinstance(result, torch.Tensor):
        return kept(tensor, result)
    return (kept(tensor, result[0]), *result[1:])


MAX_POOLS = (
    Rule(
        "max_pool1d, …2d, …3d, adaptive_max_pool1d, …2d, …3d",
        tuple(POOLED_DIMS),
        _max_pool,
        KEPT,
        "plain where metadata varies along a dimension that is pooled; indices are plain",
    ),
)
