"""Bring a checkpoint of any earlier version to today's layouts, file to file, bit for bit."""

from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen

from qconfig.checkpoints.checkpoint import CONFIG_KEY, Checkpoint
from qconfig.checkpoints.config_json import stored_config, with_config
from qconfig.checkpoints.contents import ShardContents
from qconfig.checkpoints.dialects import NATIVE
from qconfig.checkpoints.open import open_checkpoint
from qconfig.checkpoints.origin import Origin
from qconfig.checkpoints.verify import verify_checkpoint
from qconfig.checkpoints.write import Progress, check_contents, write_checkpoint
from qconfig.checkpoints.writer import Writer
from qconfig.codec.layout_values import counted
from qconfig.codec.tensor_values import nbytes
from qconfig.errors import CheckpointError, QconfigError, UsageError
from qconfig.versioning import Entry, Layout, Step, registry


@frozen
class TensorUpgrade:
    """What happens to one quantized tensor.

    Args:
        fqn: its name.
        source: the layout version that it was read as.
        target: the layout version that it becomes.
        steps: the steps between, those included that reading took.
        origin: what it was in the checkpoint of another library, or None.
    """

    fqn: str
    source: Entry
    target: Entry
    steps: tuple[Step, ...]
    origin: Origin | None = None

    @property
    def lossless(self) -> bool:
        """Whether every step carries everything, and reading did."""
        changes = self.origin.changes if self.origin is not None else ()
        return not changes and all(step.lossless for step in self.steps)

    @property
    def exact(self) -> bool:
        """Whether values and products are the writer's, and nothing about them had to be taken."""
        return self.origin is None or not (self.origin.changes or self.origin.ambiguities)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for a report."""
        return {
            "fqn": self.fqn,
            "type": self.source.name,
            "from_version": self.source.version,
            "to_type": self.target.name,
            "to_version": self.target.version,
            "origin": None if self.origin is None else self.origin.to_dict(),
            "steps": [step.doc for step in self.steps],
            "drops": [step.drops for step in self.steps if step.drops is not None],
            "lossless": self.lossless,
            "exact": self.exact,
        }


@frozen
class UpgradeReport:
    """What an upgrade did, or would do.

    Args:
        tensors: one entry per quantized tensor.
        config_before: the quantization config as it was written, or None.
        config_after: the same in its current version, or None.
        copied_bytes: bytes of tensors that are copied as they are.
        computed_bytes: bytes of tensors that a step has to compute.
        notes: what is odd about the checkpoint but harmless.
        dialect: in whose form the checkpoint was written.
        problems: what `verify_checkpoint` finds in what was written.
    """

    tensors: tuple[TensorUpgrade, ...] = field(repr=counted)
    config_before: Any = field(repr=False)
    config_after: Any = field(repr=False)
    copied_bytes: int
    computed_bytes: int
    notes: tuple[str, ...]
    dialect: str = NATIVE
    problems: tuple[QconfigError, ...] = ()

    @property
    def needed(self) -> bool:
        """Whether anything is older than today's version, or in another library's form."""
        if self.dialect != NATIVE:
            return True
        return self.config_before != self.config_after or any(t.steps for t in self.tensors)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for a report."""
        return {
            "needed": self.needed,
            "dialect": self.dialect,
            "config_before": self.config_before,
            "config_after": self.config_after,
            "copied_bytes": self.copied_bytes,
            "computed_bytes": self.computed_bytes,
            "notes": list(self.notes),
            "problems": [p.to_dict() for p in self.problems],
            "tensors": [t.to_dict() for t in self.tensors],
        }


