"""Converting a config file: torchao's envelope, printed or written to a new file."""

from pathlib import Path
from typing import Any

from qconfig.cli.output import Output
from qconfig.cli.upgrade_config import check_target
from qconfig.errors import QconfigError


def convert_config_file(
    source: Path,
    target: Path | None,
    report: Path | None,
    output: Output,
    *,
    dry_run: bool,
    writer: str | None = None,
) -> int:
    """Write a config as torchao 0.18 does to a new file, or print it; return the exit code.

    Raises:
        UsageError: the target exists or is not named *.json.
        DocumentError, RuleError: everything that is wrong with the source.
        MigrationError: torchao has no such config, or no words for what it says.
        StorageError: a file cannot be read or written.
    """
    from qconfig.api import read_config
    from qconfig.codec import strict_json
    from qconfig.codec.documents import load_document, replace_text
    from qconfig.dialects.torchao import to_envelope

    data = load_document(source)
    if target is not None:
        check_target(target)
    try:
        read = read_config(data, writer=writer)
        document = to_envelope(read.config)
    except QconfigError as error:
        raise error.at(file=source) from None
    text = strict_json.dumps(document)
    written = None if dry_run else target
    if written is not None:
        replace_text(written, text)
    result: dict[str, Any] = {
        "kind": "config",
        "source": str(source),
        "target": None if written is None else str(written),
        "dry_run": dry_run,
        "to": "torchao",
        "dialect": read.dialect,
        "notes": [{"pointer": note.pointer, "text": note.text} for note in read.notes],
        "document": document,
    }
    if report is not None:
        output.report(report, result)
    if output.as_json:
        output.result(result)
    elif dry_run:
        output.line(f"{source}: torchao has words for it")
    elif written is not None:
        output.line(f"written to {written}")
    else:
        output.document(text)
    output.notes(f"{note.pointer or '/'}: {note.text}" for note in read.notes)
    return 0
