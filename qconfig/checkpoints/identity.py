"""What has to be the same for a run to go on where another was interrupted."""

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from qconfig.checkpoints.planned import Planned
from qconfig.codec.digests import digest
from qconfig.codec.new_files import storage_errors
from qconfig.codec.strict_json import dumps_compact
from qconfig.codec.work_directory import IDENTITY

JOB, SOURCE, SHARDS, BYTES = "job", "source", "shards", "bytes"
"""Keys of a journal's head: what the run does, of what, and how much there is."""


def run_identity(
    planned: Planned, carried: Sequence[Path], config_text: bytes, options: Mapping[str, Any]
) -> dict[str, str]:
    """Return digests of all that the result depends on, by what they are of.

    A file of the source counts as the same while its size, its inode and the times of its last
    change are. Releases count because another one may compute other values.

    Args:
        planned: what is written.
        carried: further files that are copied.
        config_text: content of config.json.
        options: further choices of the caller, as plain data.

    Raises:
        StorageError: a file is missing.
    """
    shards = [] if planned.origin is None else [s.path for s in planned.origin.shards.values()]
    return {
        "source": _digest([_stamp(path) for path in (*shards, *carried)]),
        "config": digest(config_text),
        "options": _digest(options),
        "tensors": planned.identity,
        "release": _release(),
    }


@cache
def _release() -> str:
    return f"qconfig {version('qconfig')}, torch {version('torch')}"


def run_head(job: str, planned: Planned, identity: Mapping[str, str]) -> dict[str, Any]:
    """Return the head of a journal.

    Args:
        job: what is done, in one word.
        planned: what is written.
        identity: see `run_identity`.
    """
    source = None if planned.origin is None else str(planned.origin.place.absolute())
    return {
        IDENTITY: dict(identity),
        JOB: job,
        SOURCE: source,
        SHARDS: len(planned.shards),
        BYTES: sum(planned.sizes.values()),
    }


def _digest(data: Any) -> str:
    return digest(dumps_compact(data).encode())


def _stamp(path: Path) -> list[Any]:
    with storage_errors(path):
        status = path.stat()
    return [path.name, status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns]
