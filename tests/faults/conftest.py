"""What the tests under faults share: processes that run what fails, and own file systems."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import local
from typing import Any

import pytest

from tests.repository.sources import ROOT

if not sys.platform.startswith("linux"):  # descriptors are looked up in /proc
    collect_ignore_glob = ["test_*.py"]

Ask = Callable[..., Any]


class Server:
    """A process that runs what is to fail, see `tests.faults.server`."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.server"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, what: str, **arguments: Any) -> Any:
        """Return the answer to a request."""
        requests, replies = self._process.stdin, self._process.stdout
        requests.write(json.dumps({"do": what, **arguments}, default=str) + "\n")
        requests.flush()
        line = replies.readline()
        assert line, "the server has ended"
        answer = json.loads(line)
        if isinstance(answer, dict) and "failed" in answer:
            pytest.fail(answer["failed"])
        return answer

    def close(self) -> None:
        """End the process."""
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


@pytest.fixture(scope="session")
def ask() -> Iterator[Ask]:
    """Return what asks a server for something."""
    server = Server()
    yield server.ask
    server.close()


@pytest.fixture(scope="session")
def sweeps(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[Any]]]:
    """Ask for what all chosen tests want to know, in as many processes as there are processors."""
    servers: list[Server] = []
    own = local()

    def answer(what: str, **arguments: Any) -> Any:
        if not hasattr(own, "server"):
            own.server = Server()
            servers.append(own.server)
        return own.server.ask(what, home=tmp_path_factory.mktemp("sweep"), **arguments)

    with ThreadPoolExecutor(min(os.cpu_count() or 1, 4)) as pool:
        yield {
            str(asked): pool.submit(answer, **asked)
            for item in request.session.items
            if isinstance(item, pytest.Function)
            and (asked := item.callspec.params.get("asked") if hasattr(item, "callspec") else None)
        }
        pool.shutdown(cancel_futures=True)
    for server in servers:
        server.close()


@pytest.fixture
def reply(asked: dict[str, Any], sweeps: dict[str, Future[Any]]) -> Any:
    """Return the answer to what a test asks."""
    return sweeps[str(asked)].result()


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Return what mounts an empty file system in memory, of some size, and makes it read-only."""
    places: list[Path] = []

    def mount(options: str, place: Path | None = None) -> Path:
        change = place is not None
        place = place or tmp_path / f"disk{len(places)}"
        place.mkdir(exist_ok=True)
        options = f"remount,{options}" if change else options
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            pytest.skip("there is no command to mount a file system")
        if done.returncode:
            pytest.skip(f"no file system may be mounted here: {done.stderr.strip()}")
        if not change:
            places.append(place)
        return place

    yield mount
    for place in places:
        subprocess.run(["umount", str(place)], check=True)
