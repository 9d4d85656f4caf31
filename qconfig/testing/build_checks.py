"""Checks of a builder itself: what it announces is what it builds."""

import attrs

from qconfig.codec.dtypes import DType
from qconfig.codec.layout_values import layout_nbytes
from qconfig.testing.subject import Subject, equal_packed, require
from qconfig.versioning import info_of


def accepts_target(subject: Subject) -> None:
    """The builder does not refuse the weight that the kit offers it."""
    reason = subject.builder.refusal(subject.config, subject.target)
    require(reason is None, f"refused: {reason}")


def layout_announced(subject: Subject) -> None:
    """The layout made from the shape alone equals that of the built tensor."""
    announced = subject.builder.layout(subject.config, subject.target)
    built = subject.build().to_layout()
    require(type(announced) is type(built), f"{type(announced)} announced, {type(built)} built")
    for field in attrs.fields(type(built)):
        first, second = getattr(announced, field.name), getattr(built, field.name)
        if info_of(field).tensor is not None and first is not None and second is not None:
            first = (DType.parse(first.dtype), tuple(first.shape))
            second = (DType.parse(second.dtype), tuple(second.shape))
        require(first == second, f"{field.name}: {first} announced, {second} built")


def bytes_announced(subject: Subject) -> None:
    """The bytes of the inner tensors are those that the announced layout adds up to."""
    announced = subject.builder.layout(subject.config, subject.target)
    expected = layout_nbytes(announced)
    found = subject.build().packed_nbytes
    require(found == expected, f"{found} bytes built, {expected} announced")


def weight_untouched(subject: Subject) -> None:
    """Building leaves the float weight as it was."""
    weight = subject.weight()
    before = weight.clone()
    subject.quantized(weight)
    require(bool((weight == before).all()), "the weight was changed")


def deterministic(subject: Subject) -> None:
    """Building twice gives the same bits."""
    require(equal_packed(subject.build(), subject.build()), "two builds differ")


def outer_appearance(subject: Subject) -> None:
    """The tensor shows the weight's shape, type and device, and no gradient."""
    weight, tensor = subject.weight(), subject.build()
    for name in ("shape", "dtype", "device"):
        found, expected = getattr(tensor, name), getattr(weight, name)
        require(found == expected, f"{name} is {found}, not {expected}")
    require(not tensor.requires_grad, "requires_grad is set")
    require(len(repr(tensor)) < 1000, "repr prints elements")


CHECKS = (
    accepts_target,
    layout_announced,
    bytes_announced,
    weight_untouched,
    deterministic,
    outer_appearance,
)
