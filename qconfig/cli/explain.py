"""`qconfig explain`: which rule decides about one module or parameter, and why no other does."""

from pathlib import Path

import click

from qconfig.cli.output import Output, counted
from qconfig.cli.tables import Column
from qconfig.cli.verb import PATH, verb

_COLUMNS = (
    Column("rule", right=True),
    Column("match"),
    Column("config"),
    Column("outcome"),
    Column("reason"),
)


@verb(
    "explain",
    "Say which rule decides about one name.",
    example="qconfig explain quant.json model.layers.0.mlp.up_proj",
)
@click.argument("config", type=PATH)
@click.argument("fqn")
@click.option(
    "--module-class",
    metavar="CLASS",
    help="Class of the module, such as Linear; by default it is inferred from the name.",
)
@click.option("--all", "everything", is_flag=True, help="List the rules that do not match, too.")
def command(
    *,
    config: Path,
    fqn: str,
    module_class: str | None,
    everything: bool,
    output: Output,
) -> None:
    """Say which rule of CONFIG decides about FQN, and what became of the others.

    FQN is the name of a parameter, or of a module; then its weight is meant.
    """
    from qconfig.api import explain, load_config
    from qconfig.rules.explain import Outcome

    explanation = explain(fqn, load_config(config), module_class=module_class)
    if output.as_json:
        output.result(explanation.to_dict())
        return
    output.line(str(explanation).partition("\n")[0], bold=True)
    lines = [x for x in explanation.lines if everything or x.outcome is not Outcome.NO_MATCH]
    rows = [
        [
            "" if x.rule is None else str(x.rule),
            x.match,
            x.config or "skip",
            x.outcome.value.replace("_", " "),
            x.reason,
        ]
        for x in lines
    ]
    if rows:
        output.line()
        output.table(_COLUMNS, rows)
    left = len(explanation.lines) - len(lines)
    if left:
        output.note(f"note: no match: {counted(left, 'rule')}; --all lists them")
