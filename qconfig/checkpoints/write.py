"""Write a checkpoint: shards first, then the index, config.json last, and only then the name."""

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from qconfig.checkpoints.carried_files import other_files
from qconfig.checkpoints.checkpoint import CONFIG_FILE, INDEX_FILE, SINGLE_FILE, Checkpoint
from qconfig.checkpoints.contents import ShardContents
from qconfig.checkpoints.events import Phase
from qconfig.checkpoints.gathering import gather
from qconfig.checkpoints.identity import run_head, run_identity
from qconfig.checkpoints.job import Job
from qconfig.checkpoints.memory import budget_of
from qconfig.checkpoints.planned import Planned
from qconfig.checkpoints.shard_task import (
    Run,
    RunAgain,
    ShardResult,
    ShardTask,
)
from qconfig.checkpoints.shared import Shared, this_process
from qconfig.codec import strict_json
from qconfig.codec.digests import Digests
from qconfig.codec.index_file import folded, index_document
from qconfig.codec.new_files import copy_file, storage_errors, sync_directory, write_file
from qconfig.codec.regular_files import check_unchanged
from qconfig.codec.safetensors_writer import check_safetensors
from qconfig.codec.sha256_sums import SUMS_FILE, sums_text
from qconfig.codec.tensor_values import LazyTensor
from qconfig.codec.work_directory import WorkDirectory, work_directory
from qconfig.errors import CheckpointError, raise_problems

_COUNTED = frozenset({"total_size", "total_parameters"})
"""What an index says that follows from the tensors."""


def write_checkpoint(
    target: Path | str,
    shards: Mapping[str, ShardContents],
    config_json: Mapping[str, Any],
    *,
    origin: Checkpoint | None = None,
    follow_symlinks: bool = False,
    executor: Executor | None = None,
    job: Job | None = None,
    digests: bool = True,
    replan: Callable[[], Planned] | None = None,
    options: Mapping[str, Any] | None = None,
    sha256: bool = False,
    max_memory: int | None = None,
) -> int:
    """Write a new checkpoint directory, whole or not at all, and return the bytes of its tensors.

    Args:
        target: the directory to make.
        shards: contents by file name.
        config_json: content of config.json.
        origin: the checkpoint that this one is made from. It is not touched, and its shards must
            not change meanwhile; its other files and what else its index says are copied along.
        follow_symlinks: copy files of `origin` that are links to files elsewhere.
        executor: runs one job a shard, the largest first; None writes one after the other.
        job: is told of the start, and of each stored tensor and shard.
        digests: put a digest of each tensor into the record of its shard, see `Planned`.
        replan: gives the same shards and origin again, in another process or after a run that was
            interrupted. Without it an interrupted run cannot be resumed, and an executor has to
            run its jobs in threads.
        options: what the values in the shards depend on besides, as plain data.
        sha256: also write `SHA256SUMS`, a list of the SHA-256 of each shard.
        max_memory: bytes that the work may take, beside what the process has before; in other
            processes each. See `qconfig.checkpoints.memory`.

    Raises:
        CheckpointError, ContainerError, LayoutError, StorageError, UsageError: there is no target.
    """
    directory = origin.directory if origin and origin.is_directory else None
    carried = other_files(origin, follow_symlinks=follow_symlinks) if origin else []
    planned = Planned(shards, origin, digests=digests)
    if origin:
        written = {*planned.shards, INDEX_FILE, CONFIG_FILE, *([SUMS_FILE] if sha256 else [])}
        _check_carried(carried, origin.directory, written)
    run = Run.of(planned, Path(target))
    run.job = job or run.job
    run.budget = budget_of(max_memory, run.stored, Path(target))
    for name, tensors in run.stored.items():
        check_safetensors(Path(target) / name, tensors, planned.metadata[name])
    size = sum(planned.sizes.values())
    config_text = strict_json.dumps(dict(config_json)).encode()
    head = None
    if replan is not None:
        told = {"sha256": sha256, **(options or {})}
        identity = run_identity(planned, carried, config_text, told)
        head = run_head(run.job.name, planned, identity)
    with work_directory(target, source=directory, head=head) as work:
        run.job.start(size)
        if work.is_placed:
            return size
        home = Path(directory or target)
        again = replan and RunAgain(replan, planned.identity, home, max_memory)
        sums = _write_shards(run, work, home, again, executor, sha256=sha256)
        run.job.switch(Phase.WRITE)
        if origin:
            for source in origin.shards.values():
                check_unchanged(source)
        with storage_errors(Path(target)):
            sync_directory(work.content)
        if origin:
            for path in carried:
                copy_file(path, work.content / path.relative_to(origin.directory))
        if sha256:
            write_file(work.content / SUMS_FILE, sums_text(sums))
        if list(planned.shards) != [SINGLE_FILE] or _says_more(origin):
            document = _index(run.stored, size, origin)
            write_file(work.content / INDEX_FILE, strict_json.dumps(document).encode())
        write_file(work.content / CONFIG_FILE, config_text)
        run.job.switch(Phase.FLUSH)
    run.job.switch(Phase.OTHER)
    return size


