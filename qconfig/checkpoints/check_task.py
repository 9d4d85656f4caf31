"""A part of a checkpoint to read and check: for this process, a thread, or a process anywhere."""

from collections.abc import Callable
from concurrent.futures import Executor

from attrs import frozen

from qconfig.checkpoints.checkpoint import Checkpoint
from qconfig.checkpoints.gathering import gather
from qconfig.checkpoints.job import Job
from qconfig.checkpoints.shared import Shared, check_same, this_process
from qconfig.checkpoints.stored_bytes import Check
from qconfig.errors import QconfigError


@frozen
class CheckAgain:
    """Makes the check of a call in another process.

    Args:
        reopen: opens the checkpoint.
        identity: of what the caller reads, see `Check.identity`.
        follow_symlinks: as the call said.
        max_memory: bytes of memory that each process may take for it.
    """

    reopen: Callable[[], Checkpoint]
    identity: str
    follow_symlinks: bool
    max_memory: int | None = None

    def __call__(self) -> Check:
        """Return the check.

        Raises:
            CheckpointError: this process finds another checkpoint than the caller.
            QconfigError: of whatever kind, where it finds none.
        """
        checkpoint, job = self.reopen(), Job("verify", None)
        check = Check.of(
            checkpoint, job, follow_symlinks=self.follow_symlinks, max_memory=self.max_memory
        )
        check_same(check.identity, self.identity, checkpoint.place)
        return check


@frozen
class BatchResult:
    """What one task has found.

    Args:
        first: number of its first unit.
        last: number of the first one that is not its own.
        problems: everything that is wrong.
        process: host and pid of where it was read.
    """

    first: int
    last: int
    problems: list[QconfigError]
    process: tuple[str, int]


@frozen
class CheckTask:
    """Reads some units when it is called.

    Args:
        check: what it shares with the other tasks of its call.
        first: number of the first unit.
        last: number of the first one that is not its own.
    """

    check: Shared[Check]
    first: int
    last: int

    def __call__(self) -> BatchResult:
        """Return what is wrong with them."""
        problems = self.check.get().read(self.first, self.last)
        return BatchResult(self.first, self.last, problems, this_process())


def read_all(
    check: Check,
    executor: Executor | None,
    reopen: Callable[[], Checkpoint] | None,
    *,
    follow_symlinks: bool,
    max_memory: int | None = None,
) -> list[QconfigError]:
    """Read all units and return a problem for all that is wrong, in the order of the units.

    Args:
        check: what is read.
        executor: takes units together until they are large enough to be worth it.
        reopen: opens the checkpoint in another process; without it the executor has to have
            threads.
        follow_symlinks: as the call said.
        max_memory: as the call said.
    """
    check.job.start(sum(unit.size for unit in check.units))
    if executor is None:
        return check.read(0, len(check.units))
    again = None
    if reopen is not None:
        again = CheckAgain(reopen, check.identity, follow_symlinks, max_memory)
    shared, results = Shared(again), dict[int, list[QconfigError]]()

    def keep(result: BatchResult) -> None:
        results[result.first] = result.problems

    def tell(result: BatchResult) -> None:
        if result.process != this_process():
            for unit in check.units[result.first : result.last]:
                check.tell(unit)

    with shared.being(check):
        tasks = [CheckTask(shared, *batch) for batch in check.batches()]
        gather(executor, tasks, check.job, keep=keep, tell=tell)
    return [problem for first in sorted(results) for problem in results[first]]
