"""What tensors with a grid for each group have: they are stored in groups, and shown without."""

from typing import Any, cast

import torch

from qconfig.tensors.quant_tensor.groups import expanded, expanded_metadata
from qconfig.tensors.quant_tensor.inner import InnerTensors


class GroupwiseMixin(InnerTensors):
    """Properties of groups; mixed into QuantTensor before the kind of its elements."""

    @property
    def group_size(self) -> int:
        """Values of a group."""
        return cast("int", self.__dict__["_group_size"])

    @property
    def group_dim(self) -> int:
        """Logical dimension of the groups; negative ones count from the end."""
        return cast("int", self.__dict__["_group_dim"])

    @property
    def dequant_shape(self) -> tuple[int, ...]:
        """Logical shape, without what the last group is filled up with."""
        return cast("tuple[int, ...]", self.__dict__["_dequant_shape"])

    @property
    def grouped_value(self) -> torch.Tensor:
        """The values as they are stored: (…, groups, group_size, …)."""
        return self.stored("value")

    @property
    def grouped_scale(self) -> torch.Tensor:
        """The scales as they are stored: (…, groups, 1, …), or one."""
        return self.stored("scale")

    @property
    def grouped_zero_point(self) -> torch.Tensor:
        """The zero points as they are stored: (…, groups, 1, …), or one."""
        return self.stored("zero_point")

    @property
    def value(self) -> torch.Tensor:
        """The values, dequantized, in the logical shape.

        Raises:
            MetadataOnlyError: they are left out.
        """
        stored = self.stored("value")
        shape, dim = self.dequant_shape, self.group_dim
        return self.kept(_shown("value", stored), "value", lambda: expanded(stored, shape, dim))

    @property
    def scale(self) -> torch.Tensor:
        """A scale for each value, or one; kept, so that `grouped_scale` is cheaper."""
        return self._each("scale")

    @property
    def zero_point(self) -> torch.Tensor:
        """A zero point for each value, or one."""
        return self._each("zero_point")

    def _each(self, name: str) -> torch.Tensor:
        stored = self.stored(name)
        shape, size, dim = self.dequant_shape, self.group_size, self.group_dim
        return self.kept(
            _shown(name, stored), name, lambda: expanded_metadata(stored, shape, size, dim)
        )


def _shown(name: str, stored: torch.Tensor) -> str:
    return f"shown {'differentiable ' if stored.requires_grad else ''}{name}"


def logical_shape(value: Any, group_dim: int, given: Any) -> tuple[int, ...]:
    """Return the logical shape of values in groups: what is given, or all that is stored."""
    if given is not None:
        return tuple(int(size) for size in given)
    stored = tuple(value.shape)
    dim = group_dim % (len(stored) - 1) if len(stored) > 1 else 0
    return (*stored[:dim], stored[dim] * stored[dim + 1], *stored[dim + 2 :])
