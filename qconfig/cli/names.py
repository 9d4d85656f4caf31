"""Completion of registered names in the shell."""

import click


def complete_name(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of configs and layouts that start with what was typed."""
    from qconfig.versioning import Kind, registry

    names = {entry.name for entry in registry.entries() if entry.kind is not Kind.VALUE}
    return sorted(name for name in names if name.startswith(incomplete))
