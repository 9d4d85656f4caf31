"""Every call that changes files: counted, and one of them made to fail."""

import errno
import fcntl
import os
import signal
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from pathlib import Path
from threading import Lock, local
from types import TracebackType
from typing import Any, Self

from attrs import frozen


class Kind(StrEnum):
    """How a call fails. What is said of a kill happens to the process, not to the call."""

    NO_SPACE = "no space"
    QUOTA = "quota"
    IO = "input/output error"
    READ_ONLY = "read-only"
    INTERRUPTED = "interrupted"
    SHORT = "short"
    SHORT_THEN_FULL = "short, then no space"
    LATE = "done, but an error"
    FULL = "no space from here on"
    DEAD = "input/output errors from here on"
    KILL_BEFORE = "killed before"
    KILL_HALF = "killed half-way"
    KILL_AFTER = "killed after"
    STOP_BEFORE = "stopped before"
    STOP_HALF = "stopped half-way"
    STOP_AFTER = "stopped after"

    @property
    def kills(self) -> bool:
        """Whether the process gets SIGKILL there."""
        return self in {Kind.KILL_BEFORE, Kind.KILL_HALF, Kind.KILL_AFTER}

    @property
    def stops(self) -> bool:
        """Whether no later call has an effect, which on the disk is the same as SIGKILL."""
        return self in {Kind.STOP_BEFORE, Kind.STOP_HALF, Kind.STOP_AFTER}


class Stopped(BaseException):
    """Raised by all calls from the one on that stops a run."""


# Where a call's arguments say what it changes: the position of a descriptor, or of a path.
BY_DESCRIPTOR = {
    **dict.fromkeys(("write", "pwrite", "writev", "pwritev", "sendfile"), 0),
    **dict.fromkeys(("fsync", "fdatasync", "ftruncate", "posix_fallocate", "fchmod", "close"), 0),
    **dict.fromkeys(("ioctl", "flock"), 0),
    "copy_file_range": 1,
}
BY_PATH = {
    **dict.fromkeys(
        ("mkdir", "rmdir", "unlink", "remove", "open", "chmod", "utime", "truncate"), 0
    ),
    **dict.fromkeys(("rename", "replace", "link", "symlink"), 1),
}
MOVES = frozenset({"write", "pwrite", "writev", "pwritev", "sendfile", "copy_file_range"})
"""Calls that may do less than they are asked to."""
GROWS = MOVES | {"posix_fallocate", "ftruncate", "mkdir", "open", "link", "symlink"}
"""Calls that take space on the disk."""
SYNCS = frozenset({"fsync", "fdatasync"})
NAMES = frozenset(BY_PATH) - {"chmod", "utime", "truncate"}
"""Calls that change a directory."""
_FICLONE = 0x40049409
_CREATES = os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_RDWR

_APPLIES = {
    Kind.NO_SPACE: GROWS | SYNCS | {"rename", "replace"},
    Kind.QUOTA: GROWS | SYNCS,
    Kind.IO: (frozenset(BY_DESCRIPTOR) | frozenset(BY_PATH)) - {"close"},
    Kind.READ_ONLY: NAMES,
    Kind.INTERRUPTED: MOVES | SYNCS | {"open", "ftruncate", "posix_fallocate", "flock"},
    Kind.SHORT: MOVES,
    Kind.SHORT_THEN_FULL: MOVES,
    Kind.LATE: (NAMES - {"open"}) | {"close"},
    Kind.FULL: GROWS,
    Kind.DEAD: (frozenset(BY_DESCRIPTOR) | frozenset(BY_PATH)) - {"close"},
    Kind.KILL_HALF: MOVES,
    Kind.STOP_HALF: MOVES,
}
_HALVES = frozenset({Kind.SHORT, Kind.SHORT_THEN_FULL, Kind.KILL_HALF, Kind.STOP_HALF})
_ERRORS = {
    Kind.NO_SPACE: errno.ENOSPC,
    Kind.FULL: errno.ENOSPC,
    Kind.QUOTA: errno.EDQUOT,
    Kind.IO: errno.EIO,
    Kind.DEAD: errno.EIO,
    Kind.READ_ONLY: errno.EROFS,
    Kind.INTERRUPTED: errno.EINTR,
}


