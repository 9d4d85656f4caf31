"""Check a checkpoint against itself: records, index, config, and every stored value."""

from collections import Counter
from pathlib import Path
from typing import Any

from attrs import frozen

from qconfig.checkpoints.checkpoint import CONFIG_FILE, Checkpoint
from qconfig.checkpoints.config_json import is_foreign, stored_config
from qconfig.checkpoints.contradictions import contradictions
from qconfig.checkpoints.events import Listener, Phase
from qconfig.checkpoints.job import Job
from qconfig.checkpoints.open import open_checkpoint
from qconfig.checkpoints.writer import Writer
from qconfig.codec.layout_values import layout_nbytes, loaded
from qconfig.errors import QconfigError
from qconfig.versioning import Layout, registry


@frozen
class Verification:
    """What `verify_checkpoint` found.

    Args:
        tensors: number of quantized tensors that were read.
        problems: everything that is wrong; empty for a sound checkpoint.
        notes: what is odd but harmless.
    """

    tensors: int
    problems: tuple[QconfigError, ...]
    notes: tuple[str, ...]

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
        }


def verify_checkpoint(
    path: Path | str,
    *,
    strict: bool = False,
    follow_symlinks: bool = False,
    dialect: str | None = None,
    writer: Writer | str | None = None,
    keep_config: bool = True,
    listener: Listener | None = None,
) -> Verification:
    """Read a checkpoint whole, one tensor at a time, and return everything that is wrong with it.

    Checked are: headers, index and records against each other; scales (finite, positive) and zero
    points; and that the stored config assigns to each tensor the layout that it has, both ways.

    Args:
        path: a directory in Hugging Face shape, or one file; also of another library.
        strict: do not even open a checkpoint with stray files or tensors missing in the index.
        follow_symlinks: accept shards that are links to files elsewhere.
        dialect: in whose form it is written, see `upgrade_checkpoint`; None finds it out.
        writer: the release that wrote it, such as `"torchao==0.13"`, where that matters.
        keep_config: False leaves the quantization config out, see `open_checkpoint`.
        listener: called with every event, see `Event`; tensors are those that are quantized.

    Raises:
        QconfigError: the checkpoint cannot even be opened.
    """
    job = Job("verify", listener)
    checkpoint = open_checkpoint(
        path,
        strict=strict,
        follow_symlinks=follow_symlinks,
        dialect=dialect,
        writer=Writer.of(writer),
        keep_config=keep_config,
    )
    return verify_opened(checkpoint, job)


def verify_opened(checkpoint: Checkpoint, job: Job) -> Verification:
    """Read a checkpoint that is open and return everything that is wrong with it.

    Args:
        checkpoint: it is read whole.
        job: is told of each quantized tensor, and of the end.
    """
    checkpoint = job.reading(checkpoint)
    problems = [*_stored_values(checkpoint, job), *_against_config(checkpoint)]
    job.done()
    notes = list(checkpoint.notes)
    if is_foreign(checkpoint):
        notes.append(f"quantized by {checkpoint.quant_method!r}, and not checked here")
    return Verification(len(checkpoint.layouts), tuple(problems), tuple(notes))


def _stored_values(checkpoint: Checkpoint, job: Job) -> list[QconfigError]:
    problems: list[QconfigError] = []
    sizes = {fqn: layout_nbytes(layout) for fqn, layout in checkpoint.layouts.items()}
    left = Counter(checkpoint.shard_of[fqn] for fqn in sizes)
    job.start(sum(sizes.values()))
    for fqn, layout in checkpoint.layouts.items():
        try:
            with job.phase(Phase.COMPUTE):
                check_stored_values(layout)
        except QconfigError as error:
            problems += [p.at(file=checkpoint.place, fqn=fqn) for p in error.problems]
        shard = checkpoint.shard_of[fqn]
        job.tensor(shard, fqn, sizes[fqn])
        left[shard] -= 1
        if not left[shard]:
            job.shard_done(shard)
    return problems


def check_stored_values(layout: Layout) -> None:
    """Load one quantized tensor and check its values.

    Raises:
        LayoutError: a scale is not a positive finite number, or a code is out of range.
        MigrationError: a step cannot carry the values.
    """
    from qconfig.tensors.classes import check_values

    check_values(loaded(registry.convert(layout)))


def _against_config(checkpoint: Checkpoint) -> list[QconfigError]:
    if is_foreign(checkpoint):
        return []
    file = checkpoint.directory / CONFIG_FILE
    try:
        config = stored_config(checkpoint)
        return [] if config is None else contradictions(checkpoint, config, file)
    except QconfigError as error:
        return [p.at(file=file) for p in error.problems]
