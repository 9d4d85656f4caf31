"""Granularity: which elements of a tensor share one scale.

Names agree with `torchao.quantization.granularity`.
"""

from attrs import frozen

from qconfig.errors import FieldError
from qconfig.versioning import attribute, register_value


@register_value("PerTensor")
@frozen
class PerTensor:
    """One scale for the whole tensor."""

    def block_of(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the block of elements that shares one scale: the whole shape."""
        return shape


@register_value("PerRow")
@frozen
class PerRow:
    """One scale for every vector along one dimension, by default the last."""

    dim: int = attribute(
        "Dimension whose elements share a scale; negative ones count from the end.",
        default=-1,
        minimum=-16,
        maximum=15,
    )

    def block_of(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the block of elements that shares one scale, an entry per dimension of `shape`.

        Raises:
            FieldError: the dimension does not exist.
        """
        dim = _dimension(self.dim, shape, "dim")
        return tuple(n if d == dim else 1 for d, n in enumerate(shape))


@register_value("PerAxis")
@frozen
class PerAxis:
    """One scale for every index of one dimension."""

    axis: int = attribute(
        "Dimension with one scale an index; negative ones count from the end.",
        minimum=-16,
        maximum=15,
    )

    def block_of(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the block of elements that shares one scale, an entry per dimension of `shape`.

        Raises:
            FieldError: the axis does not exist.
        """
        axis = _dimension(self.axis, shape, "axis")
        return tuple(1 if d == axis else n for d, n in enumerate(shape))


@register_value("PerGroup")
@frozen
class PerGroup:
    """One scale for every `group_size` consecutive elements of the last dimension."""

    group_size: int = attribute(
        "Elements that share a scale; it must divide the last dimension.",
        minimum=1,
        maximum=2**31 - 1,
    )

    def block_of(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the block of elements that shares one scale, an entry per dimension of `shape`.

        Raises:
            FieldError: the group size does not divide the last dimension.
        """
        if not shape or shape[-1] % self.group_size:
            raise FieldError(
                "group_size does not divide the last dimension",
                pointer="/group_size",
                found=self.group_size,
                expected=f"a divisor of K = {shape[-1] if shape else 0}",
            )
        return (*(1 for _ in shape[:-1]), self.group_size)


@register_value("PerToken")
@frozen
class PerToken:
    """One scale for every token of an activation: each vector along the last dimension."""

    def block_of(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the block of elements that shares one scale, an entry per dimension of `shape`."""
        return PerRow().block_of(shape)


@register_value("PerBlock")
@frozen
class PerBlock:
    """One scale for every tile of the last dimensions, such as (128, 128)."""

    block_size: tuple[int, ...] = attribute(
        "Elements of a tile along the last dimensions; they must divide those.",
        min_length=1,
        max_length=16,
    )

    def block_of(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the block of elements that shares one scale, an entry per dimension of `shape`.

        Raises:
            FieldError: more entries than dimensions, or a tile that does not divide them.
        """
        lead = len(shape) - len(self.block_size)
        if lead < 0 or any(
            b < 1 or n % b for n, b in zip(shape[lead:], self.block_size, strict=True)
        ):
            raise FieldError(
                "block_size does not tile the tensor",
                pointer="/block_size",
                found=self.block_size,
                expected=f"divisors of the last dimensions of shape {shape}",
            )
        return (*(1 for _ in range(lead)), *self.block_size)


Granularity = PerTensor | PerRow | PerAxis | PerGroup
"""What int8 weights may have; released schemas fix this list."""
AnyGranularity = PerTensor | PerRow | PerAxis | PerGroup | PerToken | PerBlock
"""What other fields may name; each config refuses what it cannot serve."""


def _dimension(value: int, shape: tuple[int, ...], name: str) -> int:
    if not -len(shape) <= value < len(shape):
        raise FieldError(
            f"{name} is not a dimension of the tensor",
            pointer=f"/{name}",
            found=value,
            expected=f"a dimension of shape {shape}",
        )
    return value % len(shape)
