"""How much memory work on a shard takes, and a bound on what works at a time."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Condition

from attrs import frozen

from qconfig.codec.tensor_parts import PART_BYTES
from qconfig.codec.tensor_values import LazyTensor, nbytes
from qconfig.errors import UsageError

_PARTS = 32 * PART_BYTES
"""What work by rows takes: parts that are read, worked on in float32, and wait to be written."""
_COPY = 16 * 2**20
"""What copies of byte ranges take, where the kernel cannot do them, and their digests."""
_SHARE = 3
"""How many times a tensor and what is made of it, at most: AWQ takes two and a half."""


@frozen
class Need:
    """The memory that a shard takes.

    Args:
        size: bytes, beside what the process has before.
        tensor: name of the tensor that takes it; "" where none is computed.
    """

    size: int
    tensor: str


def need_of(tensors: Mapping[str, LazyTensor]) -> Need:
    """Return what the tensor of a shard takes that takes most: one is worked on at a time."""
    need = Need(_COPY, "")
    for name, tensor in tensors.items():
        size = _COPY + _size(tensor) if tensor.source is None else 0
        if size > need.size:
            need = Need(size, name)
    return need


def layout_need(source: int, made: int, rest: int | None) -> int:
    """Return what quantizing a tensor takes.

    Args:
        source: bytes of the weight.
        made: bytes of all that is made of it.
        rest: bytes of what is made and waits, where it is made by rows; None if it is not.
    """
    whole = _SHARE * (source + made)
    return whole if rest is None else min(whole, _PARTS + rest)


def check_need(size: int) -> int:
    """Return what reading and checking a quantized tensor of `size` bytes takes."""
    return _COPY + _SHARE * size


def _size(tensor: LazyTensor) -> int:
    size = nbytes(tensor)
    if tensor.work:
        return tensor.work
    # What is said of nothing may come from a tensor with elements of eight bytes.
    return min(_PARTS, 16 * size) if tensor.parts is not None else 16 * size


class MemoryBudget:
    """Memory that is shared by all work of a process.

    Args:
        limit: bytes; None for as much as there is.
    """

    def __init__(self, limit: int | None = None) -> None:
        self._limit, self._free = limit, limit or 0
        self._changed = Condition()

    @contextmanager
    def taken(self, size: int) -> Iterator[None]:
        """Take memory while the block lasts; wait for it if others have it.

        Args:
            size: bytes; more than there are in all count as all.
        """
        if self._limit is None:
            yield
            return
        size = min(size, self._limit)
        with self._changed:
            while self._free < size:
                self._changed.wait()
            self._free -= size
        try:
            yield
        finally:
            with self._changed:
                self._free += size
                self._changed.notify_all()


def budget_of(
    limit: int | None, stored: Mapping[str, Mapping[str, LazyTensor]], home: Path
) -> MemoryBudget:
    """Return the budget of work on shards.

    Args:
        limit: bytes; None for no bound.
        stored: tensors of each shard by name.
        home: directory that errors name.

    Raises:
        UsageError: a shard cannot be written with so much; its tensor is named, and what it needs.
            Or the limit is no integer.
    """
    if limit is None:
        return MemoryBudget()
    if type(limit) is not int:
        raise UsageError("max_memory is no number of bytes", found=limit, expected="an integer")
    for name, tensors in stored.items():
        need = need_of(tensors)
        if need.size > limit:
            raise UsageError(
                "a tensor needs more memory than max_memory allows",
                file=home / name,
                fqn=need.tensor or None,
                found=f"max_memory of {limit} bytes",
                expected=f"at least {need.size} bytes",
                hint="allow more memory, or leave the tensor as it is by a rule",
            )
    return MemoryBudget(limit)
