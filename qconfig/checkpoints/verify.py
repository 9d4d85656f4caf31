"""Check a checkpoint against itself: records, index, config, every stored value and digest."""

from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import Any

from attrs import frozen

from qconfig.checkpoints.check_task import read_all
from qconfig.checkpoints.checkpoint import CONFIG_FILE, Checkpoint
from qconfig.checkpoints.config_json import is_foreign, stored_config
from qconfig.checkpoints.contradictions import contradictions
from qconfig.checkpoints.events import Listener
from qconfig.checkpoints.job import Job
from qconfig.checkpoints.open import open_checkpoint
from qconfig.checkpoints.stored_bytes import Check
from qconfig.checkpoints.writer import Writer
from qconfig.errors import QconfigError


@frozen
class Verification:
    """What `verify_checkpoint` found.

    Args:
        tensors: number of quantized tensors that were read.
        problems: everything that is wrong; empty for a sound checkpoint.
        notes: what is odd but harmless.
        digests: number of stored tensors whose bytes were compared with a digest.
        without_digests: the shards that have none, or none that this release can compute.
        sums: number of shards that were compared with their SHA-256 in `SHA256SUMS`.
    """

    tensors: int
    problems: tuple[QconfigError, ...]
    notes: tuple[str, ...]
    digests: int = 0
    without_digests: tuple[str, ...] = ()
    sums: int = 0

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for `--json`."""
        return {
            "ok": self.ok,
            "tensors": self.tensors,
            "problems": [p.to_dict() for p in self.problems],
            "notes": list(self.notes),
            "digests": self.digests,
            "without_digests": list(self.without_digests),
            "sums": self.sums,
        }


def verify_checkpoint(
    path: Path | str,
    *,
    strict: bool = False,
    follow_symlinks: bool = False,
    dialect: str | None = None,
    writer: Writer | str | None = None,
    keep_config: bool = True,
    executor: Executor | None = None,
    listener: Listener | None = None,
) -> Verification:
    """Read a checkpoint whole, one tensor at a time, and return everything that is wrong with it.

    Checked are: headers, index and records against each other; scales (finite, positive) and zero
    points; that the stored config assigns to each tensor the layout that it has, both ways; and
    that headers and tensors are bit for bit what was written, in shards with digests; and whole
    shards against `SHA256SUMS`, where the directory has such a file.

    Args:
        path: a directory in Hugging Face shape, or one file; also of another library.
        strict: do not even open a checkpoint with stray files or tensors missing in the index.
        follow_symlinks: accept shards that are links to files elsewhere.
        dialect: in whose form it is written, see `upgrade_checkpoint`; None finds it out.
        writer: the release that wrote it, such as `"torchao==0.13"`, where that matters.
        keep_config: False leaves the quantization config out, see `open_checkpoint`.
        executor: checks several tensors at a time, in threads or in other processes that see the
            same files; None one after the other.
        listener: called with every event, see `Event`; tensors are those that are quantized, and
            in shards with digests all.

    Raises:
        QconfigError: the checkpoint cannot even be opened.
    """
    job = Job("verify", listener)
    opened = partial(
        open_checkpoint,
        strict=strict,
        follow_symlinks=follow_symlinks,
        dialect=dialect,
        writer=Writer.of(writer),
        keep_config=keep_config,
    )
    return verify_opened(
        opened(path),
        job,
        executor=executor,
        reopen=partial(opened, Path(path).absolute()),
        follow_symlinks=follow_symlinks,
    )


def verify_opened(
    checkpoint: Checkpoint,
    job: Job,
    *,
    executor: Executor | None = None,
    reopen: Callable[[], Checkpoint] | None = None,
    follow_symlinks: bool = False,
    max_memory: int | None = None,
) -> Verification:
    """Read a checkpoint that is open and return everything that is wrong with it.

    Args:
        checkpoint: it is read whole.
        job: is told of each tensor that is read, and of the end.
        executor: checks several tensors at a time.
        reopen: opens the checkpoint again, for an executor of other processes.
        follow_symlinks: also read a list of sums that is a link to a file elsewhere.
        max_memory: bytes of memory for the tensors that are read at a time, for each process; one
            that takes more is read alone.
    """
    checkpoint = job.reading(checkpoint)
    check = Check.of(checkpoint, job, follow_symlinks=follow_symlinks, max_memory=max_memory)
    problems = [
        *check.problems,
        *read_all(check, executor, reopen, follow_symlinks=follow_symlinks, max_memory=max_memory),
        *_against_config(checkpoint),
    ]
    job.done()
    notes = list(checkpoint.notes)
    if is_foreign(checkpoint):
        notes.append(f"quantized by {checkpoint.quant_method!r}, and not checked here")
    return Verification(
        len(checkpoint.layouts),
        tuple(problems),
        tuple(notes),
        check.stated,
        check.unstated,
        check.sums,
    )


def _against_config(checkpoint: Checkpoint) -> list[QconfigError]:
    if is_foreign(checkpoint):
        return []
    file = checkpoint.directory / CONFIG_FILE
    try:
        config = stored_config(checkpoint)
        return [] if config is None else contradictions(checkpoint, config, file)
    except QconfigError as error:
        return [p.at(file=file) for p in error.problems]
