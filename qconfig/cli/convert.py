"""`qconfig convert`: checkpoints and configs in another library's form."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from qconfig.cli.convert_config import convert_config_file
from qconfig.cli.kinds import is_checkpoint
from qconfig.cli.new_checkpoint import (
    result_of,
    run_with,
    show_written,
    target_of_checkpoint,
    tell_result,
)
from qconfig.cli.output import Output
from qconfig.cli.report_path import check_report
from qconfig.cli.shards import shard_options, shards
from qconfig.cli.upgrade import upgrade_path
from qconfig.cli.upgrade_report import show_chains
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
    from qconfig.dialects.convert import ConversionReport

_NATIVE = "qconfig"


@verb(
    "convert",
    "Write a checkpoint or config in another library's form.",
    example="qconfig convert model-int8/ model-int8-torchao/ --to torchao",
)
@click.argument("source", type=PATH)
@click.argument("target", type=PATH, required=False)
@click.option(
    "--to",
    "form",
    type=click.Choice(["torchao", _NATIVE]),
    required=True,
    help="The form to write: what torchao 0.18 and transformers load, or ours.",
)
@click.option("--dry-run", is_flag=True, help="Write nothing; errors are those of a real run.")
@click.option("--report", type=PATH, metavar="FILE", help="Write what was done to a JSON file.")
@dialect
@writer
@without_config
@shards
@workers
@observed
@follow_symlinks
def command(
    *,
    source: Path,
    target: Path | None,
    form: str,
    dry_run: bool,
    report: Path | None,
    dialect: str | None,
    writer: str | None,
    without_config: bool,
    max_shard_size: str | None,
    max_memory: str | None,
    sha256: bool,
    jobs: int | None,
    executor: str | None,
    follow_symlinks: bool,
    output: Output,
) -> int:
    """Write SOURCE, a checkpoint or config, in the form of another library to TARGET.

    SOURCE is never touched, and TARGET appears whole or not at all: a new directory for a
    checkpoint, a file *.json for a config. What the other form cannot say is an error, and nothing
    is written. A config without TARGET goes to stdout. To qconfig's own form is what `qconfig
    upgrade` does.
    """
    options: dict[str, Any] = {
        "dialect": dialect,
        "writer": writer,
        "keep_config": not without_config,
        "follow_symlinks": follow_symlinks,
        **shard_options(max_shard_size, sha256=sha256, max_memory=max_memory),
    }
    if form == _NATIVE:
        return upgrade_path(
            source,
            target,
            report,
            output,
            dry_run=dry_run,
            workers=executor_of(jobs, executor),
            is_check=False,
            **options,
        )
    check_report(report, source, None if dry_run else target)
    if not is_checkpoint(source, dialect):
        return convert_config_file(source, target, report, output, dry_run=dry_run, writer=writer)
    written = target_of_checkpoint(source, target, dry_run=dry_run)
    from qconfig.dialects.convert import convert_to_torchao

    pool = executor_of(jobs, executor)
    done = run_with(convert_to_torchao, source, written, pool, output, **options)
    result = result_of(done, source, written, dry_run=dry_run)
    tell_result(result, report, output, lambda: _show(done, result["target"], output))
    output.notes(done.notes)
    return 0


def _show(done: "ConversionReport", target: str | None, output: Output) -> None:
    show_chains(done, output)
    if done.config_after is not None:
        output.line("the config in config.json is torchao's")
    show_written(done, target, output)
