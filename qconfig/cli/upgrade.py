"""`qconfig upgrade`: checkpoints and configs of earlier versions in today's."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from qconfig.checkpoints.dialects import NATIVE
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
from qconfig.cli.upgrade_config import upgrade_config_file
from qconfig.cli.upgrade_report import show_chains
from qconfig.cli.verb import (
    PATH,
    dialect,
    follow_symlinks,
    observed,
    place,
    verb,
    without_config,
    writer,
)
from qconfig.cli.workers import Workers, executor_of, workers
from qconfig.errors import UsageError

if TYPE_CHECKING:
    from qconfig.checkpoints.upgrade import UpgradeReport


@verb(
    "upgrade",
    "Bring a checkpoint or config up to date.",
    example="qconfig upgrade model-int8-of-2025/ model-int8/ --jobs 4",
)
@click.argument("source", type=PATH)
@click.argument("target", type=PATH, required=False)
@click.option("--out", type=PATH, metavar="PATH", help="The same as TARGET.")
@click.option("--dry-run", is_flag=True, help="Write nothing; exit code 1 if there is work to do.")
@click.option("--report", type=PATH, metavar="FILE", help="Write what was done to a JSON file.")
@dialect
@writer
@without_config
@place
@click.option(
    "-c",
    "--config",
    "config_file",
    type=PATH,
    metavar="FILE",
    help="How the model was quantized, where its files do not say: state_dicts of Brevitas.",
)
@click.option(
    "--missing",
    multiple=True,
    metavar="PATTERN=WORD",
    help="What to do about tensors that such files lack: error, initialise or derive. Repeatable; "
    "the first pattern that matches decides.",
)
@click.option(
    "--drop",
    multiple=True,
    metavar="PATTERN",
    help="Names that may be left out of such files. Repeatable.",
)
@click.option(
    "--verify/--no-verify",
    "verify",
    default=None,
    help="Read every value that was written. Done unless only our own layouts were renamed.",
)
@shards
@workers
@observed
@follow_symlinks
def command(
    *,
    source: Path,
    target: Path | None,
    out: Path | None,
    dry_run: bool,
    report: Path | None,
    dialect: str | None,
    writer: str | None,
    without_config: bool,
    key: str | None,
    strip_prefix: str,
    config_file: Path | None,
    missing: tuple[str, ...],
    drop: tuple[str, ...],
    verify: bool | None,
    max_shard_size: str | None,
    max_memory: str | None,
    sha256: bool,
    jobs: int | None,
    executor: str | None,
    follow_symlinks: bool,
    output: Output,
) -> int:
    """Write SOURCE, a checkpoint or config of an earlier version, in today's version to TARGET.

    SOURCE is a directory in Hugging Face shape, a safetensors file, a file that torch.save wrote,
    or a config. It is never touched, and TARGET appears whole or not at all: a new directory for a
    checkpoint, a file *.json for a config. A checkpoint that is up to date is not written again. A
    config without TARGET goes to stdout.
    """
    if target is not None and out is not None:
        raise UsageError("two targets", found=f"{target} and {out}", hint="leave one out")
    if without_config and config_file is not None:
        raise UsageError("a config that is left out", found=f"--config {config_file}")
    guidance = _guidance(source, dialect, config_file, missing, drop)
    return upgrade_path(
        source,
        target or out,
        report,
        output,
        dry_run=dry_run,
        workers=executor_of(jobs, executor),
        is_check=True,
        verify=verify,
        dialect=dialect,
        writer=writer,
        keep_config=not without_config,
        key=key,
        strip_prefix=strip_prefix,
        follow_symlinks=follow_symlinks,
        **shard_options(max_shard_size, sha256=sha256, max_memory=max_memory),
        **guidance,
    )


def _guidance(
    source: Path,
    dialect: str | None,
    config_file: Path | None,
    missing: tuple[str, ...],
    drop: tuple[str, ...],
) -> dict[str, Any]:
    from qconfig.api import load_config
    from qconfig.checkpoints.guidance import policies

    if config_file is None and not missing and not drop:
        return {}
    if not is_checkpoint(source, dialect):
        raise UsageError(
            "a config says by itself what it is",
            file=source,
            expected="--config, --missing and --drop for a checkpoint",
        )
    config = None if config_file is None else load_config(config_file)
    return {"config": config, "missing": policies(missing), "dropped": drop}


def upgrade_path(
    source: Path,
    target: Path | None,
    report: Path | None,
    output: Output,
    *,
    dry_run: bool,
    workers: Workers,
    is_check: bool,
    **options: Any,
) -> int:
    """Write a checkpoint or config in today's version; return the exit code.

    Args:
        source: a checkpoint or config of any version and form.
        target: the new directory or file; None for a dry run, or to print a config.
        report: a file for what was done, or None.
        output: where texts go.
        dry_run: whether nothing is written.
        workers: who works on shards.
        is_check: whether a dry run that finds work to do exits with 1.
        options: what `upgrade_checkpoint` takes besides.

    Raises:
        QconfigError: of whatever kind; nothing is written then.
    """
    check_report(report, source, None if dry_run else target)
    if not is_checkpoint(source, options["dialect"]):
        writer = options["writer"]
        return upgrade_config_file(
            source, target, report, output, dry_run=dry_run, writer=writer, is_check=is_check
        )
    wanted = target_of_checkpoint(source, target, dry_run=dry_run)
    from qconfig.checkpoints.upgrade import upgrade_checkpoint

    done = run_with(upgrade_checkpoint, source, wanted, workers, output, **options)
    result = result_of(done, source, wanted if done.needed else None, dry_run=dry_run)
    tell_result(result, report, output, lambda: _show(done, result, output))
    output.notes(done.notes)
    return 1 if (dry_run and is_check and done.needed) or done.problems else 0


def _show(done: "UpgradeReport", result: dict[str, Any], output: Output) -> None:
    if done.needed:
        _show_work(done, result["target"], output)
    else:
        output.line(f"{result['source']}: up to date, nothing to do")
    for problem in done.problems:
        output.problem(problem)


def _show_work(done: "UpgradeReport", target: str | None, output: Output) -> None:
    show_chains(done, output)
    if done.resharded:
        output.line("tensors lie in other shards")
    if done.config_after is not None and done.config_before != done.config_after:
        foreign = done.dialect != NATIVE
        way = "becomes qconfig's" if foreign else "is brought to its current version"
        output.line(f"the config in config.json {way}")
    show_written(done, target, output)
