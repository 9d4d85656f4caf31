"""Tasks of a call given to an executor, and their results taken as they come."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, as_completed, wait
from typing import TypeVar

from qconfig.checkpoints.job import Job, Stopped
from qconfig.errors import QconfigError, StorageError, raise_problems
from qconfig.limits import with_limits

R = TypeVar("R")


def gather(
    executor: Executor,
    tasks: Iterable[Callable[[], R]],
    job: Job,
    *,
    keep: Callable[[R], None],
    tell: Callable[[R], None],
) -> None:
    """Run tasks and hand on their results as they come.

    After the first failure those that have not begun are cancelled. Threads that share `job` end
    with their next tensor; other processes end their task. They are waited for, unless the executor
    says that a task is cancelled which goes on elsewhere; what is finished all the same is kept.

    Args:
        executor: of threads, or of other processes if the tasks can be pickled.
        tasks: they run with the `Limits` of here.
        job: is stopped after a failure.
        keep: is given each result first.
        tell: is given it then; what this raises is a failure, too.

    Raises:
        StorageError: a worker has ended before its task.
        BaseException: of the tasks; several QconfigErrors together.
    """
    futures: dict[Future[R], None] = {}  # in the order of the tasks
    failures: list[BaseException] = []
    try:
        for task in tasks:
            futures[_submitted(executor, with_limits(task))] = None
        with job.phase(None):
            for future in as_completed(list(futures)):
                result = _result_of(future)
                keep(result)
                tell(result)
                del futures[future]
    except BaseException as error:  # noqa: BLE001 - raised below, after what is finished
        failures.append(error)
        job.stop()
        for future in futures:
            future.cancel()
        wait(futures)
        failures += _rest(futures, keep)
    _raise([failure for failure in failures if not isinstance(failure, Stopped)])


def _rest(futures: Iterable[Future[R]], keep: Callable[[R], None]) -> Iterator[BaseException]:
    """Keep what has been finished after the first failure, and yield the other failures."""
    for future in futures:
        if future.cancelled():
            continue
        error = future.exception()
        if error is not None:
            yield error
        else:
            keep(future.result())


def _result_of(future: Future[R]) -> R:
    if future.cancelled():  # not by us, so far
        raise _lost()
    return future.result()


def _submitted(executor: Executor, task: Callable[[], R]) -> Future[R]:
    try:
        return executor.submit(task)
    except BrokenExecutor:
        raise
    except RuntimeError as error:  # so say all executors that are closed
        raise StorageError(
            "the executor takes no tasks",
            found=str(error),
            expected="an executor that is open until the call returns",
        ) from error


def _raise(failures: list[BaseException]) -> None:
    # Several processes may meet the same problem, each with an error of its own.
    problems: dict[str, QconfigError] = {}
    for failure in failures:
        if isinstance(failure, BrokenExecutor):
            raise _lost() from failure
        if not isinstance(failure, QconfigError):
            raise failure
        problems.update({str(p): p for p in failure.problems if str(p) not in problems})
    raise_problems(list(problems.values()))


def _lost() -> StorageError:
    return StorageError(
        "a worker has ended before its task",
        hint="it may have run out of memory or been stopped, or its cluster has ended; try fewer "
        "workers",
    )