def upgrade_checkpoint(
    source: Path | str,
    target: Path | str | None,
    *,
    dry_run: bool = False,
    executor: Executor | None = None,
    progress: Progress | None = None,
    follow_symlinks: bool = False,
    dialect: str | None = None,
    writer: Writer | str | None = None,
    verify: bool | None = None,
) -> UpgradeReport:
    """Write `source` in today's layouts into the new directory `target`; `source` is not touched.

    Tensors whose bytes do not change are copied as byte ranges and never decoded; their names and
    shapes may change. Where nothing is older than today's version, nothing is written.

    Args:
        source: a directory in Hugging Face shape, or one file.
        target: the directory to make; None only for a dry run.
        dry_run: report only; what cannot be written is an error all the same.
        executor: runs one job a shard, in threads; None takes one shard after the other.
        progress: called with the name and the bytes of each stored tensor, and the bytes of all.
        follow_symlinks: accept shards and other files that are links to files elsewhere.
        dialect: in whose form `source` is written, such as `"torchao"`; None finds it out. Pickles
            are read where `source` is such a file, or `dialect` says so (`"torchao-pickle"`).
        writer: the release that wrote `source`, such as `"torchao==0.13"`, where its files leave
            that open and it matters.
        verify: read every value of `target` in the end and report what is wrong with it, see
            `verify_checkpoint`; None does so for checkpoints of other libraries.

    Raises:
        QconfigError: of whatever kind; `target` is then absent.
    """
    checkpoint = open_checkpoint(
        source,
        follow_symlinks=follow_symlinks,
        dialect=dialect,
        writer=Writer.of(writer),
    )
    config = stored_config(checkpoint)
    layouts = _converted(checkpoint)
    shards = _shards(checkpoint, layouts)
    config_json = with_config(checkpoint.config_json, config)
    report = _report(checkpoint, layouts, shards, config_json)
    if not report.needed:
        return report
    if dry_run:
        check_contents(shards, checkpoint.directory)
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
        progress=progress,
    )
    if verify or (verify is None and report.dialect != NATIVE):
        return evolve(report, problems=_problems(target))
    return report


def _problems(target: Path | str) -> tuple[QconfigError, ...]:
    try:
        return verify_checkpoint(target).problems
    except QconfigError as error:
        return tuple(error.problems)


def _converted(checkpoint: Checkpoint) -> dict[str, Layout]:
    converted = {}
    for fqn, layout in checkpoint.layouts.items():
        try:
            converted[fqn] = registry.convert(layout)
        except QconfigError as error:
            raise error.at(file=checkpoint.directory, fqn=fqn) from None
    return converted


def _shards(checkpoint: Checkpoint, layouts: dict[str, Layout]) -> dict[str, ShardContents]:
    shards = {n: ShardContents(metadata=metadata) for n, metadata in checkpoint.metadata.items()}
    for name, tensor in checkpoint.plain.items():
        shards[checkpoint.shard_of[name]].plain[name] = tensor
    for fqn, layout in layouts.items():
        shards[checkpoint.shard_of[fqn]].layouts[fqn] = layout
    for alias, name in checkpoint.ties.items():
        shards[checkpoint.shard_of[name]].ties[alias] = name
    return shards


def _report(
    checkpoint: Checkpoint,
    layouts: dict[str, Layout],
    shards: dict[str, ShardContents],
    config_json: dict[str, Any],
) -> UpgradeReport:
    tensors = []
    for fqn, layout in checkpoint.layouts.items():
        entry = registry.entry_of(type(layout))
        origin = checkpoint.origins.get(fqn)
        before = origin.steps if origin is not None else ()
        tensors.append(
            TensorUpgrade(
                fqn,
                before[0].source if before else entry,
                registry.entry_of(type(layouts[fqn])),
                (*before, *registry.path(entry)),
                origin,
            )
        )
    try:
        values = [t for contents in shards.values() for t in contents.tensors().values()]
    except CheckpointError as error:
        raise error.at(file=checkpoint.directory) from None
    return UpgradeReport(
        tuple(tensors),
        checkpoint.quantization_config,
        config_json.get(CONFIG_KEY),
        sum(nbytes(v) for v in values if v.source is not None),
        sum(nbytes(v) for v in values if v.source is None),
        checkpoint.notes,
        checkpoint.dialect,
    )
