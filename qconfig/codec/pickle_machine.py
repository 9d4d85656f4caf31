"""A machine for pickles that calls nothing: it keeps a stack and a memo of plain data.

Python's unpickler imports and calls what a file names. Here the standard library only cuts the
bytes into instructions (`pickletools.genops`), a closed list of which is obeyed; what a name, a
call or a reference to a storage means is asked of a `Meanings`, which answers from tables. The list
is what `torch.save` writes under the pickle protocols 1 to 5 for tensors and plain data.
"""

import codecs
import pickletools
import struct
from collections.abc import Callable, Collection
from typing import Any, Protocol

from qconfig.errors import ContainerError
from qconfig.limits import Limits

# pickletools decodes texts of protocol 0 with this; looked up here, no file causes its import.
codecs.lookup("raw_unicode_escape")

_NEWEST_PROTOCOL = 5
_INTEGER_BITS = 128
_LONGEST_KEY = 16
_PLAIN = frozenset({str, int, float, bool, type(None)})


class Meanings(Protocol):
    """What stands for the names, calls and references of a pickle."""

    def name(self, path: str) -> Any:
        """Return what stands for a class or function, by "module.name"."""

    def call(self, function: Any, arguments: tuple[Any, ...]) -> Any:
        """Return what stands for the result of a call."""

    def new(self, kind: Any, arguments: tuple[Any, ...]) -> Any:
        """Return what stands for a new instance of a class."""

    def set_state(self, value: Any, state: Any) -> None:
        """Note the state of an instance."""

    def refer(self, identity: Any) -> Any:
        """Return what stands for something outside the pickle, by its persistent id."""


def run(
    pickle: bytes, meanings: Meanings, limits: Limits, keys: Collection[type] = ()
) -> tuple[Any, int]:
    """Return the value that a pickle describes, and how many instructions it has.

    Args:
        pickle: its bytes.
        meanings: what names, calls and references stand for.
        limits: bounds on the instructions.
        keys: types of what stands for an object that may be keys of dicts beside plain values;
            they are told apart by identity, which takes no time to hash.

    Raises:
        ContainerError: it is damaged, breaks a limit, or asks for what the machine does not do.
    """
    return _Machine(meanings, limits, keys).run(pickle)


