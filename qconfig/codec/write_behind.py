"""Writing computed tensors in a thread, while the next ones are made.

torch and the system's calls let other threads go on. What waits to be written stays in memory, so
little of it does: some megabytes, or one part that is larger.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from math import prod
from threading import Condition, Thread
from types import TracebackType
from typing import TYPE_CHECKING, Self

from attrs import define, frozen

from qconfig.codec.byte_copy import CHUNK, write_all
from qconfig.codec.digests import Passed
from qconfig.codec.dtypes import DType
from qconfig.codec.raw_memory import byte_view
from qconfig.codec.tensor_values import LazyTensor
from qconfig.errors import ContainerError, QconfigError

if TYPE_CHECKING:
    import torch

_MOST_WAITING = 4 * 2**20
_WORTH_A_THREAD = 4 * 2**20


@frozen
class Placed:
    """A tensor that is to be made.

    Args:
        name: of it.
        tensor: it.
        position: where its bytes begin in the file.
        size: how many there are.
    """

    name: str
    tensor: LazyTensor
    position: int
    size: int


@frozen
class Written:
    """A tensor of which all bytes are written.

    Args:
        name: of the tensor.
        size: its bytes.
        digest: of its bytes; "" where none was asked for.
    """

    name: str
    size: int
    digest: str


@define
class _Begun:
    """A tensor of which some bytes are written."""

    name: str
    position: int
    size: int
    passed: Passed | None
    done: int = 0


def write_computed(
    target: int,
    tensors: list[Placed],
    writing: Callable[[], AbstractContextManager[None]],
    *,
    digests: bool,
) -> Iterator[Written]:
    """Make tensors and write them where they belong; yield those that are written.

    Inner tensors of one quantized tensor are computed together but lie apart in the file: made in
    the caller's order, only one of these groups is in memory.

    Args:
        target: descriptor of the file.
        tensors: in the order in which they are made.
        writing: is entered around what raises OSError for the file.
        digests: whether to make them.

    Raises:
        ContainerError: a tensor differs from its declaration.
    """
    threaded = sum(placed.size for placed in tensors) >= _WORTH_A_THREAD
    with WriteBehind(target, digests=digests, threaded=threaded) as behind:
        for placed in tensors:
            behind.begin(placed.name, placed.position, placed.size)
            for part in _parts(placed.name, placed.tensor) if placed.size else ():
                with writing():
                    behind.put(part)
                del part  # it may be as large as what is made next
            yield from behind.written()
        with writing():
            behind.finish()
        yield from behind.written()


def _parts(name: str, tensor: LazyTensor) -> "Iterator[torch.Tensor]":
    done = 0
    try:
        for part in _made(tensor):
            _check_part(name, tensor, part, done)
            done += part.numel()
            # A lazy conjugate or negative has other bytes in memory than its elements have.
            yield part.detach().resolve_conj().resolve_neg().cpu().contiguous()
            del part
        if done != prod(tensor.shape):
            raise _differs(name, tensor, f"{done} elements")
    except QconfigError as error:
        raise error.at(fqn=name) from None


def _made(tensor: LazyTensor) -> "Iterator[torch.Tensor]":
    if tensor.parts is not None:
        yield from tensor.parts(1)
    else:
        yield tensor.load()


def _check_part(name: str, tensor: LazyTensor, part: "torch.Tensor", done: int) -> None:
    """Check that what is made is the tensor that was declared, or some of its rows."""
    shape, is_part = tuple(part.shape), tensor.parts is not None
    fits = shape == tensor.shape and not done
    if is_part and shape and not fits:
        fits = shape[1:] == tensor.shape[1:] and done + part.numel() <= prod(tensor.shape)
    if DType.parse(part.dtype) is not tensor.dtype or not fits:
        after = f" after {done} elements" if done else ""
        raise _differs(name, tensor, f"{part.dtype} {shape}{after}")


def _differs(name: str, tensor: LazyTensor, found: str) -> ContainerError:
    return ContainerError(
        "a tensor differs from its declaration",
        fqn=name,
        found=found,
        expected=f"{tensor.dtype} {tensor.shape}",
    )


class WriteBehind:
    """Writes tensors to a file; used in a `with` block, after which no thread is left.

    An error in the block drops what is not written yet. An error of writing is raised by the next
    `begin`, `put` or `finish`.

    Args:
        target: descriptor of the file; nobody else uses its position meanwhile.
        digests: whether to make them.
        threaded: False writes at once, in the calling thread.
    """

    def __init__(self, target: int, *, digests: bool, threaded: bool) -> None:
        self._target, self._digests = target, digests
        self._queue: deque[tuple[_Begun, torch.Tensor | None]] = deque()
        self._unwritten, self._bytes = 0, 0
        self._changed = Condition()
        self._ended = False
        self._failure: BaseException | None = None
        self._written: deque[Written] = deque()
        self._begun = _Begun("", 0, 0, None)
        self._thread = Thread(target=self._run, name="qconfig-write") if threaded else None

    def begin(self, name: str, position: int, size: int) -> None:
        """Say that the next parts are those of a tensor of `size` bytes at `position`."""
        self._begun = begun = _Begun(name, position, size, Passed() if self._digests else None)
        if not size:
            self._hand_over(begun, None)

    def put(self, part: "torch.Tensor") -> None:
        """Write a part, or wait until there is room for it among those that are to be written.

        Args:
            part: contiguous, on the CPU; whoever calls lets go of it.

        Raises:
            OSError: the file system refused this part or one before.
        """
        self._hand_over(self._begun, part)

    def finish(self) -> None:
        """Wait until everything is written.

        Raises:
            OSError: the file system refused.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._failure or not self._unwritten)
            self._check()

    def written(self) -> "list[Written]":
        """Return the tensors that have been written since the last call."""
        return [self._written.popleft() for _ in range(len(self._written))]

    def __enter__(self) -> Self:
        """Start the thread."""
        if self._thread is not None:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        """End the thread and wait for it."""
        thread, interrupt = self._thread, None
        if thread is None:
            return
        # The descriptor may mean another file once the caller goes on: Ctrl-C has to wait.
        while True:
            try:
                with self._changed:
                    self._ended = True
                    self._changed.notify_all()
                thread.join()
                break
            except KeyboardInterrupt as again:
                interrupt = again
        if interrupt is not None and error is None:
            raise interrupt

    def _hand_over(self, begun: _Begun, part: "torch.Tensor | None") -> None:
        if self._thread is None:
            self._write(begun, part)
            return
        size = 0 if part is None else part.nbytes
        with self._changed:
            self._changed.wait_for(
                lambda: self._failure or not self._bytes or self._bytes + size <= _MOST_WAITING
            )
            self._check()
            self._queue.append((begun, part))
            self._unwritten += 1
            self._bytes += size
            self._changed.notify_all()

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._ended or self._queue)
                if self._ended:
                    return
                begun, part = self._queue.popleft()
            size = 0 if part is None else part.nbytes
            failure: BaseException | None = None
            try:
                self._write(begun, part)
            except BaseException as error:  # noqa: BLE001 - raised in the caller's thread
                failure = error
            del part
            with self._changed:
                self._bytes -= size
                self._unwritten -= 1
                if failure is not None:
                    self._failure, self._ended = failure, True
                self._changed.notify_all()

    def _write(self, begun: _Begun, part: "torch.Tensor | None") -> None:
        view = memoryview(b"") if part is None else byte_view(part)
        os.lseek(self._target, begun.position + begun.done, os.SEEK_SET)
        for start in range(0, view.nbytes, CHUNK):
            chunk = view[start : start + CHUNK]
            if begun.passed is not None:
                begun.passed.update(chunk)
            write_all(self._target, chunk)
        begun.done += view.nbytes
        if begun.done >= begun.size:
            self._written.append(_written(begun))


def _written(begun: _Begun) -> Written:
    return Written(begun.name, begun.size, begun.passed.digest() if begun.passed else "")
