"""Check a checkpoint against itself: records, index, config, and every stored value."""

from pathlib import Path
from typing import Any

from attrs import frozen

from qconfig.builders.base import Target, builder_of
from qconfig.checkpoints.checkpoint import CONFIG_FILE, Checkpoint
from qconfig.checkpoints.config_json import is_foreign, stored_config
from qconfig.checkpoints.open import open_checkpoint
from qconfig.codec.layout_values import loaded
from qconfig.engine.chosen import chosen_config
from qconfig.engine.plan import make_plan
from qconfig.engine.plan_document import Action
from qconfig.engine.targets import inferred_class, named_targets
from qconfig.errors import CheckpointError, QconfigError
from qconfig.versioning import Config, Layout, plain_fields, registry


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
) -> Verification:
    """Read a checkpoint whole, one tensor at a time, and return everything that is wrong with it.

    Checked are: headers, index and records against each other; scales (finite, positive) and zero
    points; and that the stored config assigns to each tensor the layout that it has, both ways.

    Args:
        path: a directory in Hugging Face shape, or one safetensors file.
        strict: do not even open a checkpoint with stray files or tensors missing in the index.
        follow_symlinks: accept shards that are links to files elsewhere.
        dialect: in whose form it is written, see `upgrade_checkpoint`; None finds it out.

    Raises:
        QconfigError: the checkpoint cannot even be opened.
    """
    checkpoint = open_checkpoint(
        path, strict=strict, follow_symlinks=follow_symlinks, dialect=dialect
    )
    problems: list[QconfigError] = []
    for fqn, layout in checkpoint.layouts.items():
        try:
            check_stored_values(layout)
        except QconfigError as error:
            problems += [p.at(file=checkpoint.directory, fqn=fqn) for p in error.problems]
    problems += _against_config(checkpoint)
    notes = list(checkpoint.notes)
    if is_foreign(checkpoint):
        notes.append(f"quantized by {checkpoint.quant_method!r}, and not checked here")
    return Verification(len(checkpoint.layouts), tuple(problems), tuple(notes))


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
        return [] if config is None else _contradictions(checkpoint, config, file)
    except QconfigError as error:
        return [p.at(file=file) for p in error.problems]


def _contradictions(checkpoint: Checkpoint, config: Config, file: Path) -> list[QconfigError]:
    current: dict[str, Any] = {f: registry.convert(x) for f, x in checkpoint.layouts.items()}
    plain = named_targets((n, t.shape, t.dtype) for n, t in checkpoint.plain.items())
    quantized = [
        Target(fqn, tuple(x.shape), x.dtype, inferred_class(fqn, len(x.shape)))
        for fqn, x in current.items()
    ]
    plan = make_plan([*plain, *quantized], config, allow_unmatched=True)
    problems: list[QconfigError] = []
    for entry in plan.entries:
        found = current.get(entry.fqn)
        expected = None
        if entry.action is Action.QUANTIZE:
            chosen = chosen_config(plan, entry)
            target = Target(entry.fqn, entry.shape, entry.dtype)
            expected = builder_of(chosen).layout(chosen, target)
        if difference := _difference(found, expected):
            problems.append(
                CheckpointError(
                    "the stored config says otherwise",
                    file=file,
                    fqn=entry.fqn,
                    found=difference[0],
                    expected=difference[1],
                )
            )
    return problems


def _difference(found: Any, expected: Any) -> tuple[str, str] | None:
    """Return what a stored layout is and what the config makes of it, where they differ."""
    if type(found) is not type(expected):
        return _described(found), _described(expected)
    if found is None:
        return None
    for field in plain_fields(type(found)):
        pair = getattr(found, field.name), getattr(expected, field.name)
        if pair[0] != pair[1]:
            return f"{field.name} {pair[0]}", f"{field.name} {pair[1]}"
    return None


def _described(layout: Any) -> str:
    return "a plain tensor" if layout is None else type(layout).__name__
