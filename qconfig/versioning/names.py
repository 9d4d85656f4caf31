"""File names of registered names."""

import re

_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def snake_name(name: str) -> str:
    """Return the folder and module name of a registered name (`FqnToConfig`: `fqn_to_config`)."""
    return _BOUNDARY.sub("_", name).lower()


def schema_path(name: str, version: int) -> str:
    """Return where the schema of a version lies below `schemas/`, with forward slashes."""
    return f"{snake_name(name)}/v{version}.json"
