"""JSON Schemas (draft 2020-12) of every version, generated from the classes.

`<snake_name>/v<n>.json` describes one version and never changes once a later one has been released;
`qconfig.json` takes any config in any version, for editors; `released/` holds what each release
fixed (see `qconfig.versioning.released`). `python -m tests.regenerate` writes the files.
"""

import json
from importlib.resources import files
from typing import Any

from qconfig.errors import UnknownNameError
from qconfig.versioning.names import schema_path
from qconfig.versioning.registry import registry

__all__ = ["read_combined_schema", "read_schema"]


def read_schema(name: str, version: int | None = None) -> dict[str, Any]:
    """Return the schema of a registered config or layout as it lies in its file.

    Args:
        name: the registered name, such as `FqnToConfig`.
        version: None for the newest.

    Raises:
        UnknownNameError: nobody registered the name, or it is a plug-in's or a value's, which
            have no file here; `qconfig.versioning.schema.schema_of` makes a plug-in's.
        NewerVersionError: the version is newer than the newest known.
        FieldError: the version is not a known positive integer.
    """
    entry = registry.get(name, version)
    file = files("qconfig.schemas").joinpath(*schema_path(entry.name, entry.version).split("/"))
    if not file.is_file():
        raise UnknownNameError("no schema file is shipped", found=str(entry))
    schema: dict[str, Any] = json.loads(file.read_text("utf-8"))
    return schema


def read_combined_schema() -> dict[str, Any]:
    """Return the schema of all configs in all versions."""
    text = files("qconfig.schemas").joinpath("qconfig.json").read_text("utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema
