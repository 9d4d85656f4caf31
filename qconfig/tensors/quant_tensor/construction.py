"""What a caller may give for the tensors of a quant tensor, and what is refused by name."""

from collections.abc import Mapping
from numbers import Real
from typing import Any

import torch

from qconfig.errors import LayoutError
from qconfig.tensors.quant_tensor.fields import VALUES, QuantFields

_MOST_BITS = 4096
"""More bits than arithmetic makes of any width that exists."""


def checked_tensors(fields: QuantFields, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tensor fields of a constructor's arguments.

    Metadata of one entry with more dimensions than the value, which would give the integers more
    of them too, loses its dimensions.

    Raises:
        LayoutError: naming the field that is neither a tensor nor a number.
    """
    value = given["value"]
    if not isinstance(value, torch.Tensor):
        raise _refused("value", value, "a floating-point torch.Tensor")
    found: dict[str, Any] = {}
    for name in fields.tensors[1:]:
        field = given[name]
        if isinstance(field, torch.Tensor):
            if name in VALUES and field.numel() == 1 and field.dim() > value.dim():
                field = field.reshape(())
        elif not isinstance(field, Real):
            raise _refused(name, field, "a number, or a floating-point torch.Tensor")
        elif name.endswith("bit_width") and not 0 <= float(field) <= _MOST_BITS:
            raise _refused(name, field, f"0 to {_MOST_BITS} bits")
        found[name] = field
    return found


def _refused(name: str, found: Any, expected: str) -> LayoutError:
    shown = found if isinstance(found, Real | str | None) else type(found).__name__
    return LayoutError(
        f"{name} cannot be {shown!r}", pointer=f"/{name}", found=shown, expected=expected
    )
