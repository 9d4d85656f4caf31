"""`qconfig plan`: what quantizing a checkpoint would do to each tensor; nothing is written."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from qconfig.cli.output import Output, human_bytes, shape_text
from qconfig.cli.tables import Column
from qconfig.cli.verb import PATH, allow_unmatched, dialect, follow_symlinks, verb

if TYPE_CHECKING:
    from qconfig.engine.plan_document import Plan, PlanEntry

_COLUMNS = (
    Column("tensor"),
    Column("shape"),
    Column("rule"),
    Column("config"),
    Column("layout"),
    Column("bytes before", right=True),
    Column("bytes after", right=True),
    Column("bits/weight", right=True),
)


@verb("plan", "Show what quantizing would do.", example="qconfig plan model/ quant.json")
@click.argument("model", type=PATH)
@click.argument("config", type=PATH)
@click.option("--all", "everything", is_flag=True, help="List what stays as it is, with reasons.")
@allow_unmatched
@dialect
@follow_symlinks
def command(
    *,
    model: Path,
    config: Path,
    everything: bool,
    allow_unmatched: bool,
    dialect: str | None,
    follow_symlinks: bool,
    output: Output,
) -> None:
    """Show what CONFIG would do to MODEL, a checkpoint directory or one file.

    Only headers are read. A rule that matches nothing is an error unless it is optional. Module
    classes are inferred from names, since a checkpoint does not hold them.
    """
    from qconfig.api import load_config
    from qconfig.checkpoints.open import open_checkpoint
    from qconfig.checkpoints.quantize import plan_checkpoint

    checkpoint = open_checkpoint(model, follow_symlinks=follow_symlinks, dialect=dialect)
    plan = plan_checkpoint(checkpoint, load_config(config), allow_unmatched=allow_unmatched)
    if output.as_json:
        output.result(plan.to_dict())
        return
    show_plan(plan, output, everything=everything)
    output.notes(plan.notes)


def show_plan(plan: "Plan", output: Output, *, everything: bool) -> None:
    """Print the table of a plan and its totals.

    Args:
        plan: what is shown.
        output: where it goes.
        everything: list what stays as it is, too.
    """
    columns = (*_COLUMNS, Column("reason")) if everything else _COLUMNS
    rows = [
        [*_cells(plan, entry), entry.reason][: len(columns)]
        for entry in plan.entries
        if everything or entry.layout is not None
    ]
    if rows:
        output.table(columns, rows)
        output.line()
    left = len(plan.entries) - len(rows)
    if left:
        output.line(f"{left} more stay as they are; --all lists them")
    output.line(totals(plan))


def totals(plan: "Plan") -> str:
    """Return the totals of a plan in one line."""
    total = plan.totals
    sizes = (human_bytes(total[key]) for key in ("bytes_before", "bytes_after"))
    bits = total["bits_per_weight"]
    return (
        f"{total['quantize']} of {total['parameters']} tensors quantized, {' -> '.join(sizes)}"
        + (f", {bits:.2f} bits/weight" if bits is not None else "")
    )


def _cells(plan: "Plan", entry: "PlanEntry") -> list[str]:
    bits = entry.bits_per_weight
    return [
        entry.fqn,
        shape_text(entry.shape),
        _rule(plan, entry),
        entry.config or "",
        f"{entry.layout} v{entry.layout_version}" if entry.layout else entry.action.value,
        str(entry.bytes_before),
        str(entry.bytes_after),
        "" if bits is None else f"{bits:.2f}",
    ]


def _rule(plan: "Plan", entry: "PlanEntry") -> str:
    if entry.rule is None:
        return entry.how.value if entry.config is not None else ""
    return f"{entry.rule}: {plan.rules[entry.rule].match}"
