"""What an AffineQuantizedTensor says about the codes inside, which all its arrangements share."""

from collections.abc import Callable
from typing import Any

from attrs import field, frozen

from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import LazyTensor
from qconfig.dialects.torchao.stored import StoredObject
from qconfig.dialects.torchao.tensors.enums import ENUMS
from qconfig.dialects.torchao.tensors.reading import Context, Fields, wrong
from qconfig.errors import MigrationError
from qconfig.versioning import Layout


@frozen
class Shell:
    """What an AffineQuantizedTensor says about the codes inside.

    Args:
        shape: shape that it shows.
        dtype: element type that it shows.
        block_size: elements that share a scale, along each dimension.
        quant_min: smallest code, or None for that of the codes' type.
        quant_max: largest code, or None for that of the codes' type.
        domain: INT, FLOAT or NONE: what zero points are.
    """

    shape: tuple[int, ...]
    dtype: DType
    block_size: tuple[int, ...]
    quant_min: Any
    quant_max: Any
    domain: str = field()

    @domain.validator
    def _check_domain(self, _: Any, value: str) -> None:
        if value not in ENUMS["ZeroPointDomain"].values():
            raise wrong("zero_point_domain", value, "INT, FLOAT or NONE")

    @property
    def bounds(self) -> tuple[int | None, int | None]:
        """The smallest and the largest code, None for those of the codes' type.

        Raises:
            MigrationError: they are no whole numbers.
        """
        found = []
        for name in ("quant_min", "quant_max"):
            value = getattr(self, name)
            if isinstance(value, float) and value.is_integer():
                value = int(value)
            if type(value) not in (int, type(None)):
                raise wrong(name, value, "a whole number or None")
            found.append(value)
        return found[0], found[1]


Implementation = Callable[[Shell, Fields, Context], Layout]
"""Reads the tensors of one arrangement: the shell, their fields and the context."""


def layout_object(fields: Fields) -> StoredObject | None:
    """Return the object that names the arrangement: `_layout`, up to 0.6 `layout_type`."""
    later: StoredObject | None = fields.optional("_layout", StoredObject)
    earlier: StoredObject | None = fields.optional("layout_type", StoredObject)
    return later or earlier


def zero_points(shell: Shell, fields: Fields, name: str = "zero_point") -> LazyTensor | None:
    """Return the zero points.

    Raises:
        ContainerError: there are some although the shell says that there are none.
    """
    value = fields.optional_tensor(name)
    if value is not None and shell.domain == "NONE":
        raise wrong(name, value, "None, as zero_point_domain NONE says")
    return value


def check_untransposed(fields: Fields) -> None:
    """Take the field that says whether the tensors are seen transposed.

    Raises:
        MigrationError: they are.
    """
    if fields.optional("transposed", bool):
        raise MigrationError(
            "a transposed tensor cannot be read",
            pointer="/transposed",
            found=True,
            expected="a tensor as a linear stores it",
            hint="save the untransposed weight with the release that wrote the file",
        )
