"""What long work says while it goes on: one stream of events, for bars, logs and callbacks."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, Protocol

from attrs import Factory, frozen

Progress = Callable[[str, int, int], None]
"""Called with the name and the bytes of a tensor that is stored now, and the bytes of all."""


class EventKind(StrEnum):
    """What has happened."""

    START = "start"
    TENSOR = "tensor"
    SHARD = "shard"
    RETRY = "retry"
    DONE = "done"


class Phase(StrEnum):
    """What time is spent on. Byte ranges that go from file to file count as written."""

    READ = "read"
    COMPUTE = "compute"
    WRITE = "write"
    FLUSH = "flush"
    OTHER = "other"


@frozen(kw_only=True)
class Event:
    """One step of a job.

    Args:
        kind: `start`, when it is known what there is to do; `tensor` and `shard`, when one is
            finished (a shard is on the disk then); `retry`, when a shard is begun again; `done`,
            when everything is.
        job: `quantize`, `upgrade`, `convert`, `verify` or `save`.
        shard: name of the file, of all kinds but `start` and `done`.
        tensor: name of the tensor, of the kind `tensor`.
        bytes: of this tensor or shard; what a retry takes back.
        done: bytes that are finished.
        total: bytes that there are.
        seconds: since the job was called, by a clock that never goes back.
        rate: bytes a second since `start`.
        spent: seconds that the calling thread has spent since its last event, by phase.
        reason: why a shard is begun again, where that is known.
    """

    kind: EventKind
    job: str
    shard: str | None = None
    tensor: str | None = None
    bytes: int = 0
    done: int = 0
    total: int = 0
    seconds: float = 0.0
    rate: float = 0.0
    spent: Mapping[Phase, float] = Factory(dict)
    reason: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for a log; what is not there has no key."""
        names = {"shard": self.shard, "tensor": self.tensor, "reason": self.reason}
        return {
            "event": str(self.kind),
            "job": self.job,
            **{key: value for key, value in names.items() if value is not None},
            "bytes": self.bytes,
            "done": self.done,
            "total": self.total,
            "seconds": round(self.seconds, 6),
            "rate": round(self.rate, 1),
            "spent": {str(phase): round(spent, 6) for phase, spent in self.spent.items()},
        }


class Listener(Protocol):
    """Anything that can be called with an event.

    Calls come one at a time and in the order of `seconds`, from whichever thread has done the
    work. What a listener raises ends the job.
    """

    def __call__(self, event: Event, /) -> None:
        """Take notice of an event."""


def joined(listener: Listener | None, progress: Progress | None) -> Listener | None:
    """Return a listener that tells both, where there are both."""
    if progress is None:
        return listener
    tell = progress

    def both(event: Event, /) -> None:
        if listener is not None:
            listener(event)
        if event.kind is EventKind.TENSOR and event.tensor is not None:
            tell(event.tensor, event.bytes, event.total)

    return both
