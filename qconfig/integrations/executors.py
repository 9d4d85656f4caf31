"""Executors by their descriptions: threads, processes, or the workers of a Dask cluster."""

import multiprocessing
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import (
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)
from contextlib import contextmanager
from typing import Any, TypeVar

from qconfig.errors import StorageError, UsageError

T = TypeVar("T")
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
    if kind == "threads":
        pool = ThreadPoolExecutor(count, thread_name_prefix="qconfig")
    else:
        # A forked process would have the locks of threads that it does not have.
        context = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(count, mp_context=context, initializer=_leave_signals)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _leave_signals() -> None:
    """Let Ctrl-C end the process that waits, and that one end this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


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
