"""What rules ask about operands."""

from typing import Any

import torch

from qconfig.errors import QuantTensorError
from qconfig.tensors.quant_tensor.fields import is_real


def is_int(value: Any) -> bool:
    """Return whether a value is an IntQuantTensor."""
    return getattr(type(value), "kind", None) == "int"


def both_symmetric(first: Any, second: Any) -> bool | None:
    """Return whether both zero points are 0: None if that is not known while tracing."""
    if first.is_symmetric and second.is_symmetric:
        return True
    return None if None in (first.is_symmetric, second.is_symmetric) else False


def common_scale(first: Any, second: Any) -> Any:
    """Return the scale of a sum, the mean of both.

    Outside of training both have to be equal, to 1e-5 of themselves; where a graph is traced, the
    graph checks it when it runs.

    Raises:
        QuantTensorError: two scales, and none of the operands was made in training.
    """
    own, other = first.raw("scale"), second.raw("scale")
    if own is other:
        return first.scale
    if not (first.training or second.training):
        _check_equal(own, other)
    scale, other_scale = first.scale, second.scale
    graph = scale.requires_grad or other_scale.requires_grad
    if not graph and is_real(own) and own.shape == other.shape and torch.equal(own, other):
        return scale
    return (scale + other_scale) / 2


def _check_equal(own: torch.Tensor, other: torch.Tensor) -> None:
    if is_real(own) and is_real(other):
        if own.shape == other.shape and torch.equal(own, other):
            return
        if not torch.isclose(own, other, rtol=1e-5, atol=0).all():
            raise QuantTensorError(
                "the scales of two operands differ",
                found=f"{first_entries(own)} and {first_entries(other)}",
                expected="one scale; they may differ in training only",
                hint="quantize both with one scale, or add their .value",
            )
        return
    equal = torch.isclose(own, other, rtol=1e-5, atol=0).all()
    torch._assert_async(equal, "the scales of two operands differ")  # noqa: SLF001


def first_entries(metadata: torch.Tensor) -> str:
    """Return the first entries of a scale or the like, as errors show them."""
    shown = ", ".join(f"{x:g}" for x in metadata.flatten()[:4].tolist())
    return f"[{shown}{', …' if metadata.numel() > 4 else ''}]" if metadata.dim() else shown
