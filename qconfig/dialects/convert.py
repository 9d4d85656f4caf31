"""Convert checkpoints from any form that can be read into another library's, or into ours."""

from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from attrs import field, frozen

from qconfig.checkpoints.checkpoint import CONFIG_KEY, Checkpoint
from qconfig.checkpoints.dialects import NATIVE
from qconfig.checkpoints.open import open_checkpoint
from qconfig.checkpoints.origin import Origin
from qconfig.checkpoints.upgrade import UpgradeReport, upgrade_checkpoint
from qconfig.checkpoints.write import Progress
from qconfig.checkpoints.writer import Writer
from qconfig.codec.layout_values import counted
from qconfig.codec.tensor_values import nbytes
from qconfig.dialects.torchao.safetensors_write import (
    TorchaoCheckpoint,
    as_torchao,
    write_torchao_checkpoint,
)
from qconfig.errors import UsageError, nearest
from qconfig.versioning import Entry, registry

TORCHAO = "torchao"
FORMS = (TORCHAO, NATIVE)
"""The forms that `convert_checkpoint` writes."""


@frozen
class TensorConversion:
    """What happens to one quantized tensor.

    Args:
        fqn: its name.
        source: the layout version that it was read as.
        type: the class that it becomes.
        steps: what the steps between do.
        drops: what they do not carry.
        origin: what it was in the checkpoint of another library, or None.
    """

    fqn: str
    source: Entry
    type: str
    steps: tuple[str, ...] = ()
    drops: tuple[str, ...] = ()
    origin: Origin | None = None

    @property
    def lossless(self) -> bool:
        """Whether every step carries everything, and reading did."""
        return not self.drops and not (self.origin is not None and self.origin.changes)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for a report."""
        return {
            "fqn": self.fqn,
            "type": self.source.name,
            "from_version": self.source.version,
            "to_type": self.type,
            "origin": None if self.origin is None else self.origin.to_dict(),
            "steps": list(self.steps),
            "drops": list(self.drops),
            "lossless": self.lossless,
        }


@frozen
class ConversionReport:
    """What a conversion did, or would do.

    Args:
        to: the form that was written.
        dialect: the form that was read.
        tensors: one entry per quantized tensor.
        config_before: the quantization config as it was written, or None.
        config_after: the same in the form that was written, or None.
        copied_bytes: bytes of tensors that are copied as they are.
        computed_bytes: bytes of tensors that have to be computed.
        notes: what is odd about the checkpoint but harmless.
    """

    to: str
    dialect: str
    tensors: tuple[TensorConversion, ...] = field(repr=counted)
    config_before: Any = field(repr=False)
    config_after: Any = field(repr=False)
    copied_bytes: int
    computed_bytes: int
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for a report."""
        return {
            "to": self.to,
            "dialect": self.dialect,
            "config_before": self.config_before,
            "config_after": self.config_after,
            "copied_bytes": self.copied_bytes,
            "computed_bytes": self.computed_bytes,
            "notes": list(self.notes),
            "tensors": [t.to_dict() for t in self.tensors],
        }


def convert_checkpoint(
    source: Path | str,
    target: Path | str | None,
    *,
    to: str = TORCHAO,
    dry_run: bool = False,
    executor: Executor | None = None,
    progress: Progress | None = None,
    follow_symlinks: bool = False,
    dialect: str | None = None,
    writer: Writer | str | None = None,
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
        executor: runs one job a shard, in threads; None takes one shard after the other.
        progress: called with the name and the bytes of each stored tensor, and the bytes of all.
        follow_symlinks: accept shards and other files that are links to files elsewhere.
        dialect: in whose form `source` is written; None finds it out.
        writer: the release that wrote `source`, such as `"torchao==0.13"`, where its files leave
            that open and it matters.

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
        follow_symlinks=follow_symlinks,
        dialect=dialect,
        writer=writer,
    )


def convert_to_torchao(
    source: Path | str,
    target: Path | str | None,
    *,
    dry_run: bool = False,
    executor: Executor | None = None,
    progress: Progress | None = None,
    follow_symlinks: bool = False,
    dialect: str | None = None,
    writer: Writer | str | None = None,
) -> ConversionReport:
    """Write a checkpoint in torchao's form; see `convert_checkpoint`.

    Raises:
        QconfigError: see `convert_checkpoint`.
    """
    if target is None and not dry_run:
        raise UsageError("no target", hint="name the directory to write")
    checkpoint = open_checkpoint(
        source,
        follow_symlinks=follow_symlinks,
        dialect=dialect,
        writer=Writer.of(writer),
    )
    if dry_run or target is None:
        return _report(checkpoint, as_torchao(checkpoint))
    content = write_torchao_checkpoint(
        checkpoint,
        target,
        follow_symlinks=follow_symlinks,
        executor=executor,
        progress=progress,
    )
    return _report(checkpoint, content)


def _report(checkpoint: Checkpoint, content: TorchaoCheckpoint) -> ConversionReport:
    conversions = []
    for fqn, layout in checkpoint.layouts.items():
        entry, origin = registry.entry_of(type(layout)), checkpoint.origins.get(fqn)
        steps = (*(origin.steps if origin is not None else ()), *registry.path(entry))
        conversions.append(
            TensorConversion(
                fqn,
                steps[0].source if steps else entry,
                content.tensors[fqn].type,
                tuple(step.doc for step in steps),
                tuple(step.drops for step in steps if step.drops is not None),
                origin,
            )
        )
    values = [t for shard in content.shards.values() for t in shard.tensors().values()]
    return ConversionReport(
        TORCHAO,
        checkpoint.dialect,
        tuple(conversions),
        checkpoint.quantization_config,
        content.config_json.get(CONFIG_KEY),
        sum(nbytes(v) for v in values if v.source is not None),
        sum(nbytes(v) for v in values if v.source is None),
        (*checkpoint.notes, *content.notes),
    )
