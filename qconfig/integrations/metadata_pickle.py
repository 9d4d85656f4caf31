"""A pickle as plain data: nothing that it names is called or imported.

torch unpickles its `.metadata` files, which may run any code. Here each name in them has to be in a
closed table, and gets a class of its own that keeps what it is given.
"""

import io
import pickle
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, ClassVar, Self

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


_OBEYED = (
    *("PROTO", "FRAME", "STOP", "MARK", "MEMOIZE", "GLOBAL", "STACK_GLOBAL", "REDUCE", "NEWOBJ"),
    *("BUILD", "NONE", "NEWTRUE", "NEWFALSE", "BININT", "BININT1", "BININT2", "LONG1"),
    *("SHORT_BINUNICODE", "BINUNICODE", "EMPTY_LIST", "APPEND", "APPENDS", "EMPTY_DICT"),
    *("EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "SETITEM", "SETITEMS"),
    *("BINPUT", "LONG_BINPUT", "BINGET", "LONG_BINGET"),
)
"""What pickles of protocols 2 to 5 need for dataclasses of texts, numbers, lists and dicts."""


class _Reader(pickle._Unpickler):  # noqa: SLF001 (the one in C takes memory for any number of a memo)
    """Gives classes of its own for names, so that nothing in the file reaches another."""

    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = {
        code: function
        for code, function in pickle._Unpickler.dispatch.items()  # noqa: SLF001
        if code in {getattr(pickle, name)[0] for name in _OBEYED}
    }

    def __init__(self, content: bytes, names: Collection[str]) -> None:
        super().__init__(io.BytesIO(content))
        self._names = names
        self._made: dict[str, type[Stand]] = {}

    def find_class(self, module: str, name: str) -> Any:
        path = f"{module}.{name}"
        if path in self._names:
            if path not in self._made:
                self._made[path] = type("Stand", (Stand,), {"path": path})
            return self._made[path]
        if module == "torch":
            try:
                return DType.parse(name).to_torch()
            except UnknownNameError:
                pass
        raise not_of_torch("names what torch does not write there", path)

    def set_items(self) -> None:
        """Set items of a dict whose keys take no time to hash, as tuples of tuples would."""
        unpickler: Any = self
        items, target = unpickler.pop_mark(), unpickler.stack[-1]
        if type(target) is not dict or not all(
            type(key) is str or isinstance(key, Stand) for key in items[::2]
        ):
            raise not_of_torch("has another key than torch writes", type(target).__name__)
        target.update(zip(items[::2], items[1::2], strict=True))

    def set_item(self) -> None:
        """Set one item, see `set_items`."""
        unpickler: Any = self
        pair, unpickler.stack[-2:] = unpickler.stack[-2:], []
        unpickler.metastack.append(unpickler.stack)
        unpickler.stack = pair
        self.set_items()

    dispatch[pickle.SETITEMS[0]] = set_items
    dispatch[pickle.SETITEM[0]] = set_item


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
