"""Tasks of a call given to an executor, and their results taken as they come."""

from collections.abc import Callable, Iterable
from concurrent.futures import BrokenExecutor, Executor, Future, as_completed, wait
from typing import TypeVar

from qconfig.checkpoints.job import Job
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
    futures: list[Future[R]] = []
    failures: list[BaseException] = []
    waiting: set[Future[R]] = set()

    def stop(error: BaseException) -> None:
        failures.append(error)
        job.stop(error)
        for future in futures:
            future.cancel()

    try:
        futures += (executor.submit(with_limits(task)) for task in tasks)
        waiting.update(futures)
        with job.phase(None):
            for future in as_completed(futures):
                waiting.discard(future)
                if future.cancelled():
                    if not failures:  # not by us
                        stop(_lost())
                elif (error := future.exception()) is not None:
                    stop(error)
                else:
                    keep(future.result())
                    if not failures:
                        tell(future.result())
    except BaseException as error:  # noqa: BLE001 - raised below, after what is finished
        stop(error)
        failures.insert(0, failures.pop())
        wait(futures)
        for future in waiting:
            if not future.cancelled() and future.exception() is None:
                keep(future.result())
    _raise(failures)


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
        hint="it may have run out of memory, or been stopped; try fewer workers",
    )
