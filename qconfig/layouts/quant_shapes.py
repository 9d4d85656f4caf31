"""What must hold between the tensors of fake-quantized layouts."""

from math import prod
from typing import Any

from qconfig.errors import LayoutError

_BITS = frozenset("01")


def fits(metadata: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Return whether metadata of one shape applies to values of another, and to no more.

    It broadcasts to the values without giving them dimensions: each of its own, counted from the
    last, is 1 or that of the values.
    """
    if len(metadata) > len(shape):
        return False
    return all(m in (1, n) for m, n in zip(reversed(metadata), reversed(shape), strict=False))


def check_metadata(layout: Any, names: tuple[str, ...], shape: tuple[int, ...]) -> None:
    """Check that metadata is aligned with the values.

    Args:
        layout: has the tensors.
        names: fields such as scale and zero_point.
        shape: that of the stored values.

    Raises:
        LayoutError: naming the field.
    """
    for name in names:
        found = tuple(getattr(layout, name).shape)
        if not fits(found, shape):
            raise LayoutError(
                f"{name} is not aligned with the values",
                pointer=f"/{name}",
                found=f"shape {found}",
                expected=f"a shape that broadcasts to {shape}",
            )


def check_numbers(layout: Any, names: tuple[str, ...]) -> None:
    """Check that bit widths and the like are one number each.

    Raises:
        LayoutError: naming the field.
    """
    for name in names:
        found = tuple(getattr(layout, name).shape)
        if prod(found) != 1:
            raise LayoutError(
                f"{name} is not one number",
                pointer=f"/{name}",
                found=f"shape {found}",
                expected="shape ()",
            )


def check_codes(layout: Any, names: tuple[str, ...]) -> None:
    """Check that codes of infinities and NaNs are written in binary digits.

    Raises:
        LayoutError: naming the field.
    """
    for name in names:
        for index, code in enumerate(getattr(layout, name) or ()):
            if not code or not _BITS.issuperset(code):
                raise LayoutError(
                    "a code is no binary number",
                    pointer=f"/{name}/{index}",
                    found=code,
                    expected="the bits of a mantissa, such as 111",
                )


def grouped_shape(shape: tuple[int, ...], group_size: int, group_dim: int) -> tuple[int, ...]:
    """Return the stored shape of grouped values: the dimension becomes (groups, group_size).

    Args:
        shape: logical.
        group_size: values of a group; the last group is filled up with zeros.
        group_dim: logical dimension; negative ones count from the end.

    Raises:
        LayoutError: there is no such dimension.
    """
    dim = group_dimension(len(shape), group_dim)
    return (*shape[:dim], -(-shape[dim] // group_size), group_size, *shape[dim + 1 :])


def group_dimension(rank: int, group_dim: int) -> int:
    """Return the dimension as an index from 0.

    Raises:
        LayoutError: there is no such dimension.
    """
    if not -rank <= group_dim < rank:
        raise LayoutError(
            "group_dim is no dimension of the tensor",
            pointer="/group_dim",
            found=group_dim,
            expected=f"{-rank} to {rank - 1}" if rank else "a tensor with dimensions",
        )
    return group_dim % rank


def check_groups(layout: Any) -> None:
    """Check that stored values are the groups of the logical shape, and scales fit them.

    Raises:
        LayoutError: naming the field.
    """
    stored = tuple(layout.value.shape)
    expected = grouped_shape(layout.dequant_shape, layout.group_size, layout.group_dim)
    if stored != expected:
        raise LayoutError(
            "value is not in the groups of dequant_shape",
            pointer="/value",
            found=f"shape {stored}",
            expected=f"shape {expected}: {layout.dequant_shape} in groups of "
            f"{layout.group_size} along dimension {layout.group_dim}",
        )
    for name in ("scale", "zero_point"):
        found = tuple(getattr(layout, name).shape)
        if prod(found) != 1 and not (len(found) == len(stored) and fits(found, stored)):
            raise LayoutError(
                f"{name} is not aligned with the groups",
                pointer=f"/{name}",
                found=f"shape {found}",
                expected=f"one entry, or {len(stored)} dimensions that broadcast to {stored}",
            )