class _Machine:
    def __init__(self, meanings: Meanings, limits: Limits, keys: Collection[type]) -> None:
        self._meanings = meanings
        self._limits = limits
        self._keys = _PLAIN.union(keys)
        self._stack: list[Any] = []
        self._below: list[list[Any]] = []
        self._memo: dict[int, Any] = {}
        self._length = 0

    def run(self, pickle: bytes) -> tuple[Any, int]:
        obey, position, name = self._instructions(), 0, "PROTO"
        self._length = len(pickle)
        most = self._limits.pickle_operations
        count = 0
        try:
            for opcode, argument, place in pickletools.genops(pickle):
                name, position = opcode.name, place or 0
                count += 1
                if count > most:
                    raise _wrong(
                        "has too many instructions",
                        count,
                        self._limits.describe("pickle_operations"),
                    )
                if name == "STOP":
                    break
                do = obey.get(name)
                if do is None:
                    raise _wrong("uses an instruction that is not obeyed", name)
                do(argument)
            return self._result(position, pickle), count
        except (IndexError, KeyError):
            expected = "a value on the stack or in the memo"
            raise _wrong(f"is damaged at byte {position}", name, expected) from None
        except (ValueError, OverflowError, EOFError, struct.error, DeprecationWarning) as cause:
            # What genops says of the bytes; a text in them is not repeated. It warns of a name with
            # an escape that Python does not have; no table has such a name anyway.
            is_said = type(cause) in (ValueError, DeprecationWarning)
            reason = str(cause) if is_said else type(cause).__name__
            raise _wrong(f"is damaged after byte {position}", reason) from None
        except ContainerError as error:
            error.message += f" (byte {position} of the pickle)"
            raise

    def _result(self, position: int, pickle: bytes) -> Any:
        if self._below or len(self._stack) != 1:
            raise _wrong("leaves more or less than one value", len(self._stack), "one value")
        if position + 1 != len(pickle):
            raise _wrong(
                "is followed by other bytes", f"{len(pickle) - position - 1} bytes", "nothing"
            )
        return self._stack[0]

    def _instructions(self) -> dict[str, Callable[[Any], None]]:
        push, tuples = self._push, self._push_tuple_of
        names: dict[str, Callable[[Any], None]] = {
            "PROTO": self._check_protocol,
            "FRAME": self._check_frame,
            "MARK": self._mark,
            "NONE": push,
            "NEWTRUE": lambda _: push(True),  # noqa: FBT003
            "NEWFALSE": lambda _: push(False),  # noqa: FBT003
            "EMPTY_DICT": lambda _: push({}),
            "EMPTY_LIST": lambda _: push([]),
            "EMPTY_TUPLE": lambda _: push(()),
            "TUPLE": lambda _: push(tuple(self._to_mark())),
            "LIST": lambda _: push(self._to_mark()),
            "TUPLE1": lambda _: tuples(1),
            "TUPLE2": lambda _: tuples(2),
            "TUPLE3": lambda _: tuples(3),
            "APPEND": lambda _: self._extend([self._stack.pop()]),
            "APPENDS": lambda _: self._extend(self._to_mark()),
            "SETITEM": lambda _: self._set_items(self._pop_many(2)),
            "SETITEMS": lambda _: self._set_items(self._to_mark()),
            "DICT": self._push_dict,
            "MEMOIZE": lambda _: self._put(len(self._memo)),
            "GLOBAL": self._global,
            "STACK_GLOBAL": self._stack_global,
            "REDUCE": lambda _: self._call(self._meanings.call),
            "NEWOBJ": lambda _: self._call(self._meanings.new),
            "BUILD": self._build,
            "BINPERSID": lambda _: push(self._meanings.refer(self._stack.pop())),
        }
        names |= dict.fromkeys(("BININT", "BININT1", "BININT2", "BINFLOAT", "FLOAT"), push)
        names |= dict.fromkeys(("INT", "LONG", "LONG1", "LONG4"), self._push_integer)
        texts = ("UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8")
        names |= dict.fromkeys(texts, self._push_text)
        names |= dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT"), self._put)
        return names | dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), self._get)

    def _push(self, value: Any) -> None:
        self._stack.append(value)

    def _push_integer(self, value: int) -> None:
        if value.bit_length() > _INTEGER_BITS:
            raise _wrong(
                "has too large an integer",
                f"{value.bit_length()} bits",
                f"at most {_INTEGER_BITS} bits",
            )
        self._stack.append(value)

    def _push_text(self, value: str) -> None:
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise _wrong("has a text with half of a surrogate pair", value) from None
        self._stack.append(value)

    def _push_tuple_of(self, count: int) -> None:
        self._stack.append(tuple(self._pop_many(count)))

    def _push_dict(self, _: None) -> None:
        items = self._to_mark()
        self._stack.append({})
        self._set_items(items)

    def _pop_many(self, count: int) -> list[Any]:
        stack = self._stack
        if len(stack) < count:
            raise IndexError
        values = stack[-count:]
        del stack[-count:]
        return values

    def _mark(self, _: None) -> None:
        self._below.append(self._stack)
        self._stack = []

    def _to_mark(self) -> list[Any]:
        values, self._stack = self._stack, self._below.pop()
        return values

    def _put(self, index: int) -> None:
        self._memo[index] = self._stack[-1]

    def _get(self, index: int) -> None:
        self._stack.append(self._memo[index])

    def _check_protocol(self, version: int) -> None:
        if version > _NEWEST_PROTOCOL:
            raise _wrong("has an unknown protocol", version, f"at most {_NEWEST_PROTOCOL}")

    def _check_frame(self, length: int) -> None:
        if length > self._length:
            raise _wrong("has a frame longer than itself", length, f"at most {self._length} bytes")

    def _extend(self, values: list[Any]) -> None:
        target = self._stack[-1]
        if type(target) is not list:
            raise _wrong("appends to what is no list", type(target).__name__)
        target.extend(values)

    def _set_items(self, items: list[Any]) -> None:
        target = self._stack[-1]
        if type(target) is not dict:
            raise _wrong("sets items of what is no dict", type(target).__name__)
        if len(items) % 2:
            raise IndexError
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not self._is_key(key):
                raise _wrong("has a dict with a key that is no plain value", type(key).__name__)
            if key in target:
                raise _wrong("has a dict with two entries of one key", key)
            target[key] = value

    def _is_key(self, key: Any) -> bool:
        # Hashing a tuple of tuples can take time that grows exponentially with the pickle.
        if type(key) is tuple:
            return len(key) <= _LONGEST_KEY and all(type(part) in _PLAIN for part in key)
        return type(key) in self._keys

    def _global(self, argument: str) -> None:
        module, _, name = argument.partition(" ")
        self._stack.append(self._meanings.name(f"{module}.{name}"))

    def _stack_global(self, _: None) -> None:
        module, name = self._pop_many(2)
        if type(module) is not str or type(name) is not str:
            raise _wrong("names a class by what is no text", type(name).__name__)
        self._stack.append(self._meanings.name(f"{module}.{name}"))

    def _call(self, meaning: Callable[[Any, tuple[Any, ...]], Any]) -> None:
        function, arguments = self._pop_many(2)
        if type(arguments) is not tuple:
            raise _wrong("calls something with what is no tuple", type(arguments).__name__)
        self._stack.append(meaning(function, arguments))

    def _build(self, _: None) -> None:
        state = self._stack.pop()
        self._meanings.set_state(self._stack[-1], state)


def _wrong(what: str, found: Any, expected: str | None = None) -> ContainerError:
    return ContainerError(f"the pickle {what}", found=found, expected=expected)
