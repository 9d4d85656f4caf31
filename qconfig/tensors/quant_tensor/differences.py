"""What two quant tensors are that are not the same in all but elements, in words."""

from typing import Any

import torch

from qconfig.tensors.quant_tensor.fields import is_real

_INCIDENTAL = frozenset({"training", "dequant_shape"})


def difference(own: Any, other: Any) -> tuple[str, str] | None:
    """Return what another quant tensor is and what the own one is, where they differ.

    Compared are class, bit widths, flags and groups; not shapes and elements, nor whether a tensor
    was made in training.

    Args:
        own: a quant tensor.
        other: anything.

    Returns:
        What was found and what was expected; None if they agree.
    """
    if type(own) is not type(other):
        return type(other).__name__, type(own).__name__
    pairs = {name: (_number(other, name), _number(own, name)) for name in own.fields.numbers}
    pairs = {name: pair for name, pair in pairs.items() if None not in pair}
    for name in own.fields.attributes:
        if name not in _INCIDENTAL:
            pairs[name] = getattr(other, name), getattr(own, name)
    differing = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
    if not differing:
        return None
    found, expected = (
        ", ".join(f"{name} {pair[side]}" for name, pair in differing.items()) for side in (0, 1)
    )
    return found, expected


def _number(tensor: Any, name: str) -> Any:
    """Return a bit width or the like, or None where it cannot be looked at."""
    number = tensor.number(name)
    if not isinstance(number, torch.Tensor):
        return number
    found = float(number) if is_real(number) else None
    return int(found) if found is not None and found.is_integer() else found
