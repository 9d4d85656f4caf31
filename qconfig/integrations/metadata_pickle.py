"""A pickle as plain data: nothing that it names is called or imported.

torch unpickles its `.metadata` files, which may run any code. Here each name in them has to be in a
closed table, and gets a class of its own that keeps what it is given.
"""

import io
import pickle
from collections.abc import Collection
from pathlib import Path
from typing import Any, Self

from qconfig.codec.dtypes import DType
from qconfig.codec.regular_files import open_regular
from qconfig.errors import ContainerError, QconfigError, UnknownNameError
from qconfig.limits import current_limits


class Stand:
    """What stands for an object: the name that it was made by, and what it was given.

    Attributes:
        path: "module.name" as the file has it.
        arguments: of the call.
        state: what was given to set its attributes.
    """

    path = ""
    arguments: tuple[Any, ...]
    state: Any

    def __new__(cls, *arguments: Any) -> Self:
        """Keep what it is called with."""
        self = object.__new__(cls)
        self.arguments = arguments
        self.state = None
        return self

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Reader(pickle._Unpickler):  # noqa: SLF001 (the one in C takes memory for any number of a memo)
    """Gives a class of its own for each name, so that nothing in the file reaches another."""

    def __init__(self, content: bytes, names: Collection[str]) -> None:
        super().__init__(io.BytesIO(content))
        self._names = names

    def find_class(self, module: str, name: str) -> Any:
        path = f"{module}.{name}"
        if path in self._names:
            return type("Stand", (Stand,), {"path": path})
        if module == "torch":
            try:
                return DType.parse(name).to_torch()
            except UnknownNameError:
                pass
        raise not_of_torch("names what torch does not write there", path)


def read_pickle(file: Path, names: Collection[str]) -> Any:
    """Return what a file says, as plain data and `Stand`s.

    Args:
        file: a regular file.
        names: classes and functions that it may name, besides types of tensors.

    Raises:
        StorageError: it cannot be read.
        ContainerError: it is damaged, larger than `Limits.pickle_bytes`, or names something else.
    """
    limits = current_limits()
    with open_regular(file) as opened:
        if opened.size > limits.pickle_bytes:
            raise not_of_torch("is too large", opened.size, limits.describe("pickle_bytes"))
        content = bytes(opened.read(0, opened.size))
    try:
        return _Reader(content, names).load()
    except QconfigError:
        raise
    except Exception as error:  # noqa: BLE001 (see below)
        # Whatever the instructions did to plain data, it is the file that is wrong.
        raise not_of_torch("is damaged", type(error).__name__) from None


def not_of_torch(what: str, found: object, expected: str | None = None) -> ContainerError:
    """Return the error about a file that torch would not write so."""
    return ContainerError(f"torch's metadata {what}", found=found, expected=expected)
