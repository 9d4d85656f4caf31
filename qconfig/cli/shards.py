"""The options of verbs that write shards: their size, and a list of their sums."""

from collections.abc import Callable
from typing import Any

import click

from qconfig.cli.sizes import parse_size

_max_shard_size = click.option(
    "--max-shard-size",
    metavar="SIZE",
    help="Begin a new shard at this size, such as 5GB or 4GiB; shards stay as they are otherwise.",
)
_sha256 = click.option(
    "--sha256", is_flag=True, help="Also write SHA256SUMS, which verify and sha256sum -c check."
)


_max_memory = click.option(
    "--max-memory",
    metavar="SIZE",
    help="Work within so much memory, such as 4GiB; each worker that is a process has as much.",
)


def shards(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of shards that are written; see `shard_options`."""
    return _max_shard_size(_max_memory(_sha256(command)))


def shard_options(
    max_shard_size: str | None, *, sha256: bool, max_memory: str | None
) -> dict[str, Any]:
    """Return what functions that write checkpoints take, from the options of `shards`.

    Raises:
        UsageError: not a size.
    """
    size = None if max_shard_size is None else parse_size(max_shard_size)
    memory = None if max_memory is None else parse_size(max_memory)
    return {"max_shard_bytes": size, "sha256": sha256, "max_memory": memory}
