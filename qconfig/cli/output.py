"""Where a verb's results and notes go: text or JSON on stdout, notes on stderr."""

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from attrs import frozen

from qconfig.cli.tables import Column, print_table
from qconfig.errors import QconfigError, StorageError, printable

# Version of the JSON that `--json` prints; it is raised when a key goes or changes its meaning.
OUTPUT_VERSION = 1


@frozen
class Output:
    """How one call was asked to answer.

    Args:
        command: the verb, such as `"schema show"`.
        as_json: print one JSON object instead of text.
        quiet: no progress and no notes.
        color: False for none, None where the stream decides.
        log_json: write events, notes and the last error to stderr, one JSON object a line.
        profile: print where the time went.
    """

    command: str
    as_json: bool
    quiet: bool
    color: bool | None
    log_json: bool = False
    profile: bool = False

    def result(self, content: Any) -> None:
        """Print the result of the verb as JSON."""
        click.echo(self._json("result", content))

    def report(self, path: Path, content: Any) -> None:
        """Write the result of the verb as JSON to a new file.

        Raises:
            StorageError: the file exists by now or cannot be written.
        """
        try:
            with path.open("x", encoding="utf-8", newline="\n") as file:
                file.write(self._json("result", content) + "\n")
        except OSError as error:
            raise StorageError(f"cannot write: {error.strerror}", file=path) from error

    def line(self, text: str = "", **style: Any) -> None:
        """Print one line of text to stdout; characters that steer terminals are escaped."""
        click.secho(printable(text), color=self.color, **style)

    def document(self, text: str) -> None:
        """Print a JSON text to stdout; what could steer a terminal becomes an escape of JSON."""
        safe = (c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)
        click.echo("".join(safe).rstrip("\n"))

    def table(self, columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> None:
        """Print a table to stdout."""
        cells = [[printable(cell) for cell in row] for row in rows]
        print_table(columns, cells, color=self.color)

    def note(self, text: str) -> None:
        """Print one line to stderr, unless the call is quiet."""
        if self.quiet:
            return
        if self.log_json:
            self.log({"event": "note", "message": text})
        else:
            click.secho(printable(text), err=True, color=self.color, dim=True)

    def notes(self, texts: Iterable[str]) -> None:
        """Print several notes."""
        for text in texts:
            self.note(f"note: {text}")

    def problem(self, error: QconfigError, *, err: bool = False) -> None:
        """Print one problem: what is wrong, where, what was found, what is allowed, what to do."""
        first, *rest = str(error).split("\n")
        head = click.style("error: ", fg="red", bold=True)
        click.echo(head + first, err=err, color=self.color)
        for text in rest:
            click.echo(text, err=err, color=self.color)

    def failure(self, error: QconfigError) -> None:
        """Print the error that ended the call: as JSON on stdout or to the log, else as text."""
        if self.log_json:
            self.log({"event": "error", "exit_code": error.exit_code, "error": error.to_dict()})
        if self.as_json:
            click.echo(self._json("error", error.to_dict()))
        if self.as_json or self.log_json:
            return
        for problem in error.problems:
            self.problem(problem, err=True)

    def log(self, content: Mapping[str, Any]) -> None:
        """Write one line of JSON to stderr, in ASCII."""
        line = {"qconfig": OUTPUT_VERSION, "command": self.command, **content}
        click.echo(json.dumps(line, allow_nan=False), err=True)

    def aside(self, texts: Iterable[str]) -> None:
        """Print lines that were asked for to stderr, where results go to stdout."""
        for text in texts:
            click.echo(printable(text), err=True, color=self.color)

    def _json(self, key: str, content: Any) -> str:
        """Return `content` as JSON under `key`, in the envelope that all verbs share.

        Everything outside ASCII is escaped, so that no data reaches a terminal as it is.
        """
        document = {"qconfig": OUTPUT_VERSION, "command": self.command, key: content}
        return json.dumps(document, indent=2, allow_nan=False)


def wants_color(flags: Mapping[str, Any] | None = None) -> bool | None:
    """Return False if options or `NO_COLOR` forbid colours, else None: the stream decides."""
    forbidden = bool((flags or {}).get("no_color")) or bool(os.environ.get("NO_COLOR"))
    return False if forbidden else None


def silence_stdout() -> None:
    """Let nothing more reach a closed stdout, the flush at exit included."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())


def output_failed(error: OSError) -> int:
    """Say on stderr, where that still works, that the output could not be written.

    Returns:
        The exit code.
    """
    silence_stdout()
    failure = StorageError(f"cannot write the output: {error.strerror}")
    try:
        click.echo(f"error: {failure}", err=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    return failure.exit_code


def counted(count: int, noun: str) -> str:
    """Return a number with its noun, as in `1 tensor` and `2 tensors`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def human_bytes(count: int) -> str:
    """Return a size as people write it: decimal units, three digits."""
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 999.5:
            return f"{count} B" if unit == "B" else f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB" if size < 999.5 else f"{size:.0f} TB"


def shape_text(shape: Sequence[int]) -> str:
    """Return a shape as `384 × 1536`; a scalar has none."""
    return " × ".join(map(str, shape)) if shape else "scalar"
