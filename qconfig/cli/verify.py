"""`qconfig verify`: read a checkpoint whole and report everything that is wrong with it."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from qconfig.cli.output import Output, counted
from qconfig.cli.progress import progress
from qconfig.cli.verb import (
    PATH,
    dialect,
    follow_symlinks,
    observed,
    verb,
    without_config,
    writer,
)
from qconfig.cli.workers import executor_of, workers

if TYPE_CHECKING:
    from qconfig.checkpoints.verify import Verification


@verb(
    "verify",
    "Check every stored value of a checkpoint.",
    example="qconfig verify model-int8/ --strict",
)
@click.argument("path", type=PATH)
@click.option(
    "--strict",
    is_flag=True,
    help="Refuse stray files and tensors missing in the index, instead of noting them.",
)
@dialect
@writer
@without_config
@follow_symlinks
@observed
@workers
def command(
    *,
    path: Path,
    strict: bool,
    jobs: int | None,
    executor: str | None,
    dialect: str | None,
    writer: str | None,
    without_config: bool,
    follow_symlinks: bool,
    output: Output,
) -> int:
    """Read a checkpoint whole and check every stored value, and every digest that it has.

    PATH is a directory in Hugging Face shape or one file. Exit code 1 says that the
    checkpoint can be read and has problems or oddities; one that cannot even be opened gives 3, 4
    or 5.
    """
    from qconfig.checkpoints.verify import verify_checkpoint

    with executor_of(jobs, executor) as pool, progress(output) as listener:
        found = verify_checkpoint(
            path,
            strict=strict,
            follow_symlinks=follow_symlinks,
            dialect=dialect,
            writer=writer,
            keep_config=not without_config,
            executor=pool,
            listener=listener,
        )
    if output.as_json:
        output.result(found.to_dict())
    else:
        for problem in found.problems:
            output.problem(problem)
        count = len(found.problems)
        odd = f"sound, with {counted(len(found.notes), 'note')}"
        state = counted(count, "problem") if count else odd if found.notes else "sound"
        read = f"{counted(found.tensors, 'quantized tensor')} read"
        output.line(f"{path}: {state}; {read}, {_digests(found)}{_sums(found)}")
    output.notes(found.notes)
    return 0 if found.ok and not found.notes else 1


def _digests(found: "Verification") -> str:
    missing = len(found.without_digests)
    if missing and not found.digests:
        return "no digests"
    text = f"{counted(found.digests, 'digest')} {'match' if found.ok else 'compared'}"
    return f"{text}, none in {counted(missing, 'file')}" if missing else text


def _sums(found: "Verification") -> str:
    if not found.sums:
        return ""
    word = "compared" if not found.ok else "matches" if found.sums == 1 else "match"
    return f", {counted(found.sums, 'SHA-256 sum')} {word}"
