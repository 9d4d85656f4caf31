"""Bring a checkpoint of any earlier version to today's layouts, file to file, bit for bit."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from qconfig.checkpoints.checkpoint import CONFIG_KEY, Checkpoint
from qconfig.checkpoints.config_json import stored_config, with_config
from qconfig.checkpoints.contents import ShardContents
from qconfig.checkpoints.dialects import NATIVE
from qconfig.checkpoints.events import Listener, Progress, joined
from qconfig.checkpoints.guidance import Guidance, StateDictPlace
from qconfig.checkpoints.job import Job
from qconfig.checkpoints.open import open_checkpoint
from qconfig.checkpoints.planned import Planned
from qconfig.checkpoints.report import (
    CheckpointReport,
    TensorReport,
    copied_and_computed,
    history_of,
)
from qconfig.checkpoints.resharding import check_shard_size, in_shards
from qconfig.checkpoints.verify import verify_opened
from qconfig.checkpoints.write import check_contents, write_checkpoint
from qconfig.checkpoints.writer import Writer
from qconfig.codec.safetensors_header import Header
from qconfig.codec.tensor_values import LazyTensor
from qconfig.errors import CheckpointError, QconfigError, UsageError
from qconfig.versioning import Config, Entry, Layout, registry


@frozen
class TensorUpgrade(TensorReport):
    """What happens to one quantized tensor; see `TensorReport`.

    Args:
        target: the layout version that it becomes.
    """

    target: Entry

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for a report."""
        target = {"to_type": self.target.name, "to_version": self.target.version}
        return super().to_dict() | target


