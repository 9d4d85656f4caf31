"""`qconfig validate`: every problem of configs and checkpoints."""

from pathlib import Path
from typing import Any

import click
from attrs import field, frozen

from qconfig.checkpoints.dialects import NATIVE
from qconfig.cli.kinds import configs_in, is_checkpoint
from qconfig.cli.output import Output, counted
from qconfig.cli.verb import PATH, dialect, follow_symlinks, verb, writer
from qconfig.errors import QconfigError


@frozen
class Verdict:
    """What was found about one path.

    Args:
        path: as it was given.
        kind: `"config"` or `"checkpoint"`.
        problems: everything that is wrong.
        written: names and versions as written, with how many there are of each.
        notes: what is odd but harmless.
    """

    path: Path
    kind: str
    problems: tuple[QconfigError, ...] = ()
    written: dict[str, int] = field(factory=dict)
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for `--json`."""
        return {
            "path": str(self.path),
            "kind": self.kind,
            "ok": not self.problems,
            "problems": [p.to_dict() for p in self.problems],
            "written": self.written,
            "notes": list(self.notes),
        }


@verb(
    "validate",
    "Print every problem of configs and checkpoints.",
    example="qconfig validate quant.json model-int8/",
)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=PATH)
@dialect
@writer
@follow_symlinks
def command(
    *,
    paths: tuple[Path, ...],
    dialect: str | None,
    writer: str | None,
    follow_symlinks: bool,
    output: Output,
) -> int:
    """Check configs and checkpoints, and print every problem.

    PATH is a config (JSON, YAML or TOML), a checkpoint directory or one file of it. Of a
    checkpoint the headers, the index, the records and the config are read, not the tensors; for
    those there is verify. --from and --writer are said of all paths. The exit code is the highest
    that any path earns.
    """
    verdicts = [
        examine(path, dialect=dialect, writer=writer, follow_symlinks=follow_symlinks)
        for path in paths
    ]
    if output.as_json:
        output.result({"files": [v.to_dict() for v in verdicts]})
    else:
        for verdict in verdicts:
            _show(verdict, output)
    return max((p.exit_code for v in verdicts for p in v.problems), default=0)


def examine(
    path: Path,
    *,
    dialect: str | None = None,
    writer: str | None = None,
    follow_symlinks: bool = False,
) -> Verdict:
    """Return the problems of a config or checkpoint; they are collected, never raised."""
    if not is_checkpoint(path, dialect):
        return _config(path, writer)
    try:
        return _checkpoint(path, dialect, writer, follow_symlinks=follow_symlinks)
    except QconfigError as error:
        return Verdict(path, "checkpoint", _placed(error, path))


def _placed(error: QconfigError, path: Path) -> tuple[QconfigError, ...]:
    return tuple(p.at(file=path) for p in error.problems)


def _config(path: Path, writer: str | None) -> Verdict:
    from qconfig.api import read_config
    from qconfig.codec.documents import load_document

    try:
        data = load_document(path)
        read = read_config(data, writer=writer)
    except QconfigError as error:
        return Verdict(path, "config", _placed(error, path))
    if read.dialect != NATIVE:
        notes = (f"{note.pointer or '/'}: {note.text}" for note in read.notes)
        return Verdict(path, "config", notes=(f"in {read.dialect}'s form", *notes))
    written: dict[str, int] = {}
    for place in configs_in(data):
        written[str(place.entry)] = written.get(str(place.entry), 0) + 1
    return Verdict(path, "config", written=written)


def _checkpoint(
    path: Path, dialect: str | None, writer: str | None, *, follow_symlinks: bool
) -> Verdict:
    from qconfig.checkpoints.config_json import is_foreign, stored_config
    from qconfig.checkpoints.open import open_checkpoint
    from qconfig.checkpoints.writer import Writer
    from qconfig.versioning import registry

    checkpoint = open_checkpoint(
        path, follow_symlinks=follow_symlinks, dialect=dialect, writer=Writer.of(writer)
    )
    notes = list(checkpoint.notes)
    if is_foreign(checkpoint):
        notes.append(f"quantized by {checkpoint.quant_method!r}, and not checked here")
    else:
        stored_config(checkpoint)
    written: dict[str, int] = {}
    for layout in checkpoint.layouts.values():
        name = str(registry.entry_of(type(layout)))
        written[name] = written.get(name, 0) + 1
    return Verdict(path, "checkpoint", (), dict(sorted(written.items())), tuple(notes))


def _show(verdict: Verdict, output: Output) -> None:
    for problem in verdict.problems:
        output.problem(problem)
    count = len(verdict.problems)
    if count:
        output.line(f"{verdict.path}: {counted(count, 'problem')}")
    else:
        held = ", ".join(f"{name} ({n})" for name, n in verdict.written.items())
        output.line(f"{verdict.path}: valid {verdict.kind}{f': {held}' if held else ''}")
    output.notes(f"{verdict.path}: {note}" for note in verdict.notes)
