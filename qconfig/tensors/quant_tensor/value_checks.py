"""What the elements of fake-quantized layouts must satisfy, in files of unknown origin."""

from typing import Any

import torch

from qconfig.errors import LayoutError
from qconfig.tensors.value_checks import loaded

_MOST_BITS = 64


def check_quant_values(layout: Any) -> None:
    """Check that scales are positive and finite, and bit widths are numbers that can be.

    Raises:
        LayoutError: naming the field.
    """
    scale: Any = loaded(layout.scale)
    wrong = ~(torch.isfinite(scale) & (scale > 0))
    if wrong.any():
        first = tuple(int(i) for i in wrong.nonzero()[0])
        raise LayoutError(
            f"scale is not positive and finite in {int(wrong.sum())} of {scale.numel()} places",
            pointer="/scale",
            found=f"{scale[first].item()} at {first}",
            expected="positive, finite numbers",
        )
    for name in ("zero_point", "bit_width", "exponent_bit_width", "mantissa_bit_width"):
        value = loaded(getattr(layout, name, None))
        if value is None:
            continue
        if not torch.isfinite(value).all():
            raise LayoutError(
                f"{name} is not finite", pointer=f"/{name}", expected="finite numbers"
            )
        if name != "zero_point" and not 0 <= value.item() <= _MOST_BITS:
            raise LayoutError(
                f"{name} is out of range",
                pointer=f"/{name}",
                found=value.item(),
                expected=f"0 to {_MOST_BITS}",
            )
