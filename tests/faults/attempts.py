"""A run under a fault, the same run again without one, and what is wrong with the two."""

import gc
import os
import pickle
import shutil
import signal
import threading
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attrs import define, field

from qconfig.errors import QconfigError, StorageError, UsageError
from tests.faults.calls import Call, Calls, Fault, Kind, Stopped
from tests.faults.expectations import (
    finished_shards,
    leftover_of,
    may_leave,
    must_fail,
    must_succeed,
    placed,
    written_shards,
)
from tests.faults.operations import NAMES, OPERATIONS, digest_of


@define
class Outcome:
    """What became of a run.

    Args:
        error: what it raised.
        made: the calls it made; of a process that was killed, they are not known.
        struck: whether the fault was reached.
        killed: whether the process ended by it.
        left_open: descriptors and threads that it left.
    """

    error: BaseException | None = None
    made: list[Call] = field(factory=list)
    struck: bool = False
    killed: bool = False
    left_open: str = ""
    unseen: list[str] = field(factory=list)

    @property
    def is_refusal(self) -> bool:
        """Whether it is our error for a file system that refused, with the name of a file."""
        problems = self.error.problems if isinstance(self.error, QconfigError) else ()
        return any(isinstance(p, StorageError) and p.exit_code == 5 and p.file for p in problems)

    def words(self) -> str:
        """Return it in a few words."""
        if self.killed:
            return "killed"
        if self.error is None:
            return "fine"
        lines = traceback.format_exception(self.error, limit=-2)
        return " ".join("".join(lines).split())


