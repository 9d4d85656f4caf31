"""A lock that a run holds as long as it lives, and that says who holds it.

The system lets go of it when the process ends, however it ends. Where a file system has no locks,
the process that the file names is asked for; two runs that begin in the same moment are not kept
apart there.
"""

import errno
import fcntl
import json
import os
import socket
import time
from contextlib import suppress
from math import isfinite
from pathlib import Path
from typing import Any, Self

from attrs import define, frozen

from qconfig.codec.byte_copy import write_all

_MODE = 0o644
_LOOKS, _LOOK_SECONDS = 5, 0.02
_HELD = frozenset({errno.EAGAIN, errno.EACCES})
_NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP})
_MOST_BYTES = 4096


@frozen
class Holder:
    """The run that holds a lock.

    Args:
        pid: of its process.
        host: where that runs.
        started: seconds since 1970.
    """

    pid: int
    host: str
    started: float

    @classmethod
    def this_process(cls) -> Self:
        """Return a holder for the process that asks, from now on."""
        return cls(os.getpid(), socket.gethostname(), time.time())

    @classmethod
    def from_bytes(cls, text: bytes) -> Self | None:
        """Return what a lock file says, or None where that is not to be understood."""
        try:
            data: Any = json.loads(text)
            holder = cls(int(data["pid"]), str(data["host"]), float(data["started"]))
        except (ValueError, TypeError, KeyError, RecursionError, OverflowError):
            return None
        return holder if isfinite(holder.started) else None

    def to_bytes(self) -> bytes:
        """Return what goes into a lock file."""
        data = {"pid": self.pid, "host": self.host, "started": self.started}
        return json.dumps(data).encode() + b"\n"

    @property
    def age(self) -> float:
        """Seconds since the run began."""
        return max(time.time() - self.started, 0.0)

    def may_live(self) -> bool:
        """Return whether the process is there, or on a host that cannot be asked."""
        if self.host != socket.gethostname():
            return True
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except (PermissionError, OverflowError):
            return True
        return True

    def __str__(self) -> str:
        """Return process, host and age in words."""
        return f"process {self.pid} on {self.host}, for {duration(self.age)}"


class LockedError(Exception):
    """Another run holds the lock.

    Args:
        holder: who, where the file says it.
    """

    def __init__(self, holder: Holder | None) -> None:
        super().__init__(str(holder))
        self.holder = holder


@define
class RunLock:
    """A lock that is held.

    Args:
        path: its file.
        descriptor: holds the lock until it is closed.
    """

    path: Path
    descriptor: int

    @classmethod
    def take(cls, path: Path) -> Self:
        """Take the lock and write into the file who holds it.

        Raises:
            LockedError: another run holds it.
            OSError: the file system refused.
        """
        while True:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, _MODE)
            lock, is_held = cls(path, descriptor), False
            try:
                _lock_patiently(descriptor)
                is_held = _is_at(descriptor, path)
                if is_held:
                    os.ftruncate(descriptor, 0)
                    write_all(descriptor, Holder.this_process().to_bytes())
                    return lock
            except BaseException:
                if is_held:
                    with suppress(OSError):
                        path.unlink()
                lock.close()
                raise
            lock.close()  # its last holder has removed the file meanwhile

    def release(self) -> None:
        """Let go of the lock that is held; the file stays, and names nobody."""
        with suppress(OSError):  # where there are no locks, the name of a process that lives counts
            os.ftruncate(self.descriptor, 0)
        self.close()

    def close(self) -> None:
        """Close the file, of which somebody else may hold the lock."""
        with suppress(OSError):  # it is closed all the same
            os.close(self.descriptor)


def holder_of(path: Path) -> Holder | None:
    """Return who holds a lock now, or None where nobody does.

    Raises:
        OSError: the file cannot be asked.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    try:
        _lock(descriptor, fcntl.LOCK_SH)
    except LockedError as error:
        return error.holder or Holder(0, "an unknown host", time.time())
    finally:
        os.close(descriptor)
    return None


def duration(seconds: float) -> str:
    """Return a time as people say it: its two greatest units."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    units = ((days, "d"), (hours, "h"), (minutes, "min"), (rest, "s"))
    first = next((i for i, (count, _) in enumerate(units) if count), len(units) - 1)
    return " ".join(f"{count} {unit}" for count, unit in units[first : first + 2])


def _lock_patiently(descriptor: int) -> None:
    """Lock a file, unless it is held for longer than somebody takes who only looks at it."""
    for _ in range(_LOOKS - 1):
        try:
            _lock(descriptor)
        except LockedError:
            time.sleep(_LOOK_SECONDS)
        else:
            return
    _lock(descriptor)


def _lock(descriptor: int, kind: int = fcntl.LOCK_EX) -> None:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except OSError as error:
        holder = Holder.from_bytes(os.pread(descriptor, _MOST_BYTES, 0))
        if error.errno in _HELD or (error.errno in _NO_LOCKS and holder and holder.may_live()):
            raise LockedError(holder) from None
        if error.errno not in _NO_LOCKS:
            raise


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False
