"""A job that tells a listener how far it is, and what its time is spent on."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from threading import Lock, local
from time import monotonic
from typing import TYPE_CHECKING, Any

from attrs import define, evolve, field

from qconfig.checkpoints.events import Event, EventKind, Listener, Phase
from qconfig.codec.layout_values import present_fields, with_values
from qconfig.codec.tensor_values import LazyTensor
from qconfig.versioning import Layout

if TYPE_CHECKING:
    import torch

    from qconfig.checkpoints.checkpoint import Checkpoint


@define
class _Lap:
    """What one thread is at, since when, and what it has spent since its last event."""

    phase: Phase | None = None
    since: float = 0.0
    spent: dict[Phase, float] = field(factory=dict)


class Stopped(Exception):  # noqa: N818 - no error: another thread has one
    """The work of this thread ends because that of another has failed."""


class Job:
    """One run of long work; its methods may be called from several threads.

    Without a listener nothing is measured. A job that is sent to another process is one without a
    listener there.

    Args:
        name: what is done, in one word.
        listener: hears of every step.
        clock: seconds that never go back.
    """

    def __init__(
        self, name: str, listener: Listener | None, *, clock: Callable[[], float] = monotonic
    ) -> None:
        self.name, self._listener, self._clock = name, listener, clock
        self._lock, self._laps = Lock(), local()
        self._begin, self._started = 0.0, 0.0
        self._done, self._total, self._has_started = 0, 0, False
        self._shards: dict[str, int] = {}
        self._reasons: dict[str, str] = {}
        self._unsaid: dict[str, dict[Phase, float]] = {}
        self._is_stopped = False
        self._has_torch = False
        if listener is not None:
            self.switch(Phase.OTHER)
            self._begin = self._started = self._lap().since

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what a copy in another process is made from: it has nobody to tell."""
        return Job, (self.name, None)

    def start(self, total: int) -> None:
        """Say that everything is known and the work begins.

        Args:
            total: bytes of all tensors.
        """
        if self._listener is not None:
            self._total, self._has_started = total, True
            self._emit(EventKind.START)

    def tensor(self, shard: str, name: str, count: int) -> None:
        """Say that a tensor of `count` bytes is finished."""
        self._emit(EventKind.TENSOR, shard=shard, tensor=name, count=count)

    def shard_done(self, name: str) -> None:
        """Say that a shard is finished, and will be kept."""
        spent = self._unsaid.pop(name, {})
        self._emit(EventKind.SHARD, shard=name, count=self._shards.get(name, 0), spent=spent)

    def done(self) -> None:
        """Say that everything is finished."""
        if not self._has_started:
            self.start(0)
        self._emit(EventKind.DONE)

    def shard_counted(self, name: str, count: int) -> None:
        """Say that a shard is finished that this process has not written, of `count` bytes."""
        with self._lock:
            self._done += count
            self._shards[name] = count
        self.shard_done(name)

    def begin_again(self, name: str, reason: str) -> None:
        """Say that a shard which was finished has to be made again."""
        self._shards.setdefault(name, 0)
        self._reasons[name] = reason

    @contextmanager
    def shard(
        self, name: str, tensors: Mapping[str, LazyTensor]
    ) -> Iterator[Callable[[str, int], None]]:
        """Yield what is called with name and bytes of each tensor that is written of a shard.

        Its end is not told: see `shard_done`. A shard that is begun a second time, by an executor
        that repeats what failed, is a retry.

        Args:
            name: of its file.
            tensors: all that will be written.
        """
        if self._listener is None:
            yield lambda *_: self._check_going_on()
            return
        before, rest = self.switch(Phase.WRITE), len(tensors)

        def report(tensor: str, count: int) -> None:
            nonlocal rest
            self.tensor(name, tensor, count)
            rest -= 1
            if not rest:  # what is left to do is to bring the file to the disk
                self.switch(Phase.FLUSH)

        try:
            if name in self._shards:
                reason = self._reasons.pop(name, None)
                self._emit(EventKind.RETRY, shard=name, count=self._shards[name], reason=reason)
            self._shards[name] = 0
            yield report
            self.switch(before)
            self._unsaid[name] = self._take_spent()
        except BaseException as error:
            self._reasons[name] = (str(error) or type(error).__name__).split("\n")[0]
            raise
        finally:
            self.switch(before)

    def switch(self, phase: Phase | None) -> Phase | None:
        """Count the time of this thread as spent on `phase` from now on; return the last phase.

        Args:
            phase: None for time that does not count, as that of waiting for other threads.
        """
        if self._listener is None:
            return None
        lap, now = self._lap(), self._clock()
        if lap.phase is not None:
            lap.spent[lap.phase] = lap.spent.get(lap.phase, 0.0) + now - lap.since
        before, lap.phase, lap.since = lap.phase, phase, now
        return before

    @contextmanager
    def phase(self, phase: Phase | None) -> Iterator[None]:
        """Count what is done inside as `phase`, see `switch`."""
        if phase in (Phase.READ, Phase.COMPUTE):
            self._import_torch()
        before = self.switch(phase)
        try:
            yield
        finally:
            self.switch(before)

    def stop(self) -> None:
        """Let every thread that works on this job end with its next tensor, by `Stopped`."""
        self._is_stopped = True

    def _check_going_on(self) -> None:
        if self._is_stopped:
            raise Stopped

    def reading(self, checkpoint: "Checkpoint") -> "Checkpoint":
        """Return a checkpoint of which each tensor that is loaded counts as read."""
        if self._listener is None:
            return checkpoint
        return evolve(
            checkpoint,
            plain={name: self._timed(t, Phase.READ) for name, t in checkpoint.plain.items()},
            layouts={fqn: self._read(layout) for fqn, layout in checkpoint.layouts.items()},
        )

    def computing(self, tensors: Mapping[str, LazyTensor]) -> Mapping[str, LazyTensor]:
        """Return tensors of which each that is made, not copied, counts as computed."""
        if self._listener is None:
            return tensors
        return {
            name: self._timed(tensor, Phase.COMPUTE) if tensor.source is None else tensor
            for name, tensor in tensors.items()
        }

    def _import_torch(self) -> None:
        """Import what takes seconds the first time, so that no tensor is said to take them."""
        if self._listener is not None and not self._has_torch:
            before = self.switch(Phase.OTHER)
            import_module("qconfig.tensors.classes")
            self.switch(before)
            self._has_torch = True

    def _read(self, layout: Layout) -> Layout:
        fields = {name: getattr(layout, name) for name in present_fields(layout)}
        return with_values(layout, {n: self._timed(t, Phase.READ) for n, t in fields.items()})

    def _timed(self, tensor: LazyTensor, phase: Phase) -> LazyTensor:
        load, read, parts = tensor.load, tensor.read, tensor.parts

        def timed(call: "Callable[..., Any]", *given: Any) -> Any:
            self._import_torch()
            before = self.switch(phase)
            try:
                return call(*given)
            finally:
                self.switch(before)

        def timed_parts(multiple: int) -> "Iterator[torch.Tensor]":
            made = parts(multiple) if parts else iter(())
            while (part := timed(next, made, None)) is not None:
                yield part
                del part

        return evolve(
            tensor,
            load=partial(timed, load),
            read=read and partial(timed, read),
            parts=timed_parts if parts else None,
        )

    def _lap(self) -> _Lap:
        try:
            lap: _Lap = self._laps.lap
        except AttributeError:
            lap = self._laps.lap = _Lap()
        return lap

    def _emit(
        self,
        kind: EventKind,
        *,
        shard: str | None = None,
        tensor: str | None = None,
        count: int = 0,
        reason: str | None = None,
        spent: Mapping[Phase, float] | None = None,
    ) -> None:
        listener = self._listener
        if listener is None:
            return
        # Waiting for other listeners and listening itself are no part of the phase.
        before = self.switch(Phase.OTHER)
        try:
            with self._lock:
                self._check_going_on()
                self.switch(Phase.OTHER)
                now, whole = self._lap().since, self._take_spent()
                for phase, seconds in (spent or {}).items():
                    whole[phase] = whole.get(phase, 0.0) + seconds
                self._count(kind, shard, count, now)
                elapsed = now - self._started
                event = Event(
                    kind=kind,
                    job=self.name,
                    shard=shard,
                    tensor=tensor,
                    bytes=count,
                    done=self._done,
                    total=self._total,
                    seconds=now - self._begin,
                    rate=self._done / elapsed if elapsed > 0 else 0.0,
                    spent=whole,
                    reason=reason,
                )
                try:
                    listener(event)
                except BaseException:
                    self.stop()
                    raise
        finally:
            self.switch(before)

    def _take_spent(self) -> dict[Phase, float]:
        """Return what this thread has spent since it was last asked, up to its last switch."""
        lap = self._lap()
        spent, lap.spent = lap.spent, {}
        return spent

    def _count(self, kind: EventKind, shard: str | None, count: int, now: float) -> None:
        if kind is EventKind.START:
            self._started = now
        elif kind is EventKind.TENSOR and shard is not None:
            self._done += count
            self._shards[shard] = self._shards.get(shard, 0) + count
        elif kind is EventKind.RETRY:
            self._done -= count
        elif kind is EventKind.DONE:
            self._done = self._total