@define
class World:
    """A source, a folder for targets, and what a run without faults makes.

    Args:
        operation: key of `OPERATIONS`.
        home: a folder of its own.
        jobs: threads; 0 for none.
        parents: folders that are missing above the target.
        settings: of every call.
    """

    operation: str
    home: Path
    jobs: int = 0
    parents: str = ""
    settings: dict[str, Any] = field(factory=dict)
    calls: list[Call] = field(factory=list)
    final: str = ""
    before: str = ""

    @classmethod
    def make(cls, operation: str, home: Path, *, jobs: int = 0, parents: str = "") -> "World":
        """Make the source, and run once to see all calls."""
        world = cls(operation, home, jobs=jobs, parents=parents)
        OPERATIONS[operation].make(world.source)
        world.before = digest_of(world.source)
        world.clear()
        outcome = world.run()
        if outcome.error is not None:
            raise outcome.error
        world.calls, world.final = outcome.made, digest_of(world.target)
        return world

    @property
    def source(self) -> Path:
        """What is read."""
        return self.home / "source"

    @property
    def place(self) -> Path:
        """The folder that is empty, but for a neighbour, before a run."""
        return self.home / "place"

    @property
    def target(self) -> Path:
        """What is written."""
        return self.place / self.parents / "target"

    def clear(self) -> None:
        """Remove what earlier runs have left."""
        shutil.rmtree(self.place, ignore_errors=True)
        neighbour = self.place / "target-of-before"
        neighbour.mkdir(parents=True)
        (neighbour / "config.json").write_text("{}", encoding="utf-8")

    def run(self, fault: Fault | None = None, **settings: Any) -> Outcome:
        """Run in this process, with a fault that does not kill."""
        gc.collect(0)
        before = _open_things()
        outcome = Outcome()
        with Calls(self.home, fault) as calls:
            try:
                with self._executor() as executor:
                    run = OPERATIONS[self.operation].run
                    run(self.source, self.target, executor=executor, **self.settings, **settings)
            except Stopped:
                outcome.killed = True
            except (QconfigError, OSError, KeyboardInterrupt, RuntimeError) as error:
                outcome.error = error
        outcome.made, outcome.struck, outcome.unseen = calls.made, calls.struck, calls.unseen
        after = _open_things()
        if after != before:
            outcome.left_open = f"{before} before, {after} after"
        return outcome

    def run_killed(self, fault: Fault) -> Outcome:
        """Run in a process that is killed by the fault."""
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.write(write, pickle.dumps(self.run(fault).error))
            except BaseException as error:  # noqa: BLE001 - the process ends here, whatever it is
                os.write(write, pickle.dumps(RuntimeError(repr(error))))
            finally:
                os._exit(0)
        os.close(write)
        with os.fdopen(read, "rb") as file:
            said = file.read()
        status = os.waitpid(child, 0)[1]
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
            return Outcome(killed=True, struck=True)
        return Outcome(pickle.loads(said))

    def attempt(self, fault: Fault) -> Outcome:
        """Run with a fault of whatever kind."""
        return self.run_killed(fault) if fault.kind.kills else self.run(fault)

    def defects(self, fault: Fault, outcome: Outcome, *, is_first: bool = True) -> Iterator[str]:
        """Yield what is wrong after a run that had a fault.

        Args:
            fault: what failed.
            outcome: of the run.
            is_first: whether the run found nothing of an earlier one, so that its calls are known.
        """
        yield from self._always(outcome)
        there = digest_of(self.target)
        if there not in {"", self.final}:
            yield "the target is neither absent nor complete"
        if outcome.killed:
            return
        if outcome.error is None:
            if not there:
                yield "no error, and no target"
            if is_first and outcome.struck and self._has_to_end(fault):
                yield "the failure was passed over"
        elif not outcome.is_refusal and not self._is_done_already(outcome.error):
            yield f"not an error of ours: {outcome.words()}"
        elif must_succeed(fault.kind):
            yield f"a short count ended the run: {outcome.words()}"
        if is_first and not there and fault.kind is not Kind.DEAD:
            yield from self._kept(fault, outcome)

    def _has_to_end(self, fault: Fault) -> bool:
        rename = placed(self.calls, self.target)
        is_placed = rename is not None and fault.place > rename
        call = self.calls[fault.place - 1]
        return not self.jobs and must_fail(call, fault.kind, is_placed=is_placed)

    def _kept(self, fault: Fault, outcome: Outcome) -> Iterator[str]:
        """Yield what is wrong with a leftover that may be there after an error."""
        if not leftover_of(self.target).exists() or may_leave(self.calls[fault.place - 1]):
            return
        if not OPERATIONS[self.operation].goes_on:
            yield "something is left that nobody can go on with"
        elif not self.jobs and not written_shards(outcome.made[: fault.place - 1], NAMES):
            yield "something is left, though no shard is finished"

    def _always(self, outcome: Outcome) -> Iterator[str]:
        if digest_of(self.source) != self.before:
            yield "the source has changed"
        if outcome.left_open:
            yield f"left open: {outcome.left_open}"
        yield from outcome.unseen
        allowed = {"target-of-before", leftover_of(self.target).name, self.target.name}
        parents = {self.place, *(p for p in self.target.parents if p.is_relative_to(self.place))}
        for folder in parents:
            names = {p.name for p in folder.iterdir()} if folder.exists() else set()
            strange = names - allowed - {p.name for p in parents}
            if strange:
                yield f"left behind: {sorted(strange)}"

    def again(self, done: set[str]) -> Iterator[str]:
        """Run without a fault and yield what is wrong then.

        Args:
            done: shards that may not be written again.
        """
        outcome = self.run()
        yield from self._always(outcome)
        if outcome.error is not None and not self._is_done_already(outcome.error):
            yield f"the second run failed: {outcome.words()}"
        if digest_of(self.target) != self.final:
            yield "the second run does not end as one that nothing disturbed"
        if leftover_of(self.target).exists():
            yield "the second run leaves something behind"
        if OPERATIONS[self.operation].goes_on and (
            twice := written_shards(outcome.made, NAMES) & done
        ):
            yield f"written twice: {sorted(twice)}"

    def _is_done_already(self, error: BaseException) -> bool:
        """Return whether a run was refused because the first had made the target, whole."""
        is_there = isinstance(error, UsageError) and error.message == "the target exists"
        return is_there and digest_of(self.target) == self.final

    def done_at(self, fault: Fault) -> set[str]:
        """Return the shards that are finished when a fault strikes a run without threads."""
        return set() if self.jobs else finished_shards(self.calls[: fault.place - 1], NAMES)

    @contextmanager
    def _executor(self) -> Iterator[ThreadPoolExecutor | None]:
        if not self.jobs:
            yield None
            return
        with ThreadPoolExecutor(self.jobs) as executor:
            yield executor


def _open_things() -> tuple[int, int]:
    return len(list(Path("/proc/self/fd").iterdir())), threading.active_count()
