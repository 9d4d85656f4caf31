"""The names of configs and layouts, as verbs take them."""

import click

from qconfig.errors import UsageError
from qconfig.versioning import Entry, Kind, registry


def versioned_names() -> list[str]:
    """Return the names of all configs and layouts."""
    return list(dict.fromkeys(e.name for e in registry.entries() if e.kind is not Kind.VALUE))


def complete_name(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of configs and layouts that start with what was typed."""
    return sorted(name for name in versioned_names() if name.startswith(incomplete))


def versioned_entry(name: str, version: int | None = None) -> Entry:
    """Return a version of a config or layout, by default the newest.

    Raises:
        UnknownNameError, NewerVersionError: nothing of that name and version is registered.
        UsageError: it is a value, which has neither versions nor a schema of its own.
    """
    entry = registry.get(name, version)
    if entry.kind is Kind.VALUE:
        raise UsageError(
            f"{name} is a value inside configs and layouts: it has no versions and no schema",
            found=name,
            expected="the name of a config or layout",
            hint="qconfig history lists them",
        )
    return entry
