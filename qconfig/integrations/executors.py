"""Executors by their descriptions: threads, processes, or the workers of a Dask cluster."""

import multiprocessing
import os
import re
import signal
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import (
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)
from contextlib import contextmanager
from multiprocessing.connection import wait
from threading import Thread
from typing import Any, TypeVar

from qconfig.errors import StorageError, UsageError

T = TypeVar("T")
_ADDRESS = re.compile(r"(?:[a-z]+://)?(?P<host>[^/\s]+):(?P<port>\d{1,5})/?")
_EXPECTED = "threads=N, processes=N or dask=ADDRESS, such as dask=tcp://10.0.0.1:8786"


@contextmanager
def open_executor(description: str) -> Iterator[Executor | None]:
    """Yield an executor; at the end it is closed, and what it has not begun is dropped.

    `threads=4` and `processes=4` work on this machine. `dask=ADDRESS` is the scheduler of a Dask
    cluster, whose workers have to see the same files under the same names; it needs the extra
    `distributed`.

    Args:
        description: the kind of executor, and how many workers or where. One thread is none.

    Raises:
        UsageError: a description that nobody knows, or the extra is not installed.
        StorageError: the cluster cannot be reached.
    """
    kind, _, value = description.partition("=")
    if kind == "dask" and value:
        with _dask(value) as executor:
            yield executor
        return
    count = int(value) if value.isascii() and value.isdigit() and len(value) < 5 else 0
    if kind not in ("threads", "processes") or count < 1:
        raise UsageError("not an executor", found=description, expected=_EXPECTED)
    if kind == "threads" and count == 1:
        yield None
        return
    with _pool(kind, count) as pool:
        yield pool


@contextmanager
def _pool(kind: str, count: int) -> Iterator[Executor]:
    pool: Executor
    others = multiprocessing.active_children()
    if kind == "threads":
        pool = ThreadPoolExecutor(count, thread_name_prefix="qconfig")
    else:
        # A forked process would have the locks of threads that it does not have.
        context = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(count, mp_context=context, initializer=_follow_parent)
    try:
        yield pool
    finally:
        try:
            pool.shutdown(cancel_futures=True)
        except BaseException:  # Ctrl-C again: nobody waits any more
            for process in multiprocessing.active_children():
                if process not in others:
                    process.kill()
            raise


def _follow_parent() -> None:
    """Let Ctrl-C end the process that waits, and its end be that of this one, however it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)


@contextmanager
def _dask(address: str) -> Iterator[Executor]:
    try:
        import distributed
        from distributed.scheduler import KilledWorker
    except ImportError as error:
        raise UsageError(
            "Dask is not installed",
            found=f"dask={address}",
            hint="pip install 'qconfig[distributed]'",
        ) from error
    _check_reachable(address)
    try:
        connect: Any = distributed.Client
        client = connect(address, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:  # TimeoutError is an OSError
        raise StorageError(
            "the Dask scheduler cannot be reached", found=address, hint=str(error) or None
        ) from error
    try:
        yield _DaskExecutor(client, KilledWorker)
    finally:
        client.close()


def _check_reachable(address: str) -> None:
    """Check that somebody listens: Dask's own client leaves threads behind if nobody does."""
    match = _ADDRESS.fullmatch(address)
    if match is None:
        raise UsageError(
            "not the address of a Dask scheduler", found=address, expected="tcp://HOST:PORT"
        )
    try:
        socket.create_connection((match["host"].strip("[]"), int(match["port"])), 10).close()
    except (OSError, OverflowError) as error:
        raise StorageError(
            "the Dask scheduler cannot be reached", found=address, hint=str(error)
        ) from error


class _DaskExecutor(Executor):
    """Dask's executor, for which a lost worker is what it is for all executors."""

    def __init__(self, client: Any, killed: type[Exception]) -> None:
        self._executor: Executor = client.get_executor(pure=False)
        self._killed = killed

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Let a worker of the cluster call a function."""
        inner = self._executor.submit(fn, *args, **kwargs)
        outer: Future[T] = Future()

        def finish(done: Future[T]) -> None:
            if done.cancelled():
                outer.cancel()
                outer.set_running_or_notify_cancel()
                return
            error = done.exception()
            if not outer.set_running_or_notify_cancel():
                return
            if isinstance(error, self._killed):
                outer.set_exception(BrokenExecutor(str(error)))
            elif error is not None:
                outer.set_exception(error)
            else:
                outer.set_result(done.result())

        outer.add_done_callback(lambda future: future.cancelled() and inner.cancel())
        inner.add_done_callback(finish)
        return outer
