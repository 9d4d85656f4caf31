"""Checks of what must raise: silence would lose data or crash the process."""

import torch

from qconfig.errors import UnsupportedOperationError
from qconfig.testing.subject import Subject, equal_packed, require, require_refusal


def share_memory_refused(subject: Subject) -> None:
    """`share_memory_` raises; on a tensor without storage it would end the process."""
    require_refusal(subject.build().share_memory_, "share_memory_")


def unknown_operator_refused(subject: Subject) -> None:
    """An operator that is not implemented raises NotImplementedError naming operator and class."""
    tensor = subject.build()
    try:
        torch.special.bessel_j0(tensor)
    except NotImplementedError as error:
        for name in ("bessel_j0", type(tensor).__name__):
            require(name in str(error), f"the error does not name {name}: {error}")
        require(isinstance(error, UnsupportedOperationError), "the error is not of our tree")
        return
    require(condition=False, message="an unknown operator passes")


def mutation_refused(subject: Subject) -> None:
    """In-place operators raise and change nothing."""
    tensor, before = subject.build(), subject.build()
    with torch.no_grad():
        require_refusal(tensor.zero_, "zero_")
        require_refusal(lambda: tensor.mul_(2), "mul_")
        require_refusal(lambda: tensor.copy_(subject.weight()), "copy_ of a float tensor")
        require_refusal(lambda: subject.weight().copy_(tensor), "copy_ into a float tensor")
    require(equal_packed(tensor, before), "a refused operator has changed the tensor")


CHECKS = (
    share_memory_refused,
    unknown_operator_refused,
    mutation_refused,
)