@frozen
class Call:
    """One call that changes files.

    Args:
        name: of the function.
        path: what it changes, below the folder that is watched.
        size: bytes that it is asked to move.
        source: what a rename takes the name from, below the folder.
    """

    name: str
    path: str
    size: int = 0
    source: str = ""

    def may_fail(self, kind: Kind) -> bool:
        """Return whether such a call can fail in this way."""
        if kind in _HALVES and self.size < 2:
            return False
        return kind not in _APPLIES or self.name in _APPLIES[kind]


@frozen
class Fault:
    """The call with number `place`, from 1 on, fails."""

    place: int
    kind: Kind


class Calls:
    """While this is entered, calls that change files below a folder are counted.

    They are those of `os` and `fcntl`. What goes past them is noted, see `tell_watchers`.

    Bringing files to the disk takes most of the time and changes nothing that a test could see, so
    it is counted, and left out.

    Args:
        folder: the folder.
        fault: what fails.
    """

    def __init__(self, folder: os.PathLike[str] | str, fault: Fault | None = None) -> None:
        self._folder, self._fault = Path(folder).resolve(), fault
        self._lock, self._inside = Lock(), local()
        self._real: dict[str, tuple[Any, Callable[..., Any]]] = {}
        self._opened: set[int] = set()
        self._short = False
        self.made: list[Call] = []
        self.struck = False
        self.unseen: list[str] = []

    def __enter__(self) -> Self:
        for name in (*BY_DESCRIPTOR, *BY_PATH):
            module = fcntl if name in {"ioctl", "flock"} else os
            if hasattr(module, name):
                self._real[name] = module, getattr(module, name)
                setattr(module, name, partial(self._call, name))
        _watchers.append(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _watchers.remove(self)
        if self._fault and self._fault.kind.stops:  # as the end of a process does
            for descriptor in self._opened:
                self._real["close"][1](descriptor)
        for name, (module, real) in self._real.items():
            setattr(module, name, real)

    def watch(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Note a change of files that went another way, which no fault could reach."""
        if getattr(self._inside, "call", None) or event not in _WATCHED:
            return
        if event == "open" and not (isinstance(arguments[2], int) and arguments[2] & _WRITES):
            return
        place = arguments[_WATCHED[event]]
        if isinstance(place, str | bytes | os.PathLike) and self._below(os.fsdecode(place)):
            self.unseen.append(f"{event} {os.fsdecode(place)}")

    def _below(self, path: str | Path) -> str | None:
        """Return a path from the folder on, or None for one that is not below it."""
        path = Path(path).absolute()
        inside = path.is_relative_to(self._folder) and path != self._folder
        return str(path.relative_to(self._folder)) if inside else None

    def _place(self, name: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> str | None:
        """Return what a call changes, or None where that is no business of ours."""
        changed = arguments[(BY_DESCRIPTOR | BY_PATH)[name]]
        if (
            (name == "close" and changed not in self._opened)
            or (name == "ioctl" and arguments[1] != _FICLONE)
            or (name == "open" and not arguments[1] & _CREATES)
        ):
            return None
        if name in BY_DESCRIPTOR or isinstance(changed, int):
            return self._below(_path_of(changed if isinstance(changed, int) else changed.fileno()))
        folder = keywords.get("dst_dir_fd", keywords.get("dir_fd"))
        path = Path(os.fsdecode(changed))
        return self._below(path if folder is None else _path_of(folder) / path)

    def _call(self, name: str, *arguments: Any, **keywords: Any) -> Any:
        place = self._place(name, arguments, keywords)
        made = partial(self._real[name][1], *arguments, **keywords)
        if place is None:
            return made()
        real: Callable[[], Any] = _nothing if name in SYNCS else made
        half = self._half(name, arguments, keywords)
        source = self._below(os.fsdecode(arguments[0])) if name in {"rename", "replace"} else None
        call = Call(name, place, half[0] if half else 0, source or "")
        with self._lock:
            self.made.append(call)
            kind = self._kind(call)
            if name == "close":
                self._opened.discard(arguments[0])
        self._inside.call = True
        try:
            if kind is None:
                result = real()
            else:
                self.struck = True
                result = self._fail(kind, call, real, half[1] if half else real)
        finally:
            self._inside.call = False
        if name == "open":
            self._opened.add(result)
        return result

    def _kind(self, call: Call) -> Kind | None:
        """Return how the call that was counted last fails, if it does."""
        if self._fault is None:
            return None
        place, kind = self._fault.place, self._fault.kind
        if self._short and call.name in GROWS:
            self._short = False
            return Kind.NO_SPACE
        if len(self.made) > place and kind.stops:
            return None if call.name == "close" else Kind.STOP_BEFORE
        lasts = kind in {Kind.FULL, Kind.DEAD} and len(self.made) > place
        if (len(self.made) != place and not lasts) or not call.may_fail(kind):
            return None
        self._short = kind is Kind.SHORT_THEN_FULL
        return kind

    def _fail(
        self, kind: Kind, call: Call, real: Callable[[], Any], half: Callable[[], Any]
    ) -> Any:
        if kind in _ERRORS:
            raise _error(_ERRORS[kind], call)
        if kind in {Kind.SHORT, Kind.SHORT_THEN_FULL}:
            return half()
        if kind is Kind.LATE:
            real()
            raise _error(errno.EIO, call)
        # A process that has ended has no open files, so that one is closed in any case.
        if kind not in {Kind.KILL_BEFORE, Kind.STOP_BEFORE} or call.name == "close":
            result = (half if kind in _HALVES else real)()
            if call.name == "open":
                self._opened.add(result)
        if kind.kills:
            os.kill(os.getpid(), signal.SIGKILL)
        raise Stopped

    def _half(
        self, name: str, arguments: tuple[Any, ...], keywords: dict[str, Any]
    ) -> tuple[int, Callable[[], Any]] | None:
        """Return how many bytes a call is to move, and what moves half of them."""
        if name not in MOVES:
            return None
        do = self._real[name][1]
        if name in {"copy_file_range", "sendfile"}:
            at = 2 if name == "copy_file_range" else 3
            count = arguments[at] if len(arguments) > at else keywords["count"]
            before, after = arguments[:at], arguments[at + 1 :]
            others = {k: v for k, v in keywords.items() if k != "count"}
            return count, lambda: do(*before, count // 2, *after, **others)
        descriptor, data, *rest = arguments
        if name in {"writev", "pwritev"}:
            data = b"".join(bytes(part) for part in data)
        view = memoryview(data).cast("B")
        part: Any = view[: len(view) // 2]
        part = [part] if name in {"writev", "pwritev"} else part
        return len(view), lambda: do(descriptor, part, *rest, **keywords)


def _path_of(descriptor: int) -> Path:
    """Return what a descriptor is open for."""
    return Path(f"/proc/self/fd/{descriptor}").readlink()


def _nothing() -> None:
    """Do what a test cannot tell from bringing a file to the disk."""


def _error(number: int, call: Call) -> OSError:
    """Return the error as the system would: with a path only where the call has one."""
    if call.name in BY_PATH:
        return OSError(number, os.strerror(number), call.path)
    return OSError(number, os.strerror(number))


_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
# Events of the interpreter, with the argument that says what is changed.
_WATCHED = {
    **dict.fromkeys(("open", "os.mkdir", "os.rmdir", "os.remove", "os.truncate", "os.chmod"), 0),
    **dict.fromkeys(("os.rename", "os.link", "os.symlink"), 1),
}
_watchers: list[Calls] = []


def tell_watchers(event: str, arguments: tuple[Any, ...]) -> None:
    """Pass an event of the interpreter on, see `sys.addaudithook`."""
    for watcher in _watchers:
        watcher.watch(event, arguments)
