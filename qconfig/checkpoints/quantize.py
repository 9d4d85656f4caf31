"""Quantize a checkpoint file to file, one tensor at a time."""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from attrs import evolve

from qconfig.builders.base import Target, builder_of
from qconfig.builders.training import training_records
from qconfig.calibration.calibration import Calibration
from qconfig.calibration.digest import calibration_digest
from qconfig.checkpoints.checkpoint import CONFIG_FILE, CONFIG_KEY, Checkpoint
from qconfig.checkpoints.config_json import with_config
from qconfig.checkpoints.contents import ShardContents, deferred
from qconfig.checkpoints.events import Listener, Progress, joined
from qconfig.checkpoints.job import Job
from qconfig.checkpoints.memory import layout_need
from qconfig.checkpoints.open import open_checkpoint
from qconfig.checkpoints.planned import Planned
from qconfig.checkpoints.resharding import check_shard_size, in_shards
from qconfig.checkpoints.write import write_checkpoint
from qconfig.codec.layout_values import layout_nbytes, present_fields
from qconfig.codec.tensor_values import LazyTensor, nbytes
from qconfig.engine.calibrated import (
    build_layer,
    check_calibrated,
    layer_by_rows,
    with_calibration_notes,
)
from qconfig.engine.chosen import chosen_config
from qconfig.engine.modules import with_checkpoint_notes
from qconfig.engine.plan import make_plan
from qconfig.engine.plan_document import Action, Plan, PlanEntry
from qconfig.engine.targets import named_targets
from qconfig.errors import CheckpointError, QconfigError, raise_problems
from qconfig.versioning import Config, Layout


def plan_checkpoint(
    checkpoint: Checkpoint,
    config: Config,
    *,
    allow_unmatched: bool = False,
    calibration: Calibration | None = None,
) -> Plan:
    """Return the plan for a checkpoint that is not quantized yet; its notes become the plan's.

    Module classes are inferred from names and ranks, see `qconfig.engine.targets.inferred_class`.
    Without a calibration, the plan has notes of the configs that need one.

    Raises:
        CheckpointError: it is quantized already, or a weight that a config reaches still trains.
        PlanError: rules and checkpoint do not fit together, or rules and calibration.
    """
    if checkpoint.layouts or checkpoint.quantization_config is not None:
        raise _quantized_already(checkpoint)
    plain, ties = checkpoint.plain, checkpoint.ties
    tensors = plain | {alias: plain[name] for alias, name in ties.items()}
    targets = named_targets((name, t.shape, t.dtype) for name, t in tensors.items())
    tied = [(name, alias) for alias, name in ties.items()]
    plan = make_plan(targets, config, tied=tied, allow_unmatched=allow_unmatched, inferred=True)
    raise_problems(_training_already(plan, plain), file=checkpoint.place)
    plan = with_checkpoint_notes(evolve(plan, notes=(*checkpoint.notes, *plan.notes)))
    if calibration is None:
        return with_calibration_notes(plan)
    check_calibrated(plan, calibration)
    return plan


def _training_already(plan: Plan, plain: Mapping[str, LazyTensor]) -> list[QconfigError]:
    """Return a problem for each weight that a config reaches and that still trains."""
    return [
        CheckpointError(
            "the weight still trains: its quantizer is stored beside it",
            fqn=entry.fqn,
            found=record,
            expected="a weight without a quantizer, or a rule that leaves it",
            hint="load it into a model that is quantized with the same config, and freeze that; or "
            "leave it as it is, with a rule whose use is null",
        )
        for entry in plan.entries
        if entry.action is Action.QUANTIZE
        for record in training_records(entry.tied_to or entry.fqn, plain)
    ]


def _quantized_already(checkpoint: Checkpoint) -> CheckpointError:
    error = CheckpointError(
        "the checkpoint is quantized already",
        found=(checkpoint.quantization_config or {}).get("quant_method", "quantized tensors"),
        expected="a checkpoint without quantized tensors and without a quantization config",
        hint="start from the checkpoint it was made from",
    )
    if checkpoint.quantization_config is not None:
        return error.at(file=checkpoint.directory / CONFIG_FILE, pointer_prefix=f"/{CONFIG_KEY}")
    return error.at(file=checkpoint.place)


