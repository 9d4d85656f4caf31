"""Read hostile files under an audit hook and report what Python did beside reading them.

    python -m tests.hostile.watch < JOB > REPORT

A job is JSON: `given`, the folder of all files; `writable`, the folder that targets go to; `model`
and `config`, sound files; `warm` and `cases`, lists of a kind and a path. It is a process of its
own, because a hook cannot be removed. What qconfig imports and compiles by itself it does in the
warm-up: what happens afterwards is caused by data.
"""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from qconfig import load_checkpoint, load_config
from qconfig.cli.main import cli
from qconfig.errors import QconfigError

RUNNER = CliRunner()
NEVER = (
    "exec",
    "compile",
    "socket.",
    "subprocess.",
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.fork",
    "os.spawn",
    "os.startfile",
    "os.kill",
    "os.putenv",
    "pty.",
    "ctypes.",
    "code.__new__",
    "function.__new__",
    "pickle.",
    "marshal.",
    "urllib.",
    "webbrowser.",
    "sqlite3.",
    "sys.setprofile",
    "sys.settrace",
    "os.chown",
    "os.link",
    "os.symlink",
    "os.setxattr",
)
"""Events that no reading and no writing of a checkpoint has a use for."""
SAID = ("socket.gethostname",)
"""A lock says on which host its process runs; nothing is connected."""
WRITES = (
    "os.mkdir",
    "os.rename",
    "os.remove",
    "os.rmdir",
    "os.chmod",
    "os.utime",
    "os.truncate",
    "shutil.",
    "tempfile.",
)
"""Events whose paths have to lie where targets go."""
READS = ("os.listdir", "os.scandir", "glob.glob", "os.walk", "os.fwalk")
"""Events whose path has to lie below the given folder."""


class Watch:
    """The hook: collects what is suspicious while it is on.

    Args:
        given: the folder that everything read lies in.
        writable: the folder that everything written lies in.
    """

    def __init__(self, given: str, writable: str) -> None:
        self.on = False
        self.events: list[str] = []
        self._given, self._writable = given, writable
        self._places = [os.path.realpath(os.devnull)]

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Take one event of Python."""
        if not self.on:
            return
        self.on = False  # what is done here makes events, too
        try:
            if event in SAID:
                return
            if event == "import" or event.startswith(NEVER) or self._strays(event, arguments):
                self.events.append(f"{event} {arguments!r:.300}")
        finally:
            self.on = True

    def _strays(self, event: str, arguments: tuple[Any, ...]) -> bool:
        if event == "open":
            path, _, flags = arguments
            writes = bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC))
            return not self._inside(path, writable=writes)
        if event.startswith(READS):
            return not self._inside(arguments[0], writable=False)
        if event.startswith(WRITES):
            # Below a folder that is open, names are relative; the folder has been looked at.
            is_below = type(arguments[-1]) is int and arguments[-1] >= 0
            paths = [a for a in arguments if isinstance(a, str | bytes | os.PathLike)]
            return not is_below and not all(self._inside(p, writable=True) for p in paths)
        return False

    def _inside(self, path: Any, *, writable: bool) -> bool:
        if path is None or isinstance(path, int):
            return True
        real = os.path.realpath(os.fsdecode(path))
        folder = self._writable if writable else self._given
        return real == folder or real.startswith(folder + os.sep) or real in self._places


def calls(kind: str, path: str, target: Path, job: dict[str, Any]) -> Iterator[list[str]]:
    """Yield the words of every verb that could read a path."""
    model, config = job["model"], job["config"]
    if kind == "config":
        yield ["validate", path]
        yield ["validate", path, "--json"]
        yield ["explain", path, "layers.0.up"]
        yield ["diff", path, config]
        yield ["upgrade", path, f"{target}-upgrade.json"]
        yield ["convert", path, f"{target}-convert.json", "--to", "torchao"]
        yield ["plan", model, path]
        yield ["quantize", model, f"{target}-quantize", "--config", path]
        return
    yield from ([verb, path] for verb in ("validate", "inspect", "verify"))
    yield ["inspect", path, "--json"]
    yield ["diff", path, path]
    yield ["plan", path, config]
    yield ["quantize", path, f"{target}-quantize", "--config", config]
    yield ["upgrade", path, f"{target}-upgrade", "--report", f"{target}-report.json"]
    yield ["convert", path, f"{target}-convert", "--to", "torchao"]


def look(kind: str, path: str, target: Path, job: dict[str, Any]) -> None:
    """Read a path with every verb and in Python; a bug raises here."""
    for words in calls(kind, path, target, job):
        result = RUNNER.invoke(cli, words)
        if not isinstance(result.exception, SystemExit | None):
            raise result.exception
    with suppress(QconfigError):
        load_config(path) if kind == "config" else load_checkpoint(path)


def watched(job: dict[str, Any]) -> dict[str, Any]:
    """Do a job and return its report."""
    watch, targets = Watch(job["given"], job["writable"]), Path(job["writable"])
    for i, (kind, path) in enumerate(job["warm"]):
        look(kind, path, targets / f"warm-{i}", job)
    sys.addaudithook(watch)
    found: dict[str, Sequence[str]] = {}
    for i, (kind, path) in enumerate(job["cases"]):
        before = set(sys.modules)
        watch.on = True
        try:
            look(kind, path, targets / str(i), job)
        finally:
            watch.on = False
        new = [f"module {name}" for name in set(sys.modules) - before]
        if watch.events or new:
            found[path] = [*watch.events, *new]
            watch.events.clear()
    return {"looked_at": len(job["cases"]), "found": found, "control": control(watch)}


def control(watch: Watch) -> list[str]:
    """Do what is forbidden, and return what the hook says of it."""
    watch.on = True
    for forbidden in (
        "import no_such_module",
        "open(os.__file__).close()",
        "os.listdir('/')",
        "__import__('shutil')",
        "os.system('true')",
        "os.mkdir('/proc/no')",
        "__import__('socket').gethostbyname('localhost')",
        "__import__('ctypes').CDLL('no_such_library')",
        "__import__('subprocess').run(['true'])",
    ):
        with suppress(ImportError, OSError):
            exec(forbidden, {"os": os})  # noqa: S102 - to see that it is noticed
    watch.on = False
    return list(watch.events)


if __name__ == "__main__":
    json.dump(watched(json.load(sys.stdin)), sys.stdout)
