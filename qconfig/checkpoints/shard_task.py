"""One shard to write: a task for this process, for a thread, or for a process anywhere."""

import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any, Self

from attrs import define, field, frozen

from qconfig.checkpoints.job import Job
from qconfig.checkpoints.planned import Planned
from qconfig.codec.digests import Digests, check_bytes, stated_digests
from qconfig.codec.safetensors_header import read_header
from qconfig.codec.safetensors_writer import Metadata, write_safetensors
from qconfig.codec.tensor_values import ByteRange, LazyTensor
from qconfig.errors import CheckpointError, QconfigError

Replan = Callable[[], Planned]
"""Plans a call anew; it can be pickled where an executor has other processes."""


@frozen
class ShardResult:
    """A shard that is finished and on the disk.

    Args:
        name: of its file.
        digests: of what it holds.
        size: bytes of its tensors.
        is_new: False where an earlier run had finished it.
        process: host and pid of where it was done.
    """

    name: str
    digests: Digests
    size: int
    is_new: bool
    process: tuple[str, int]

    def facts(self) -> dict[str, Any]:
        """Return plain data for a journal."""
        return {"size": self.size, "digests": self.digests.to_data()}

    @staticmethod
    def digests_of(facts: Mapping[str, Any]) -> Digests:
        """Return what `facts` says of a file; where it says nothing, what no file has."""
        return Digests.from_data(facts.get("digests")) or Digests.blank(0)


@define
class Run:
    """What the tasks of one call share within a process.

    Args:
        planned: what is written.
        stored: tensors of each shard by name.
        known: digests of byte ranges that are copied.
        job: is told of each tensor and shard.
    """

    planned: Planned
    stored: Mapping[str, Mapping[str, LazyTensor]]
    known: Mapping[ByteRange, str]
    job: Job = field(factory=lambda: Job("write", None))

    @classmethod
    def of(cls, planned: Planned, home: Path) -> Self:
        """Return a run that tells nobody, checked. Raises CheckpointError, ContainerError."""
        return cls(planned, planned.stored(home), planned.known)


_runs: dict[str, Run] = {}
_replanning = Lock()


@contextmanager
def shared(token: str, run: Run) -> Iterator[None]:
    """Let the tasks of `token` that run in this process find what they share."""
    _runs[_here(token)] = run
    try:
        yield
    finally:
        del _runs[_here(token)]


@frozen
class ShardTask:
    """Writes one shard when it is called.

    Args:
        token: names the call within all processes.
        name: file name of the shard.
        content: directory in which the file is made.
        home: directory that errors name.
        replan: for processes that do not share the call's plan.
        identity: of the plan, see `Planned.identity`.
        kept: digests of the file, where an earlier run has finished it. It is kept if they are
            right.
    """

    token: str
    name: str
    content: Path
    home: Path
    replan: Replan | None = None
    identity: str = ""
    kept: Digests | None = None

    def __call__(self) -> ShardResult:
        """Write the shard and bring it to the disk.

        Raises:
            CheckpointError: in a process that finds another checkpoint than the call.
            QconfigError: of whatever kind, see `write_safetensors`.
        """
        try:
            return self._finished(self._run())
        except QconfigError as error:
            raise error.at(file=self.home / self.name) from None

    def _finished(self, run: Run) -> ShardResult:
        tensors = run.stored[self.name]
        size = run.planned.sizes[self.name]
        path, kept = self.content / self.name, self.kept
        process = this_process()
        if kept is not None:
            try:
                check_file(path, kept)
            except QconfigError as error:
                path.unlink(missing_ok=True)
                run.job.begin_again(self.name, error.message)
            else:
                return ShardResult(self.name, kept, size, is_new=False, process=process)
        metadata = _Noted(run.planned.metadata[self.name])
        computing = run.job.computing(tensors)
        with run.job.shard(self.name, computing) as report:
            write_safetensors(path, computing, metadata, known=run.known, progress=report)
        return ShardResult(self.name, metadata.digests, size, is_new=True, process=process)

    def _run(self) -> Run:
        run = _runs.get(_here(self.token))
        if run is not None:
            return run
        if self.replan is None:
            raise CheckpointError(
                "what is written lies in the memory of one process",
                expected="an executor of threads",
            )
        with _replanning:
            return _runs.get(_here(self.token)) or self._planned_anew(self.replan)

    def _planned_anew(self, replan: Replan) -> Run:
        planned = replan()
        if planned.identity != self.identity:
            raise CheckpointError(
                "another process finds another checkpoint",
                found=f"a plan of digest {planned.identity}",
                expected=self.identity,
                hint="let all processes see the same files, with the same release of qconfig",
            )
        # One call at a time has its plan here: those of earlier ones go.
        _runs.clear()
        run = _runs[_here(self.token)] = Run.of(planned, self.home)
        return run


def this_process() -> tuple[str, int]:
    """Return host and pid."""
    return socket.gethostname(), os.getpid()


def check_file(path: Path, digests: Digests) -> None:
    """Check that a file is whole and that every bit of it is what was written.

    Raises:
        ContainerError, StorageError: it is not, or cannot be read.
    """
    header = read_header(path)
    for name, stated in stated_digests(header, digests).items():
        check_bytes(name, header.byte_range(name), stated)


@define
class _Noted:
    """Gives header metadata and keeps the digests that it was made of."""

    metadata: Metadata
    digests: Digests = field(factory=lambda: Digests.blank(0))

    def __call__(self, digests: Digests) -> Mapping[str, str]:
        self.digests = digests
        return self.metadata(digests) if callable(self.metadata) else self.metadata


def _here(token: str) -> str:
    """Return the key of a run in this process: a forked one has the table, but not the job."""
    return f"{os.getpid()} {token}"
