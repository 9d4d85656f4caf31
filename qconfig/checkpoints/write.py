"""Write a checkpoint: shards first, then the index, config.json last, and only then the name."""

from collections.abc import Mapping
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from qconfig.checkpoints.carried_files import other_files
from qconfig.checkpoints.checkpoint import CONFIG_FILE, INDEX_FILE, SINGLE_FILE, Checkpoint
from qconfig.checkpoints.contents import ShardContents, total_bytes
from qconfig.checkpoints.events import Phase
from qconfig.checkpoints.job import Job
from qconfig.checkpoints.parts import surplus, wrong_ties
from qconfig.codec import strict_json
from qconfig.codec.digests import known_digests
from qconfig.codec.index_file import index_document
from qconfig.codec.new_directory import copy_file, new_directory, write_file
from qconfig.codec.regular_files import check_unchanged
from qconfig.codec.safetensors_header import Header
from qconfig.codec.safetensors_writer import Metadata, check_safetensors, write_safetensors
from qconfig.codec.tensor_values import ByteRange, LazyTensor
from qconfig.errors import CheckpointError, QconfigError, raise_problems


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
) -> int:
    """Write a new checkpoint directory, whole or not at all, and return the bytes of its tensors.

    Args:
        target: the directory to make.
        shards: contents by file name.
        config_json: content of config.json.
        origin: the checkpoint that this one is made from. It is not touched, and its shards must
            not change meanwhile; its other files and what else its index says are copied along.
        follow_symlinks: copy files of `origin` that are links to files elsewhere.
        executor: runs one job a shard; None writes one shard after the other.
        job: is told of the start, and of each stored tensor and shard.
        digests: put a digest of each tensor into the record of its shard. Those of `origin` are
            kept where its bytes are copied, so that what was damaged before stays known as such.

    Raises:
        CheckpointError, ContainerError, LayoutError, StorageError, UsageError: nothing is left.
    """
    directory = origin.directory if origin and origin.is_directory else None
    carried = other_files(origin, follow_symlinks=follow_symlinks) if origin else []
    shards = _filled(shards)
    if origin:
        _check_carried(carried, origin.directory, {*shards, INDEX_FILE, CONFIG_FILE})
    stored = _stored(shards, Path(target))
    size = total_bytes(shards)
    job = job or Job("write", None)
    with new_directory(target, source=directory) as work:
        job.start(size)
        home = Path(directory or target)
        known = _known(origin) if digests and origin else {}
        described = _described(shards, digests=digests)
        _write_shards(work, described, stored, known, home, executor=executor, job=job)
        job.switch(Phase.WRITE)
        if origin:
            for source in origin.shards.values():
                check_unchanged(source)
            for path in carried:
                copy_file(path, work / path.relative_to(origin.directory))
        if list(shards) != [SINGLE_FILE]:
            document = _index(stored, size, origin)
            write_file(work / INDEX_FILE, strict_json.dumps(document).encode())
        write_file(work / CONFIG_FILE, strict_json.dumps(dict(config_json)).encode())
        job.switch(Phase.FLUSH)
    job.switch(Phase.OTHER)
    return size


def _check_carried(carried: list[Path], directory: Path, written: set[str]) -> None:
    problems = [
        CheckpointError(
            "a file of the source has the name of one that is written",
            file=path,
            expected="only files that are no part of another checkpoint",
            hint="move it away, or name one file of the source by its path",
        )
        for path in carried
        if path.relative_to(directory).as_posix() in written
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
    shards = _filled(shards)
    for name, tensors in _stored(shards, directory).items():
        check_safetensors(directory / name, tensors, shards[name].digested_metadata())


def _described(shards: Mapping[str, ShardContents], *, digests: bool) -> dict[str, Metadata]:
    return {n: x.digested_metadata() if digests else x.header_metadata() for n, x in shards.items()}


def _known(origin: Checkpoint) -> Mapping[ByteRange, str]:
    files = ((origin.shards[name], digests) for name, digests in origin.digests.items())
    return known_digests((file, digests) for file, digests in files if isinstance(file, Header))


def _stored(
    shards: Mapping[str, ShardContents], directory: Path
) -> dict[str, dict[str, LazyTensor]]:
    """Return the tensors of each file by the names under which they are stored, checked."""
    try:
        stored = {name: contents.tensors() for name, contents in shards.items()}
    except CheckpointError as error:
        raise error.at(file=directory) from None
    layouts = {f: x for contents in shards.values() for f, x in contents.layouts.items()}
    plain = [name for contents in shards.values() for name in contents.plain]
    ties = {a: n for contents in shards.values() for a, n in contents.ties.items()}
    names = {name for tensors in stored.values() for name in tensors}
    problems = [*surplus(plain, layouts), *wrong_ties(ties, set(plain), layouts, names)]
    raise_problems(problems, file=directory)
    return stored


def _index(
    stored: Mapping[str, Mapping[str, LazyTensor]], size: int, origin: Checkpoint | None
) -> dict[str, Any]:
    weight_map = {name: shard for shard, tensors in stored.items() for name in sorted(tensors)}
    document = index_document(weight_map, size)
    if origin is None or origin.index is None:
        return document
    document["metadata"] = origin.index.metadata | document["metadata"]
    return origin.index.extra | document


def _filled(shards: Mapping[str, ShardContents]) -> Mapping[str, ShardContents]:
    """Drop shards whose tensors have all gone to others: no index would name them."""
    filled = {name: x for name, x in shards.items() if x.plain or x.layouts}
    return filled or dict(list(shards.items())[:1])


def _write_shards(
    work: Path,
    described: Mapping[str, Metadata],
    stored: Mapping[str, Mapping[str, LazyTensor]],
    known: Mapping[ByteRange, str],
    home: Path,
    *,
    executor: Executor | None,
    job: Job,
) -> None:
    def write(name: str) -> None:
        metadata, tensors = described[name], job.computing(stored[name])
        try:
            with job.shard(name, tensors) as report:
                write_safetensors(work / name, tensors, metadata, known=known, progress=report)
        except QconfigError as error:
            raise error.at(file=home / name) from None

    if executor is None:
        for name in described:
            write(name)
        return
    futures = [executor.submit(write, name) for name in described]
    # The first failure ends the rest: what is written so far is thrown away anyway.
    job.wait_for(futures)
    problems: list[QconfigError] = []
    for future in futures:
        error = None if future.cancelled() else future.exception()
        if isinstance(error, QconfigError):
            problems += [p for p in error.problems if p not in problems]
        elif error is not None:
            raise error
    raise_problems(problems)
