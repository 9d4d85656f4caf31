"""Checks of fake-quantized weights: values on a grid, which compute and differentiate as values."""

from typing import Any

import torch
from torch.nn.functional import linear

from qconfig.testing import (
    build_checks,
    compile_checks,
    copy_checks,
    export_checks,
    refusal_checks,
)
from qconfig.testing.subject import Subject, require

# Those of packed weights that convert types or copy between kinds do not hold: a fake-quantized
# tensor of another type has other values, and it may stand for its values.
_COPIES = (
    copy_checks.same_type_copies,
    copy_checks.deepcopy_of_parameter,
    copy_checks.pickle_round_trip,
    copy_checks.weights_only_round_trip,
    copy_checks.module_conversion,
    copy_checks.module_saved_whole,
    copy_checks.strict_keys,
    copy_checks.pinned_memory,
    copy_checks.flatten_round_trip,
)


def values_on_grid(subject: Subject) -> None:
    """Every value is one that the metadata allows."""
    require(bool(subject.build().is_valid), "values lie beside the grid")


def values_quantized_again(subject: Subject) -> None:
    """What the tensor is made of makes an equal tensor."""
    tensor = subject.build()
    again = type(tensor).from_layout(tensor.to_layout())
    require(torch.equal(again.value, tensor.value), "another value")
    require(torch.equal(again.scale, tensor.scale), "another scale")
    require(torch.equal(again.zero_point, tensor.zero_point), "another zero point")


def linear_of_values(subject: Subject) -> None:
    """`linear` with activations of rank 1 to 4 is that of the values."""
    tensor = subject.build()
    for leading in ((), (5,), (2, 3), (2, 1, 3), (0,)):
        x = subject.activation(*leading)
        expected = linear(x, tensor.value)
        require(torch.equal(plain(linear(x, tensor)), expected), f"rank {x.dim()} differs")


def gradient_through_value(subject: Subject) -> None:
    """Gradients reach the value, and the activation, as if the tensor were its value."""
    x = subject.activation(3)
    tensor = subject.build()
    value, expected = (differentiable(stored(tensor)) for _ in range(2))
    plain(linear(x, tensor.set(value=value))).square().sum().backward()  # type: ignore[no-untyped-call]
    linear(x, tensor.set(value=expected).value).square().sum().backward()  # type: ignore[no-untyped-call]
    if value.grad is None or expected.grad is None:
        require(condition=False, message="no gradient reaches the value")
    else:
        require(torch.equal(value.grad, expected.grad), "another gradient than that of the value")


def metadata_without_value(subject: Subject) -> None:
    """Without its value the tensor keeps shape and metadata, and gets its value back."""
    tensor = subject.build()
    bare = tensor.metadata_only()
    require(bare.is_metadata_only, "it says that it has a value")
    require(tuple(bare.shape) == tuple(tensor.shape), f"shape {tuple(bare.shape)}")
    require(torch.equal(bare.scale, tensor.scale), "another scale")


def stored(tensor: Any) -> torch.Tensor:
    """Return the value as it is stored: in groups, where it is."""
    found: torch.Tensor = tensor.grouped_value if is_grouped(tensor) else tensor.value
    return found


def is_grouped(tensor: Any) -> bool:
    """Return whether values are stored in groups."""
    return hasattr(tensor, "group_size")


def differentiable(value: torch.Tensor) -> torch.Tensor:
    """Return a copy that gradients reach."""
    return value.detach().clone().requires_grad_()


def plain(value: Any) -> torch.Tensor:
    """Return the values of a result, which may have metadata."""
    found: torch.Tensor = value.value if hasattr(value, "value") else value
    return found


CHECKS = (
    *build_checks.CHECKS,
    *_COPIES,
    values_on_grid,
    values_quantized_again,
    linear_of_values,
    gradient_through_value,
    metadata_without_value,
    refusal_checks.share_memory_refused,
    *compile_checks.CHECKS,
    *export_checks.CHECKS,
)
