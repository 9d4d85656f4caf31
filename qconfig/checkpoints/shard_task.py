"""One shard to write: a task for this process, for a thread, or for a process anywhere."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

from attrs import define, field, frozen

from qconfig.checkpoints.events import Phase
from qconfig.checkpoints.job import Job
from qconfig.checkpoints.memory import MemoryBudget, need_of
from qconfig.checkpoints.planned import Planned
from qconfig.checkpoints.shared import Shared, check_same, this_process
from qconfig.codec.digests import Digests, check_bytes, stated_digests
from qconfig.codec.new_files import storage_errors
from qconfig.codec.safetensors_header import read_header
from qconfig.codec.safetensors_writer import Metadata, write_safetensors
from qconfig.codec.sha256_sums import sha256_of
from qconfig.codec.tensor_values import ByteRange, LazyTensor
from qconfig.codec.work_directory import new_part
from qconfig.errors import QconfigError


@frozen
class ShardResult:
    """A shard that is finished and on the disk.

    Args:
        name: of its file.
        digests: of what it holds.
        size: bytes of its tensors.
        is_new: False where an earlier run had finished it.
        process: host and pid of where it was done.
        sha256: of the whole file, where it was asked for.
    """

    name: str
    digests: Digests
    size: int
    is_new: bool
    process: tuple[str, int]
    sha256: str | None = None

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
        budget: of memory.
    """

    planned: Planned
    stored: Mapping[str, Mapping[str, LazyTensor]]
    known: Mapping[ByteRange, str]
    job: Job = field(factory=lambda: Job("write", None))
    budget: MemoryBudget = field(factory=MemoryBudget)

    @classmethod
    def of(cls, planned: Planned, home: Path) -> Self:
        """Return a run that tells nobody, checked. Raises CheckpointError, ContainerError."""
        return cls(planned, planned.stored(home), planned.known)


@frozen
class RunAgain:
    """Makes the run of a call in another process.

    Args:
        replan: plans the call anew.
        identity: of the caller's plan, see `Planned.identity`.
        home: directory that errors name.
        max_memory: bytes that the process may take for it; None for no bound.
    """

    replan: Callable[[], Planned]
    identity: str
    home: Path
    max_memory: int | None = None

    def __call__(self) -> Run:
        """Return the run.

        Raises:
            CheckpointError: this process finds another checkpoint than the caller.
            QconfigError: of whatever kind, where it finds none.
        """
        planned = self.replan()
        check_same(planned.identity, self.identity, self.home)
        run = Run.of(planned, self.home)
        run.budget = MemoryBudget(self.max_memory)
        return run


@frozen
class ShardTask:
    """Writes one shard when it is called.

    Args:
        run: what it shares with the other tasks of its call.
        name: file name of the shard.
        content: directory in which the file is when it is finished.
        parts: directory in which it is made.
        home: directory that errors name.
        kept: digests of the file, where an earlier run has finished it. It is kept if they are
            right.
        sha256: whether to read the file once more in the end, for the SHA-256 of all of it.
    """

    run: Shared[Run]
    name: str
    content: Path
    parts: Path
    home: Path
    kept: Digests | None = None
    sha256: bool = False

    def __call__(self) -> ShardResult:
        """Write the shard and bring it to the disk.

        Raises:
            QconfigError: of whatever kind, see `write_safetensors`.
        """
        try:
            run = self.run.get()
            kept = self.kept and self._checked(self.kept, run.job)
            digests = kept or self._written(run)
            whole = self._sha256(run.job)
        except QconfigError as error:
            raise error.at(file=self.home / self.name) from None
        size = run.planned.sizes[self.name]
        return ShardResult(self.name, digests, size, kept is None, this_process(), whole)

    def _sha256(self, job: Job) -> str | None:
        """Return what the file gives that is on the disk, most of it from the page cache."""
        if not self.sha256:
            return None
        with job.phase(Phase.READ):
            return sha256_of(self.content / self.name)

    def _checked(self, kept: Digests, job: Job) -> Digests | None:
        try:
            check_file(self.content / self.name, kept)
        except QconfigError as error:
            job.begin_again(self.name, error.message)
            return None
        return kept

    def _written(self, run: Run) -> Digests:
        """Write the file elsewhere and put it in its place, so that no other task sees half of it.

        An executor that takes a process for lost, and repeats its task, may be wrong.
        """
        path, part = self.content / self.name, new_part(self.parts)
        metadata = _Noted(run.planned.metadata[self.name])
        tensors = run.job.computing(run.stored[self.name])
        try:
            need = need_of(tensors).size
            with run.budget.taken(need), run.job.shard(self.name, tensors) as report:
                write_safetensors(part, tensors, metadata, known=run.known, progress=report)
                with storage_errors(part):
                    part.replace(path)
        except QconfigError as error:
            for problem in error.problems:
                problem.file = str(path) if problem.file == str(part) else problem.file
            raise
        return metadata.digests


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
