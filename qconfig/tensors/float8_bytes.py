"""Float8 tensors as bytes: torch 2.13 neither compares them on the CPU nor unpickles them."""

import torch


def is_float8(tensor: torch.Tensor) -> bool:
    """Return whether a tensor is of one of torch's floating-point types of 8 bits."""
    return tensor.dtype.is_floating_point and tensor.dtype.itemsize == 1


def as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """Return a float8 tensor's bytes, uint8, sharing its memory; another tensor as it is."""
    return tensor.view(torch.uint8) if is_float8(tensor) else tensor


def equal_elements(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Return whether two tensors of one type have equal shapes and elements, float8 bit by bit."""
    return torch.equal(as_bytes(first), as_bytes(second))
