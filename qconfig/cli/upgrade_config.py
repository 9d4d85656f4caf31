"""Upgrading a config file: its current document, printed or written to a new file."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from qconfig.cli.kinds import Place, configs_in
from qconfig.cli.output import Output
from qconfig.errors import QconfigError, UsageError
from qconfig.versioning import Config, registry

if TYPE_CHECKING:
    from qconfig.dialects.torchao import Note


def upgrade_config_file(
    source: Path,
    target: Path | None,
    report: Path | None,
    output: Output,
    *,
    dry_run: bool,
    writer: str | None = None,
) -> int:
    """Write the current document of a config to a new file, or print it; return the exit code.

    Args:
        source: the config's file.
        target: where its current document goes; None prints it.
        report: a file for what was done, or None.
        output: where texts go.
        dry_run: whether nothing is written.
        writer: the release that wrote the document, such as `torchao==0.13`, where that is known.

    Raises:
        UsageError: the target exists or is not named *.json, or a writer that is none.
        DocumentError, RuleError: everything that is wrong with the source.
        StorageError: a file cannot be read or written.
    """
    from qconfig.api import dump_config
    from qconfig.codec.documents import load_document

    data = load_document(source)
    if target is not None:
        check_target(target)
    try:
        config, notes = _read(data, writer)
    except QconfigError as error:
        raise error.at(file=source) from None
    foreign = notes is not None
    upgrades = [] if foreign else [_upgrade(p) for p in configs_in(data) if _is_old(p)]
    needed = foreign or bool(upgrades)
    text = dump_config(config, None if dry_run else target)
    result = {
        "kind": "config",
        "source": str(source),
        "target": None if target is None or dry_run else str(target),
        "dry_run": dry_run,
        "needed": needed,
        "dialect": "torchao" if foreign else "qconfig",
        "configs": upgrades,
        "notes": [{"pointer": note.pointer, "text": note.text} for note in notes or ()],
        "document": _document(config),
    }
    if report is not None:
        output.report(report, result)
    if output.as_json:
        output.result(result)
    else:
        _show(result, text, output)
    return 1 if dry_run and needed else 0


def _read(data: Any, writer: str | None) -> "tuple[Config, tuple[Note, ...] | None]":
    """Return a config, and the notes on it where the document is torchao's, else None.

    Raises:
        UsageError: a writer that is none, or of a document of ours.
        DocumentError, RuleError: everything that is wrong with the document.
    """
    from qconfig.api import config_from_dict
    from qconfig.checkpoints.writer import Writer
    from qconfig.dialects.torchao import is_envelope, read_document

    release = None if writer is None else Writer.parse(writer)
    config = config_from_dict(data)
    if not is_envelope(data):
        if release is not None:
            raise UsageError("the document is qconfig's own", found=writer, hint="leave it out")
        return config, None
    read = read_document(data, writer=release)
    return read.config, read.notes


def check_target(target: Path) -> None:
    """Raise UsageError unless a config can be written there: a new file named *.json."""
    if target.suffix != ".json":
        raise UsageError("configs are written as JSON", file=target, expected="a name *.json")
    if target.exists() or target.is_symlink():
        raise UsageError(
            "the target exists", file=target, hint="choose another name, or move the old one away"
        )


def _document(config: Any) -> dict[str, Any]:
    from qconfig.api import config_to_dict

    return config_to_dict(config)


def _is_old(place: Place) -> bool:
    return not registry.is_current(place.entry)


def _upgrade(place: Place) -> dict[str, Any]:
    steps = registry.path(place.entry)
    return {
        "pointer": place.pointer,
        "type": place.entry.name,
        "from_version": place.entry.version,
        "to_version": steps[-1].target.version,
        "steps": [step.to_dict() for step in steps],
        "drops": [step.drops for step in steps if step.drops is not None],
        "lossless": all(step.lossless for step in steps),
    }


def _show(result: dict[str, Any], text: str, output: Output) -> None:
    for x in result["configs"]:
        lost = "".join(f"; drops {drops}" for drops in x["drops"])
        place = x["pointer"] or "/"
        output.note(f"{place}: {x['type']} v{x['from_version']} -> v{x['to_version']}{lost}")
    if result["dialect"] == "torchao":
        output.note("torchao's form -> qconfig's")
    for note in result["notes"]:
        output.note(f"{note['pointer'] or '/'}: {note['text']}")
    if not result["needed"]:
        output.note("note: up to date already")
    if result["dry_run"]:
        state = "needs an upgrade" if result["needed"] else "up to date"
        output.line(f"{result['source']}: {state}")
    elif result["target"] is not None:
        output.line(f"written to {result['target']}")
    else:
        output.document(text)