@frozen
class UpgradeReport(CheckpointReport):
    """What an upgrade did, or would do; see `CheckpointReport`.

    Args:
        problems: what `verify_checkpoint` finds in what was written.
        resharded: whether tensors lie in other shards than before.
    """

    problems: tuple[QconfigError, ...] = ()
    resharded: bool = False

    @property
    def needed(self) -> bool:
        """Whether anything is older than today's version, in another's form or in other shards."""
        if self.dialect != NATIVE or self.resharded:
            return True
        return self.config_before != self.config_after or any(t.steps for t in self.tensors)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for a report."""
        problems = [p.to_dict() for p in self.problems]
        done = {"needed": self.needed, "resharded": self.resharded, "problems": problems}
        return super().to_dict() | done


def upgrade_checkpoint(
    source: Path | str,
    target: Path | str | None,
    *,
    dry_run: bool = False,
    executor: Executor | None = None,
    progress: Progress | None = None,
    listener: Listener | None = None,
    follow_symlinks: bool = False,
    dialect: str | None = None,
    writer: Writer | str | None = None,
    keep_config: bool = True,
    key: str | None = None,
    strip_prefix: str = "",
    verify: bool | None = None,
    config: Config | None = None,
    missing: Mapping[str, str] | None = None,
    dropped: Sequence[str] = (),
    max_shard_bytes: int | None = None,
    sha256: bool = False,
    max_memory: int | None = None,
) -> UpgradeReport:
    """Write `source` in today's layouts into the new directory `target`; `source` is not touched.

    Tensors whose bytes do not change are copied as byte ranges and never decoded; their names and
    shapes may change. Where nothing is older than today's version, nothing is written, unless a
    size of shards is given that is not theirs.

    Args:
        source: a directory in Hugging Face shape, or one file.
        target: the directory to make; None only for a dry run.
        dry_run: report only; what cannot be written is an error all the same.
        executor: runs one job a shard, in threads or in other processes that see the same files;
            None takes one shard after the other.
        progress: called with the name and the bytes of each stored tensor, and the bytes of all.
        listener: called with every event, see `Event`.
        follow_symlinks: accept shards and other files that are links to files elsewhere.
        dialect: in whose form `source` is written, such as `"torchao"`; None finds it out. Pickles
            are read where `source` is such a file, or `dialect` says so (`"torchao-pickle"`).
        writer: the release that wrote `source`, such as `"torchao==0.13"`, where its files leave
            that open and it matters.
        keep_config: False leaves the quantization config out of config.json, where it is one that
            cannot be read.
        key: the entry of a pickled file that holds the state_dict, such as `"state_dict"`.
        strip_prefix: what is taken off the names in a pickled file, such as `"module."`.
        verify: read every value of `target` in the end and report what is wrong with it, see
            `verify_checkpoint`; None does so for checkpoints of other libraries.
        config: how the model was quantized, for files that do not say it, such as state_dicts of
            Brevitas; it is written beside the tensors.
        missing: what to do about tensors that such files lack: "error", "initialise" or "derive"
            by patterns of names, the first of which decides.
        dropped: patterns of names that may be left out of what is written.
        max_shard_bytes: size at which a new shard begins, see `resharded`; None keeps the shards.
        sha256: also write `SHA256SUMS`, which `verify` and `sha256sum -c` check.
        max_memory: bytes of memory that the work may take, beside what the process has already;
            shards wait for each other if need be. With an executor of processes, for each process.

    Raises:
        QconfigError: of whatever kind; `target` is then absent. After a StorageError, or when the
            process is killed, the same call goes on with the shards that are not finished.
    """
    job = Job("upgrade", joined(listener, progress))
    check_shard_size(max_shard_bytes)
    opened = partial(
        open_checkpoint,
        follow_symlinks=follow_symlinks,
        dialect=dialect,
        writer=Writer.of(writer),
        keep_config=keep_config,
        guidance=Guidance(config, missing or {}, tuple(dropped)),
        place=StateDictPlace(key, strip_prefix),
    )
    checkpoint = job.reading(opened(source))
    config = stored_config(checkpoint)
    layouts = _converted(checkpoint)
    shards = _shards(checkpoint, layouts, max_shard_bytes)
    config_json = with_config(checkpoint.config_json, config)
    is_sized = max_shard_bytes is not None
    report = _report(checkpoint, layouts, shards, config_json, is_sized=is_sized)
    if not report.needed or dry_run:
        if report.needed:
            check_contents(shards, checkpoint.directory)
        job.done()
        return report
    if target is None:
        raise UsageError("no target", hint="name the directory to write")
    write_checkpoint(
        target,
        shards,
        config_json,
        origin=checkpoint,
        follow_symlinks=follow_symlinks,
        executor=executor,
        job=job,
        replan=partial(_replanned, partial(opened, Path(source).absolute()), max_shard_bytes),
        options={"missing": list((missing or {}).items()), "writer": str(writer)},
        sha256=sha256,
        max_memory=max_memory,
    )
    if verify or (verify is None and report.dialect != NATIVE):
        with job.phase(None):
            report = evolve(report, problems=_problems(target, executor, listener, max_memory))
    job.done()
    return report


def _replanned(opened: Callable[[], Checkpoint], max_shard_bytes: int | None) -> Planned:
    checkpoint = opened()
    return Planned(_shards(checkpoint, _converted(checkpoint), max_shard_bytes), checkpoint)


def _problems(
    target: Path | str,
    executor: Executor | None,
    listener: Listener | None,
    max_memory: int | None,
) -> tuple[QconfigError, ...]:
    job = Job("verify", listener)
    reopen = partial(open_checkpoint, Path(target).absolute())
    try:
        written = open_checkpoint(target)
    except QconfigError as error:
        return tuple(error.problems)
    found = verify_opened(written, job, executor=executor, reopen=reopen, max_memory=max_memory)
    return found.problems


def _converted(checkpoint: Checkpoint) -> dict[str, Layout]:
    converted = {}
    for fqn, layout in checkpoint.layouts.items():
        try:
            converted[fqn] = registry.convert(layout)
        except QconfigError as error:
            raise error.at(file=checkpoint.place, fqn=fqn) from None
    return converted


def _shards(
    checkpoint: Checkpoint, layouts: dict[str, Layout], max_shard_bytes: int | None
) -> Mapping[str, ShardContents]:
    shards = {n: ShardContents(metadata=metadata) for n, metadata in checkpoint.metadata.items()}
    for name, tensor in checkpoint.plain.items():
        shards[checkpoint.shard_of[name]].plain[name] = tensor
    for fqn, layout in layouts.items():
        shards[checkpoint.shard_of[fqn]].layouts[fqn] = layout
    for alias, name in checkpoint.ties.items():
        shards[checkpoint.shard_of[name]].ties[alias] = name
    return in_shards(shards, max_shard_bytes, place=checkpoint.place)


def _report(
    checkpoint: Checkpoint,
    layouts: dict[str, Layout],
    shards: Mapping[str, ShardContents],
    config_json: dict[str, Any],
    *,
    is_sized: bool,
) -> UpgradeReport:
    try:
        stored = {name: contents.tensors() for name, contents in shards.items()}
    except CheckpointError as error:
        raise error.at(file=checkpoint.place) from None
    return UpgradeReport(
        checkpoint.dialect,
        tuple(
            TensorUpgrade(**history_of(checkpoint, fqn), target=registry.entry_of(type(layout)))
            for fqn, layout in layouts.items()
        ),
        checkpoint.left_out or checkpoint.quantization_config,
        config_json.get(CONFIG_KEY),
        *copied_and_computed(t for tensors in stored.values() for t in tensors.values()),
        checkpoint.notes,
        resharded=is_sized and _is_resharded(checkpoint, stored),
    )


def _is_resharded(checkpoint: Checkpoint, stored: Mapping[str, Mapping[str, LazyTensor]]) -> bool:
    """Return whether what is already in today's form would lie in other shards than it does."""
    files = {name: file for name, file in checkpoint.shards.items() if isinstance(file, Header)}
    before = {name: set(file.tensors) for name, file in files.items()}
    return before != {name: set(tensors) for name, tensors in stored.items()}
