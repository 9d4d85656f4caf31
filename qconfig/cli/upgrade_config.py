"""Upgrading a config file: its current document, printed or written to a new file."""

from pathlib import Path
from typing import Any

from qconfig.checkpoints.dialects import NATIVE
from qconfig.cli.kinds import Place, configs_in
from qconfig.cli.output import Output
from qconfig.errors import QconfigError, UsageError
from qconfig.versioning import registry


def upgrade_config_file(
    source: Path,
    target: Path | None,
    report: Path | None,
    output: Output,
    *,
    dry_run: bool,
    writer: str | None = None,
    is_check: bool = True,
) -> int:
    """Write the current document of a config to a new file, or print it; return the exit code.

    Args:
        source: the config's file.
        target: where its current document goes; None prints it.
        report: a file for what was done, or None.
        output: where texts go.
        dry_run: whether nothing is written.
        writer: the release that wrote the document, such as `torchao==0.13`, where that is known.
        is_check: whether a dry run that finds work to do exits with 1.

    Raises:
        UsageError: the target exists or is not named *.json, or a writer that is none.
        DocumentError, RuleError: everything that is wrong with the source.
        StorageError: a file cannot be read or written.
    """
    from qconfig.api import config_to_dict, dump_config, read_config
    from qconfig.codec.documents import load_document

    data = load_document(source)
    if target is not None:
        check_target(target)
    try:
        read = read_config(data, writer=writer)
    except QconfigError as error:
        raise error.at(file=source) from None
    foreign = read.dialect != NATIVE
    upgrades = [] if foreign else [_upgrade(p) for p in configs_in(data) if _is_old(p)]
    needed = foreign or bool(upgrades)
    text = dump_config(read.config, None if dry_run else target)
    result = {
        "kind": "config",
        "source": str(source),
        "target": None if target is None or dry_run else str(target),
        "dry_run": dry_run,
        "needed": needed,
        "dialect": read.dialect,
        "configs": upgrades,
        "notes": [{"pointer": note.pointer, "text": note.text} for note in read.notes],
        "document": config_to_dict(read.config),
    }
    if report is not None:
        output.report(report, result)
    if output.as_json:
        output.result(result)
    else:
        _show(result, text, output)
    return 1 if dry_run and needed and is_check else 0


def check_target(target: Path) -> None:
    """Raise UsageError unless a config can be written there: a new file named *.json."""
    if target.suffix != ".json":
        raise UsageError("configs are written as JSON", file=target, expected="a name *.json")
    if target.exists() or target.is_symlink():
        raise UsageError(
            "the target exists", file=target, hint="choose another name, or move the old one away"
        )


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
    if result["dialect"] != NATIVE:
        output.note(f"{result['dialect']}'s form -> {NATIVE}'s")
    output.notes(f"{note['pointer'] or '/'}: {note['text']}" for note in result["notes"])
    if not result["needed"]:
        output.note("note: up to date already")
    if result["dry_run"]:
        state = "needs an upgrade" if result["needed"] else "up to date"
        output.line(f"{result['source']}: {state}")
    elif result["target"] is not None:
        output.line(f"written to {result['target']}")
    else:
        output.document(text)
