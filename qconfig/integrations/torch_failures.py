"""What torch.distributed.checkpoint raises, as errors of ours."""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner

from qconfig.errors import CheckpointError, QconfigError, StorageError

_ALONE = "torch.distributed is disabled, unavailable or uninitialized"
_NO_METADATA = "metadata is None"


@contextmanager
def translated(place: Path) -> Iterator[None]:
    """Let errors of ours through as they are, and translate others; a single process is no warning.

    Raises:
        QconfigError: the first of ours that a process had.
        StorageError: the file system refused, or there is no metadata.
        CheckpointError: something else that torch found.
    """
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", _ALONE, UserWarning)
            yield
    except CheckpointException as error:
        failures = error.failures
        chosen = _first_ofas_ours(failures) or min(failures, default=None)
        if chosen is None:
            raise CheckpointError("torch.distributed.checkpoint failed", file=place) from error
        raise as_ours(failures[chosen][0], place) from error
    except OSError as error:
        raise as_ours(error, place) from error


class Refusing(DefaultSavePlanner):
    """Raises an error where torch hands it to all processes, before a file is written."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self._error = error

    def set_up_planner(self, *_arguments: Any, **_options: Any) -> None:
        """Raise the error."""
        raise self._error


def _first_ofas_ours(failures: Mapping[int, object]) -> int | None:
    ranks = sorted(rank for rank, failure in failures.items() if _isas_ours(failure))
    return ranks[0] if ranks else None


def _isas_ours(failure: object) -> bool:
    return isinstance(failure, tuple) and isinstance(failure[0], QconfigError)


def as_ours(error: BaseException, place: Path) -> BaseException:
    """Return an error of ours for what torch or a user's object raised.

    Args:
        error: one of ours, which is returned, or another one.
        place: where the checkpoint lies.
    """
    if isinstance(error, QconfigError):
        return error.at(file=place)
    if not isinstance(error, Exception):
        return error  # such as KeyboardInterrupt
    if isinstance(error, OSError):
        said = error.strerror or str(error)
        return StorageError(f"the file system refused: {said}", file=error.filename or place)
    first = next(iter(str(error).strip().splitlines()), "")
    if _NO_METADATA in first:
        return StorageError(
            "there is no checkpoint of torch.distributed.checkpoint, or its metadata is damaged",
            file=place,
            hint=first,
        )
    return CheckpointError(
        "torch.distributed.checkpoint failed", file=place, found=type(error).__name__, hint=first
    )
