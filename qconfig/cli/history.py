"""`qconfig history`: the versions of configs and layouts, and the steps between them."""

from typing import Any

import click

from qconfig.cli.names import complete_name, versioned_entry, versioned_names
from qconfig.cli.output import Output
from qconfig.cli.verb import verb
from qconfig.versioning import Step, registry


@verb(
    "history",
    "Show versions and the steps between them.",
    example="qconfig history Int8TensorLayout",
)
@click.argument("name", required=False, shell_complete=complete_name)
def command(*, name: str | None, output: Output) -> None:
    """Show the versions of configs and layouts, newest first, and the steps between them.

    NAME is a registered name; without it all are shown.
    """
    names = versioned_names() if name is None else [versioned_entry(name).name]
    if output.as_json:
        output.result({"names": [chain(n) for n in names]})
        return
    for i, each in enumerate(names):
        if i:
            output.line()
        _show(chain(each), output)


def chain(name: str) -> dict[str, Any]:
    """Return the versions and steps of a registered name as plain data."""
    entries = registry.versions(name)
    return {
        "name": name,
        "kind": entries[0].kind.value,
        "versions": [
            {"version": e.version, "current": registry.is_current(e), "title": e.title}
            for e in entries
        ],
        "steps": [_step(s) for s in registry.steps() if s.source.name == name],
    }


def _step(step: Step) -> dict[str, Any]:
    return {
        "from_version": step.source.version,
        "to_name": step.target.name,
        "to_version": step.target.version,
        "title": step.doc,
        "lossless": step.lossless,
        "drops": step.drops,
    }


def _show(history: dict[str, Any], output: Output) -> None:
    output.line(f"{history['name']} ({history['kind']})", bold=True)
    own = [s for s in history["steps"] if s["to_name"] == history["name"]]
    steps = {(s["from_version"], s["to_version"]): s for s in own}
    for s in history["steps"]:
        if s["to_name"] != history["name"]:
            output.line(
                f"  ended: v{s['from_version']} -> {s['to_name']} v{s['to_version']}  {s['title']}"
            )
            _show_effect(s, output)
    for version in reversed(history["versions"]):
        number = version["version"]
        mark = " (current)" if version["current"] else ""
        output.line(f"  v{number}{mark}  {version['title']}")
        for edge in ((number - 1, number), (number, number - 1)):
            if edge in steps:
                _show_step(edge, steps[edge], output)


def _show_step(edge: tuple[int, int], step: dict[str, Any], output: Output) -> None:
    output.line(f"    v{edge[0]} -> v{edge[1]}  {step['title']}")
    _show_effect(step, output)


def _show_effect(step: dict[str, Any], output: Output) -> None:
    effect = "lossless" if step["lossless"] else f"drops {step['drops']}"
    output.line(f"              {effect}", fg=None if step["lossless"] else "yellow")
