"""Element types of one byte, for which torch has storage and little else."""

import torch

BYTES = (
    torch.float8_e4m3fn,
    torch.float8_e4m3fnuz,
    torch.float8_e5m2,
    torch.float8_e5m2fnuz,
    torch.float8_e8m0fnu,
    torch.float4_e2m1fn_x2,
)
"""Types that torch 2.13 can neither compare nor pickle outside of `torch.save`."""


def as_comparable(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor, or its bytes where torch cannot compare or pickle its elements."""
    return tensor.view(torch.uint8) if tensor.dtype in BYTES else tensor


def equal_elements(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Return whether two tensors agree in type, shape and elements; of the small types, in bits."""
    if first.dtype != second.dtype:
        return False
    return torch.equal(as_comparable(first), as_comparable(second))
