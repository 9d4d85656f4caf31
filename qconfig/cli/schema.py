"""`qconfig schema`: the JSON Schemas that follow from the registered classes."""

from pathlib import Path

import click

from qconfig.cli.names import complete_name, versioned_entry
from qconfig.cli.output import Output
from qconfig.cli.schema_breaking import command as breaking
from qconfig.cli.verb import PATH, verb
from qconfig.errors import StorageError, UsageError


@click.group("schema", short_help="Show, export and compare JSON Schemas.")
def command() -> None:
    """Show and export JSON Schemas, and find edits that break documents."""


@verb("show", "Print one JSON Schema.", example="qconfig schema show FqnToConfig --version 1")
@click.argument("name", required=False, shell_complete=complete_name)
@click.option("--version", type=int, metavar="N", help="Version; by default the newest.")
def show(*, name: str | None, version: int | None, output: Output) -> None:
    """Print the JSON Schema of a config or layout.

    Without NAME, the schema that holds every config in every version: the one for editors.
    """
    from qconfig.versioning.schema import combined_schema, schema_of, schema_text

    if name is None:
        if version is not None:
            raise UsageError("--version without a name", hint="say which config or layout")
        schema = combined_schema()
    else:
        schema = schema_of(versioned_entry(name, version))
    if output.as_json:
        output.result(schema)
    else:
        output.document(schema_text(schema))


@verb("export", "Write the schemas of all versions.", example="qconfig schema export schemas/")
@click.argument("directory", type=PATH)
def export(*, directory: Path, output: Output) -> None:
    """Write the schemas of all versions to DIRECTORY, one file each, and qconfig.json for editors.

    Files of the same names are replaced.
    """
    from qconfig.versioning import registry
    from qconfig.versioning.schema import COMBINED_PATH, all_schemas, combined_schema, schema_text

    schemas = all_schemas(registry.entries()) | {COMBINED_PATH: combined_schema()}
    for name, schema in schemas.items():
        path = directory / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(schema_text(schema), encoding="utf-8", newline="\n")
        except OSError as error:
            raise StorageError(f"cannot write: {error.strerror}", file=path) from error
    if output.as_json:
        output.result({"directory": str(directory), "files": sorted(schemas)})
        return
    for name in sorted(schemas):
        output.line(str(directory / name))


command.add_command(show)
command.add_command(export)
command.add_command(breaking)
