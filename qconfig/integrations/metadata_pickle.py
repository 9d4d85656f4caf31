"""A pickle as plain data: nothing that it names is called or imported.

torch unpickles its `.metadata` files, which may run any code. Here each name in them has to be in a
closed table, and what is made by it keeps what it is given.
"""

from collections.abc import Collection
from pathlib import Path
from typing import Any

from qconfig.codec.collector import collector_paused
from qconfig.codec.dtypes import DType
from qconfig.codec.pickle_machine import run
from qconfig.codec.pickle_tree import check_tree
from qconfig.codec.pickled_values import PickledObject, Role
from qconfig.codec.regular_files import open_regular
from qconfig.codec.torch_meanings import NamedClass
from qconfig.errors import ContainerError, UnknownNameError
from qconfig.limits import current_limits


class _Meanings:
    """What names and calls of torch's metadata stand for: objects that keep what they are given."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = names
        # By identity, and kept alive by it: an instance takes its state once.
        self._stateless: dict[int, PickledObject] = {}

    def name(self, path: str) -> NamedClass | DType:
        if path in self._names:
            return NamedClass(path, Role.OBJECT)
        module, _, name = path.rpartition(".")
        if module == "torch":
            try:
                return DType.parse(name)
            except UnknownNameError:
                pass
        raise not_of_torch("names what torch does not write there", path)

    def call(self, function: Any, arguments: tuple[Any, ...]) -> PickledObject:
        if type(function) is not NamedClass:
            raise not_of_torch("calls what is no function", type(function).__name__)
        made = PickledObject(function.path, arguments)
        self._stateless[id(made)] = made
        return made

    new = call

    def set_state(self, value: Any, state: Any) -> None:
        if self._stateless.pop(id(value), None) is None:
            raise not_of_torch("sets the state of what has none", type(value).__name__)
        # The pickle may already refer to the instance, so it is filled in and not replaced.
        object.__setattr__(value, "state", state)

    def refer(self, _: Any) -> Any:
        raise not_of_torch("refers to something outside", "a persistent id")


def read_pickle(file: Path, names: Collection[str]) -> Any:
    """Return what a file says, as plain data, types of tensors and `PickledObject`s.

    Args:
        file: a regular file.
        names: classes and functions that it may name, besides types of tensors.

    Raises:
        StorageError: it cannot be read.
        ContainerError: it is damaged, breaks a limit for pickles, or names something else.
    """
    limits = current_limits()
    with open_regular(file) as opened:
        if opened.size > limits.pickle_bytes:
            raise not_of_torch("is too large", opened.size, limits.describe("pickle_bytes"))
        content = bytes(opened.read(0, opened.size))
    with collector_paused():
        root, instructions = run(content, _Meanings(names), limits, {PickledObject})
        check_tree(root, instructions, limits)
    return root


def not_of_torch(what: str, found: object, expected: str | None = None) -> ContainerError:
    """Return the error about a file that torch would not write so."""
    return ContainerError(f"torch's metadata {what}", found=found, expected=expected)
