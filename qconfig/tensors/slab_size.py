"""How many elements of a weight are worked on at a time."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch

_LEAST = 1 << 14
_LEAST_ELSEWHERE = 1 << 22
MOST = 1 << 19
"""Elements of float32 that stay in the second-level cache of a core, with a copy."""
_AMPLE = 1 << 22
_free: ContextVar[int] = ContextVar("_free", default=0)


@contextmanager
def ample_buffers() -> Iterator[None]:
    """Let buffers take 4 MiB while the block lasts, however small the weight is.

    For parts of a weight: with less, calls of torch take more time than their work.
    """
    token = _free.set(_AMPLE)
    try:
        yield
    finally:
        _free.reset(token)


def slab_elements(weight: torch.Tensor, bytes_per_element: int, *, most: int = MOST) -> int:
    """Return how many elements the buffers of a quantizer hold.

    Buffers take at most an eighth of the weight, unless that is less than a call of torch is worth,
    or `ample_buffers` holds.

    Args:
        weight: what is quantized.
        bytes_per_element: bytes of all buffers together for an element of the weight.
        most: elements that stay in cache; on other devices than CPUs there is no such limit.
    """
    share = max(_free.get(), weight.numel() * weight.itemsize // 8) // bytes_per_element
    if weight.device.type != "cpu":
        return max(_LEAST_ELSEWHERE, share)
    return max(_LEAST, min(most, share))
