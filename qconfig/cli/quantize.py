"""`qconfig quantize`: a checkpoint quantized file to file."""

from pathlib import Path

import click

from qconfig.cli.kinds import check_directory
from qconfig.cli.output import Output
from qconfig.cli.plan import totals
from qconfig.cli.progress import progress
from qconfig.cli.shards import shard_options, shards
from qconfig.cli.verb import PATH, allow_unmatched, dialect, follow_symlinks, observed, verb
from qconfig.cli.workers import executor_of, workers


@verb(
    "quantize",
    "Quantize a checkpoint, file to file.",
    example="qconfig quantize model/ model-int8/ --config quant.json --jobs 4",
)
@click.argument("source", type=PATH)
@click.argument("target", type=PATH)
@click.option(
    "-c",
    "--config",
    "config_file",
    type=PATH,
    required=True,
    metavar="FILE",
    help="The config: JSON, YAML or TOML.",
)
@click.option(
    "--calibration",
    "calibration_directory",
    type=PATH,
    metavar="DIR",
    help="What calibrate observed and Calibration.save wrote.",
)
@allow_unmatched
@dialect
@shards
@workers
@observed
@follow_symlinks
def command(
    *,
    source: Path,
    target: Path,
    config_file: Path,
    calibration_directory: Path | None,
    allow_unmatched: bool,
    dialect: str | None,
    max_shard_size: str | None,
    max_memory: str | None,
    sha256: bool,
    jobs: int | None,
    executor: str | None,
    follow_symlinks: bool,
    output: Output,
) -> None:
    """Quantize the checkpoint SOURCE into the new directory TARGET.

    SOURCE is never touched, and TARGET appears whole or not at all. One tensor and what is made of
    it are in memory at a time, per job. See first what would be done with qconfig plan.
    """
    from qconfig.api import load_config
    from qconfig.calibration.calibration import Calibration
    from qconfig.checkpoints.quantize import quantize_checkpoint

    options = shard_options(max_shard_size, sha256=sha256, max_memory=max_memory)
    check_directory(target)
    config = load_config(config_file)
    known = None if calibration_directory is None else Calibration.load(calibration_directory)
    with executor_of(jobs, executor) as pool, progress(output) as listener:
        plan = quantize_checkpoint(
            source,
            target,
            config,
            allow_unmatched=allow_unmatched,
            calibration=known,
            executor=pool,
            listener=listener,
            follow_symlinks=follow_symlinks,
            dialect=dialect,
            **options,
        )
    if output.as_json:
        result = {"source": str(source), "target": str(target), "plan": plan.to_dict()}
        output.result(result)
    else:
        output.line(totals(plan))
        output.line(f"written to {target}")
    output.notes(plan.notes)