def _check_carried(carried: list[Path], directory: Path, written: set[str]) -> None:
    taken = {folded(name) for name in written}
    problems = [
        CheckpointError(
            "a file of the source has the name of one that is written",
            file=path,
            expected="only files that are no part of another checkpoint",
            hint="move it away, or name one file of the source by its path",
        )
        for path in carried
        if folded(path.relative_to(directory).as_posix()) in taken
    ]
    raise_problems(problems, file=directory)


def check_contents(shards: Mapping[str, ShardContents], directory: Path) -> None:
    """Check everything that would keep `write_checkpoint` from writing these contents.

    Args:
        shards: contents by file name.
        directory: what errors name.

    Raises:
        CheckpointError, ContainerError: names that contradict each other or that a reader would
            refuse, and dtypes that safetensors does not have.
    """
    planned = Planned(shards)
    for name, tensors in planned.stored(directory).items():
        check_safetensors(directory / name, tensors, planned.metadata[name])


def _index(
    stored: Mapping[str, Mapping[str, LazyTensor]], size: int, origin: Checkpoint | None
) -> dict[str, Any]:
    weight_map = {name: shard for shard, tensors in stored.items() for name in sorted(tensors)}
    document = index_document(weight_map, size)
    if origin is None or origin.index is None:
        return document
    document["metadata"] = origin.index.metadata | document["metadata"]
    return origin.index.extra | document


def _says_more(origin: Checkpoint | None) -> bool:
    """Return whether an index says what one file alone would lose."""
    if origin is None or origin.index is None:
        return False
    return bool(origin.index.extra or origin.index.metadata.keys() - _COUNTED)


def _write_shards(
    run: Run,
    work: WorkDirectory,
    home: Path,
    again: RunAgain | None,
    executor: Executor | None,
    *,
    sha256: bool,
) -> dict[str, str]:
    """Write all shards, and return their sums by name where they were asked for."""
    sizes = run.planned.sizes
    shared = Shared(again)
    tasks = [
        ShardTask(shared, name, work.content, work.parts, home, _kept(work, name), sha256)
        for name in run.planned.shards
    ]
    if executor is not None:  # the largest first, so that none of them goes on alone in the end
        tasks.sort(key=lambda task: -sizes[task.name])

    sums: dict[str, str] = {}

    def keep(result: ShardResult) -> None:
        if result.sha256 is not None:
            sums[result.name] = result.sha256
        work.add(result.name, result.facts())

    def tell(result: ShardResult) -> None:
        if result.is_new and result.process == this_process():
            run.job.shard_done(result.name)
        else:
            run.job.shard_counted(result.name, result.size)

    with shared.being(run):
        if executor is not None:
            gather(executor, tasks, run.job, keep=keep, tell=tell)
            return sums
        for task in tasks:
            result = task()
            keep(result)
            tell(result)
    return sums


def _kept(work: WorkDirectory, name: str) -> Digests | None:
    facts = work.finished.get(name)
    return None if facts is None else ShardResult.digests_of(facts)
