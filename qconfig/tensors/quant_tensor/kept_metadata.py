"""Functions that select or move values within dimensions along which metadata does not vary."""

from collections.abc import Iterable
from typing import Any

import torch

from qconfig.tensors.quant_tensor.metadata_moves import remade

KEPT = {
    "value": "that of the values",
    "scale": "scale",
    "zero_point": "zp",
    "bit_width": "bits",
    "signed": "signed",
    "training": "training",
}
"""What becomes of the fields where metadata stays, in words."""


def kept(tensor: Any, value: torch.Tensor) -> Any:
    """Return other values with the metadata of a quant tensor.

    Args:
        tensor: not one in groups.
        value: its metadata has to broadcast to them.
    """
    return remade(tensor, value=value, scale=tensor.scale, zero_point=tensor.zero_point)


def is_per_tensor(tensor: Any) -> bool:
    """Return whether scale and zero point have one entry each."""
    return bool(tensor.scale.numel() == 1 and tensor.zero_point.numel() == 1)


def is_constant_along(tensor: Any, dims: Iterable[int]) -> bool:
    """Return whether scale and zero point do not vary along some dimensions.

    Args:
        tensor: a quant tensor.
        dims: negative, counted from the last.
    """
    if is_per_tensor(tensor):
        return True
    shapes = [m.shape for m in (tensor.scale, tensor.zero_point) if m.numel() != 1]
    return all(-d > len(shape) or shape[d] == 1 for d in dims for shape in shapes)
