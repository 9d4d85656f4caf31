"""`qconfig schema breaking`: edits of released schemas that break documents."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from qconfig.cli.output import Output, counted
from qconfig.cli.verb import verb
from qconfig.errors import UsageError, printable

if TYPE_CHECKING:
    from qconfig.versioning.breaking_constraints import BreakingChange


@verb(
    "breaking",
    "Find edits that break documents.",
    example="qconfig schema breaking --against v0.1.0 --format github",
)
@click.option(
    "--against",
    required=True,
    metavar="DIR|REF",
    help="A schemas folder, or a branch, tag or commit of the git repository here.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "github"]),
    default="text",
    show_default=True,
    help="How to print what is found; github makes annotations of it.",
)
def command(*, against: str, form: str, output: Output) -> int:
    """Find edits that break documents of an earlier state; exit code 1 if there are any.

    The registered classes are compared with the schemas at --against. A version that was there must
    accept the same documents, with the same meaning; a change needs a new version.
    """
    from qconfig.versioning import registry
    from qconfig.versioning.breaking import compare_trees
    from qconfig.versioning.schema import all_schemas
    from qconfig.versioning.schema_tree import read_tree, read_tree_at_git_ref

    folder = Path(against)
    old = read_tree(folder) if folder.is_dir() else read_tree_at_git_ref(against)
    if not old:
        raise UsageError(
            "there are no schemas to compare with",
            found=against,
            expected="a folder or commit with files such as fqn_to_config/v1.json",
        )
    changes = compare_trees(old, all_schemas(registry.entries()))
    if output.as_json or form == "json":
        result = {
            "against": against,
            "schemas": len(old),
            "changes": [_plain(change) for change in changes],
        }
        output.result(result)
        return 1 if changes else 0
    for change in changes:
        output.line(_github(change) if form == "github" else str(change))
    if form == "text":
        summary = counted(len(changes), "breaking change") if changes else "nothing breaks"
        output.line(f"{summary} against {against} ({counted(len(old), 'schema')})")
    if changes:
        output.note("note: make a new version of the class, with a step to it, instead")
    return 1 if changes else 0


def _plain(change: "BreakingChange") -> dict[str, Any]:
    return {
        "path": change.path,
        "pointer": change.pointer,
        "kind": change.kind.value,
        "message": change.message,
    }


def _github(change: "BreakingChange") -> str:
    """Return a workflow command of GitHub Actions; in it, some characters have to be escaped."""
    file = _escaped(f"schemas/{change.path}", ":,")
    message = _escaped(f"{change.pointer}: {change.message}", "")
    return f"::error file={file},title={change.kind.value}::{message}"


def _escaped(text: str, further: str) -> str:
    text = printable(text).replace("%", "%25")
    for character in further:
        text = text.replace(character, f"%{ord(character):02X}")
    return text
