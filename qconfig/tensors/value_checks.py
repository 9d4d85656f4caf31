"""Checks that read the elements of inner tensors. They are never on a hot path."""

from collections.abc import Callable
from typing import Any

import torch

from qconfig.codec.tensor_values import LazyTensor
from qconfig.errors import LayoutError

_NEGATIVE_ZERO = 0x80
_AT_ONCE = 1 << 20  # elements: what is computed of them stays small beside a large tensor
_NOT_FINITE = {
    torch.float8_e4m3fn: lambda bits: (bits & 0x7F) == 0x7F,
    torch.float8_e5m2: lambda bits: (bits & 0x7F) >= 0x7C,
    torch.float8_e8m0fnu: lambda bits: bits == 0xFF,
}


def loaded(value: Any) -> torch.Tensor | None:
    """Return the tensor of a layout field, or None for a specification or an absent field."""
    if isinstance(value, LazyTensor):
        return value.load()
    return value if isinstance(value, torch.Tensor) else None


def refuse_where(
    bad: torch.Tensor, name: str, what: str, values: torch.Tensor, expected: str
) -> None:
    """Raise LayoutError with count, first index and first value where `bad` is true."""
    if not bool(bad.any()):
        return
    first = tuple(bad.nonzero()[0].tolist())
    raise LayoutError(
        f"{name} {what}: {int(bad.sum())} of {bad.numel()} entries, the first at {list(first)}",
        pointer=f"/{name}",
        found=values[first].item(),
        expected=expected,
    )


def refuse_any(
    is_bad: Callable[[torch.Tensor], torch.Tensor],
    name: str,
    what: str,
    values: torch.Tensor,
    expected: str,
) -> None:
    """Raise LayoutError as `refuse_where`; where nothing is bad, little memory is taken.

    Args:
        is_bad: says of each element whether it is, by itself.
        name: of the field.
        what: is wrong with such elements.
        values: of the field.
        expected: what is right.
    """
    if any(bool(is_bad(part).any()) for part in torch.split(values.reshape(-1), _AT_ONCE)):
        refuse_where(is_bad(values), name, what, values, expected)


def not_finite(values: torch.Tensor) -> torch.Tensor:
    """Return where a floating-point tensor is NaN or infinite; torch knows not all small types."""
    of_bits = _NOT_FINITE.get(values.dtype)
    return ~values.isfinite() if of_bits is None else of_bits(values.view(torch.uint8))


def check_finite(layout: Any, names: tuple[str, ...]) -> None:
    """Check that floating-point fields hold neither NaN nor infinity.

    Raises:
        LayoutError: naming field and first index.
    """
    for name in names:
        value = loaded(getattr(layout, name))
        if value is not None and value.dtype.is_floating_point:
            refuse_any(not_finite, name, "is not finite", value, "finite numbers")


def check_scale_values(layout: Any, name: str) -> None:
    """Check that scales are positive, normal, finite numbers; float16 may be subnormal.

    torchao's smallest scale, 2**-23, is subnormal in float16 and legitimate there.

    Raises:
        LayoutError: naming field and first index.
    """
    scale = loaded(getattr(layout, name))
    if scale is None:
        return
    expected = "positive finite numbers"
    refuse_any(lambda part: ~part.isfinite(), name, "is not finite", scale, expected)
    refuse_any(lambda part: part <= 0, name, "is not positive", scale, expected)
    if scale.dtype != torch.float16:
        least = torch.finfo(scale.dtype).tiny
        refuse_any(lambda part: part < least, name, "is subnormal", scale, f"numbers from {least}")


def check_block_scale_values(layout: Any, name: str) -> None:
    """Check that float8 scales are no negative numbers; zeros, of blocks of zeros, are lawful.

    Raises:
        LayoutError: naming field and first index.
    """
    scale = loaded(getattr(layout, name))
    if scale is not None:
        refuse_any(
            lambda part: part.view(torch.uint8) > _NEGATIVE_ZERO,
            name,
            "is negative",
            scale,
            "numbers from 0",
        )


def check_code_range(layout: Any, name: str, low: int, high: int) -> None:
    """Check that integer codes lie in a range that is narrower than their type.

    Raises:
        LayoutError: naming field and first index.
    """
    codes = loaded(getattr(layout, name))
    if codes is None or not codes.numel():
        return
    lowest, highest = torch.aminmax(codes)
    if int(lowest) < low or int(highest) > high:
        bad = (codes < low) | (codes > high)
        refuse_where(bad, name, "is out of range", codes, f"codes from {low} to {high}")
