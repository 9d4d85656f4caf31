"""What the verbs that write one checkpoint as another share: its target, and what is said of it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from qconfig.cli.kinds import check_directory
from qconfig.cli.output import Output, human_bytes
from qconfig.cli.progress import progress
from qconfig.cli.workers import Workers
from qconfig.errors import UsageError


class Done(Protocol):
    """The report of such a run."""

    @property
    def copied_bytes(self) -> int:
        """Bytes that were copied as they are."""

    @property
    def computed_bytes(self) -> int:
        """Bytes that were computed."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as a JSON object."""


def target_of_checkpoint(source: Path, target: Path | None, *, dry_run: bool) -> Path | None:
    """Return the directory that a run writes, or None for a dry run.

    Args:
        source: the checkpoint.
        target: as it was given.
        dry_run: whether nothing is written.

    Raises:
        UsageError: there is none, or it is named like a file.
    """
    if target is None and not dry_run:
        raise UsageError(
            "a checkpoint needs a target", file=source, hint="name a new directory, or --dry-run"
        )
    if target is not None:
        check_directory(target)
    return None if dry_run else target


def run_with(
    function: Callable[..., Any],
    source: Path,
    target: Path | None,
    workers: Workers,
    output: Output,
    **options: Any,
) -> Any:
    """Return what a function says that writes a checkpoint; it tells its progress.

    Args:
        function: such as `upgrade_checkpoint`.
        source: the checkpoint.
        target: the new directory, or None for a dry run.
        workers: who works on shards.
        output: where progress goes.
        options: what the function takes besides.
    """
    with workers as executor, progress(output) as listener:
        return function(
            source,
            target,
            dry_run=target is None,
            executor=executor,
            listener=listener,
            **options,
        )


def result_of(done: Done, source: Path, written: Path | None, *, dry_run: bool) -> dict[str, Any]:
    """Return what `--json` and `--report` say; `written` is the directory that was made."""
    target = None if written is None else str(written)
    head = {"kind": "checkpoint", "source": str(source), "target": target, "dry_run": dry_run}
    return head | done.to_dict()


def tell_result(
    result: dict[str, Any], report: Path | None, output: Output, show: Callable[[], None]
) -> None:
    """Write a result to the report, if there is one, and to stdout: as JSON, or what `show` says.

    Raises:
        StorageError: the report cannot be written.
    """
    if report is not None:
        output.report(report, result)
    if output.as_json:
        output.result(result)
    else:
        show()


def show_written(done: Done, target: str | None, output: Output) -> None:
    """Say how much was copied and computed, and where it is."""
    copied, computed = human_bytes(done.copied_bytes), human_bytes(done.computed_bytes)
    output.line(f"{copied} copied byte for byte, {computed} computed")
    if target is not None:
        output.line(f"written to {target}")
    else:
        output.note("note: a dry run; nothing was written")