def quantize_checkpoint(
    source: Path | str,
    target: Path | str,
    config: Config,
    *,
    allow_unmatched: bool = False,
    calibration: Calibration | None = None,
    executor: Executor | None = None,
    progress: Progress | None = None,
    listener: Listener | None = None,
    follow_symlinks: bool = False,
    dialect: str | None = None,
    max_shard_bytes: int | None = None,
    sha256: bool = False,
    max_memory: int | None = None,
) -> Plan:
    """Quantize the shards of `source` into the new directory `target` and return the plan.

    At any time one tensor and what is made of it are in memory, per running shard. Shards keep
    their names, unless a size is given;
    tensors that stay as they are, are copied byte by byte, as are all other files.

    Args:
        source: a directory in Hugging Face shape, or one file.
        target: the directory to make.
        config: an `FqnToConfig`, or one config for every Linear.
        allow_unmatched: accept rules that match nothing.
        calibration: what `calibrate` observed of the model, whose layers have the names that the
            checkpoint gives them; for configs that need it.
        executor: runs one job a shard, in threads or in other processes that see the same files;
            None takes one shard after the other.
        progress: called with the name and the bytes of each stored tensor, and the bytes of all.
        listener: called with every event, see `Event`.
        follow_symlinks: accept shards and other files that are links to files elsewhere.
        dialect: in whose form `source` is written, see `open_checkpoint`; None finds it out.
        max_shard_bytes: size at which a new shard begins, see `resharded`; None keeps the shards.
        sha256: also write `SHA256SUMS`, which `verify` and `sha256sum -c` check.
        max_memory: bytes of memory that the work may take, beside what the process has already;
            shards wait for each other if need be. With an executor of processes, for each process.

    Raises:
        QconfigError: of whatever kind; `target` is then absent and `source` as it was. After a
            StorageError, or when the process is killed, the same call goes on with the shards
            that are not finished.
    """
    job = Job("quantize", joined(listener, progress))
    check_shard_size(max_shard_bytes)
    opened = partial(
        _opened,
        config=config,
        allow_unmatched=allow_unmatched,
        calibration=calibration,
        follow_symlinks=follow_symlinks,
        dialect=dialect,
    )
    checkpoint, plan = opened(Path(source), job)
    check_calibrated(plan, calibration)
    write_checkpoint(
        target,
        _shards(checkpoint, plan, calibration, max_shard_bytes),
        with_config(checkpoint.config_json, config),
        origin=checkpoint,
        follow_symlinks=follow_symlinks,
        executor=executor,
        job=job,
        replan=partial(
            _replanned, partial(opened, Path(source).absolute()), calibration, max_shard_bytes
        ),
        options={"calibration": calibration and calibration_digest(calibration)},
        sha256=sha256,
        max_memory=max_memory,
    )
    job.done()
    return plan


def _opened(
    source: Path,
    job: Job,
    *,
    config: Config,
    allow_unmatched: bool,
    calibration: Calibration | None,
    follow_symlinks: bool,
    dialect: str | None,
) -> tuple[Checkpoint, Plan]:
    checkpoint = open_checkpoint(source, follow_symlinks=follow_symlinks, dialect=dialect)
    checkpoint = job.reading(checkpoint)
    plan = plan_checkpoint(
        checkpoint, config, allow_unmatched=allow_unmatched, calibration=calibration
    )
    return checkpoint, plan


def _replanned(
    opened: Callable[[Job], tuple[Checkpoint, Plan]],
    calibration: Calibration | None,
    max_shard_bytes: int | None,
) -> Planned:
    checkpoint, plan = opened(Job("quantize", None))
    return Planned(_shards(checkpoint, plan, calibration, max_shard_bytes), checkpoint)


def _shards(
    checkpoint: Checkpoint,
    plan: Plan,
    calibration: Calibration | None,
    max_shard_bytes: int | None,
) -> Mapping[str, ShardContents]:
    shards = {n: ShardContents(metadata=metadata) for n, metadata in checkpoint.metadata.items()}
    for entry in plan.entries:
        name = entry.tied_to or entry.fqn
        shard, tensor = checkpoint.shard_of[name], checkpoint.plain[name]
        if entry.tied_to:
            shards[shard].ties[entry.fqn] = name
        elif entry.action is Action.QUANTIZE:
            file = checkpoint.directory / shard
            shards[shard].layouts[name] = _quantized(plan, entry, tensor, file, calibration)
        else:
            shards[shard].plain[name] = tensor
    return in_shards(shards, max_shard_bytes, place=checkpoint.place)


def _quantized(
    plan: Plan,
    entry: PlanEntry,
    tensor: LazyTensor,
    file: Path,
    calibration: Calibration | None,
) -> Layout:
    config = chosen_config(plan, entry)
    expected = builder_of(config).layout(config, Target(entry.fqn, tensor.shape, tensor.dtype))

    made_by_rows = layer_by_rows(config, tensor, entry.fqn, calibration)

    def build() -> Layout:
        with _at(file, entry.fqn):
            built: Any = build_layer(config, tensor.load(), entry.fqn, calibration)
            layout: Layout = built.to_layout()
            return layout

    def by_rows() -> Iterator[Layout]:
        with _at(file, entry.fqn):
            yield from made_by_rows() if made_by_rows else ()

    made = layout_nbytes(expected)
    first = nbytes(getattr(expected, present_fields(expected)[0]))
    work = layout_need(nbytes(tensor), made, made - first if made_by_rows else None)
    return deferred(expected, build, by_rows if made_by_rows else None, work)


@contextmanager
def _at(file: Path, fqn: str) -> Iterator[None]:
    try:
        yield
    except QconfigError as error:
        raise error.at(file=file, fqn=fqn) from None
