"""Convert checkpoints from any form that can be read into another library's, or into ours."""

from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import Any

from attrs import frozen

from qconfig.checkpoints.checkpoint import CONFIG_KEY, Checkpoint
from qconfig.checkpoints.dialects import NATIVE
from qconfig.checkpoints.events import Listener, Progress, joined
from qconfig.checkpoints.job import Job
from qconfig.checkpoints.open import open_checkpoint
from qconfig.checkpoints.report import (
    CheckpointReport,
    TensorReport,
    copied_and_computed,
    history_of,
)
from qconfig.checkpoints.resharding import check_shard_size
from qconfig.checkpoints.upgrade import UpgradeReport, upgrade_checkpoint
from qconfig.checkpoints.writer import Writer
from qconfig.dialects.torchao.safetensors_write import (
    TorchaoCheckpoint,
    as_torchao,
    write_torchao_checkpoint,
)
from qconfig.errors import UsageError, nearest

TORCHAO = "torchao"
FORMS = (TORCHAO, NATIVE)
"""The forms that `convert_checkpoint` writes."""


@frozen
class TensorConversion(TensorReport):
    """What happens to one quantized tensor; see `TensorReport`.

    Args:
        type: the class that it becomes.
    """

    type: str

    @property
    def becomes(self) -> str:
        """What it becomes, in a few words."""
        return f"torchao's {self.type}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for a report."""
        return super().to_dict() | {"to_type": self.type}


@frozen
class ConversionReport(CheckpointReport):
    """What a conversion did, or would do; see `CheckpointReport`.

    Args:
        to: the form that was written.
    """

    to: str = TORCHAO

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for a report."""
        return {"to": self.to} | super().to_dict()


def convert_checkpoint(
    source: Path | str,
    target: Path | str | None,
    *,
    to: str = TORCHAO,
    dry_run: bool = False,
    executor: Executor | None = None,
    progress: Progress | None = None,
    listener: Listener | None = None,
    follow_symlinks: bool = False,
    dialect: str | None = None,
    writer: Writer | str | None = None,
    keep_config: bool = True,
    max_shard_bytes: int | None = None,
    sha256: bool = False,
    max_memory: int | None = None,
) -> ConversionReport | UpgradeReport:
    """Write a checkpoint in another form into the new directory `target`.

    The form `"torchao"` is what torchao 0.18 and transformers load: safetensors with flattened
    tensors, and torchao's config in config.json. The form `"qconfig"` is ours; writing it is what
    `upgrade_checkpoint` does.

    Args:
        source: a directory in Hugging Face shape, or one file, of any form that can be read; it is
            not touched.
        target: the directory to make; None only for a dry run.
        to: the form to write.
        dry_run: report only; what cannot be converted is an error all the same.
        executor: runs one job a shard, in threads or in other processes that see the same files;
            None takes one shard after the other.
        progress: called with the name and the bytes of each stored tensor, and the bytes of all.
        listener: called with every event, see `Event`.
        follow_symlinks: accept shards and other files that are links to files elsewhere.
        dialect: in whose form `source` is written; None finds it out.
        writer: the release that wrote `source`, such as `"torchao==0.13"`, where its files leave
            that open and it matters.
        keep_config: False leaves the quantization config out of config.json, where it is one that
            cannot be read.
        max_shard_bytes: size at which a new shard begins, see `resharded`; None keeps the shards.
        sha256: also write `SHA256SUMS`, which `verify` and `sha256sum -c` check.
        max_memory: bytes of memory that the work may take, beside what the process has already;
            shards wait for each other if need be. With an executor of processes, for each process.

    Raises:
        UsageError: an unknown form, or no target.
        MigrationError: the other form has no such tensor or no words for what one says; all such
            tensors at once, and nothing is written.
        QconfigError: of other kinds; `target` is then absent.
    """
    if to not in FORMS:
        raise UsageError(
            "unknown form", found=to, expected=" or ".join(FORMS), hint=nearest(to, FORMS)
        )
    write = upgrade_checkpoint if to == NATIVE else convert_to_torchao
    return write(
        source,
        target,
        dry_run=dry_run,
        executor=executor,
        progress=progress,
        listener=listener,
        follow_symlinks=follow_symlinks,
        dialect=dialect,
        writer=writer,
        keep_config=keep_config,
        max_shard_bytes=max_shard_bytes,
        sha256=sha256,
        max_memory=max_memory,
    )


def convert_to_torchao(
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
    max_shard_bytes: int | None = None,
    sha256: bool = False,
    max_memory: int | None = None,
) -> ConversionReport:
    """Write a checkpoint in torchao's form; see `convert_checkpoint`.

    Raises:
        QconfigError: see `convert_checkpoint`.
    """
    if target is None and not dry_run:
        raise UsageError("no target", hint="name the directory to write")
    job = Job("convert", joined(listener, progress))
    check_shard_size(max_shard_bytes)
    opened = partial(
        open_checkpoint,
        follow_symlinks=follow_symlinks,
        dialect=dialect,
        writer=Writer.of(writer),
        keep_config=keep_config,
    )
    checkpoint = opened(source)
    if dry_run or target is None:
        report = _report(checkpoint, as_torchao(checkpoint, max_shard_bytes))
        job.done()
        return report
    checkpoint = job.reading(checkpoint)
    content = write_torchao_checkpoint(
        checkpoint,
        target,
        follow_symlinks=follow_symlinks,
        executor=executor,
        job=job,
        opened=partial(opened, Path(source).absolute()),
        max_shard_bytes=max_shard_bytes,
        sha256=sha256,
        max_memory=max_memory,
    )
    job.done()
    return _report(checkpoint, content)


def _report(checkpoint: Checkpoint, content: TorchaoCheckpoint) -> ConversionReport:
    values = [t for shard in content.shards.values() for t in shard.tensors().values()]
    return ConversionReport(
        checkpoint.dialect,
        tuple(
            TensorConversion(**history_of(checkpoint, fqn), type=content.tensors[fqn].type)
            for fqn in checkpoint.layouts
        ),
        checkpoint.left_out or checkpoint.quantization_config,
        content.config_json.get(CONFIG_KEY),
        *copied_and_computed(values),
        (*checkpoint.notes, *content.notes),
    )
