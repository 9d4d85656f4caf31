"""Who does the work of a verb: `--jobs` threads, or the workers of `--executor`."""

from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import click

from qconfig.errors import UsageError

Workers = AbstractContextManager[Executor | None]
"""Gives an executor, or None: this thread works."""

_jobs = click.option(
    "-j",
    "--jobs",
    type=click.IntRange(min=1, max=9999),
    default=None,
    metavar="N",
    help="Work on N shards or, to verify, tensors at a time, in threads.",
)
_executor = click.option(
    "--executor",
    metavar="WORKERS",
    help="Who works: threads=N, processes=N, or the cluster of a Dask scheduler, as in "
    "dask=tcp://host:8786.",
)


def workers(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say who does the work."""
    return _jobs(_executor(command))


@contextmanager
def executor_of(jobs: int | None, description: str | None = None) -> Iterator[Executor | None]:
    """Yield what the options ask for, or None: this thread does it.

    Raises:
        UsageError: both options, or workers of an unknown kind.
        StorageError: a cluster cannot be reached.
    """
    from qconfig.integrations.executors import open_executor

    if jobs is not None and description is not None:
        raise UsageError(
            "two kinds of workers",
            found=f"--jobs {jobs} --executor {description}",
            expected="one of the two options",
            hint="--jobs N is --executor threads=N",
        )
    with open_executor(description or f"threads={jobs or 1}") as executor:
        yield executor
