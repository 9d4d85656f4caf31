"""What the tasks of one call have in common: found in this process, made again in another one."""

import os
import secrets
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any, Generic, TypeVar

from attrs import field, frozen

from qconfig.errors import CheckpointError, UsageError

T = TypeVar("T")

_given: dict[str, Any] = {}
_made: dict[str, Any] = {}
_making = Lock()


@frozen
class Shared(Generic[T]):
    """A value that tasks refer to; it stays behind when they are sent to another process.

    Args:
        make: gives an equal value in another process; None where there is no way to.
        token: names the value within all processes.
    """

    make: Callable[[], T] | None
    token: str = field(factory=lambda: secrets.token_hex(8))

    @contextmanager
    def being(self, value: T) -> Iterator[None]:
        """Let `get` return `value` in this process, while the block lasts."""
        _given[self._key] = value
        try:
            yield
        finally:
            del _given[self._key]

    def get(self) -> T:
        """Return the value.

        Raises:
            UsageError: it lies in the memory of another process.
        """
        found: T | None = _given.get(self._key)
        if found is not None:
            return found
        if self.make is None:
            raise UsageError(
                "what is worked on lies in the memory of another process",
                expected="an executor of threads",
            )
        with _making:
            made: T | None = _made.get(self._key)
            if made is None:
                _made.clear()  # what was made for earlier calls goes
                made = _made[self._key] = self.make()
            return made

    @property
    def _key(self) -> str:
        # A process that was forked has the table of its parent, but not its threads and listeners.
        return f"{os.getpid()} {self.token}"


def this_process() -> tuple[str, int]:
    """Return host and pid: where something was done."""
    return socket.gethostname(), os.getpid()


def check_same(found: str, expected: str, file: Path) -> None:
    """Check that this process sees the checkpoint that its caller sees, by digests of both plans.

    Raises:
        CheckpointError: it sees another one.
    """
    if found != expected:
        raise CheckpointError(
            "another process finds another checkpoint",
            file=file,
            found=f"a plan of digest {found}",
            expected=expected,
            hint="let all processes see the same files, with the same release of qconfig",
        )
