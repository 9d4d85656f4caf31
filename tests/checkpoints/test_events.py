"""One stream of events: what it says, in which order, and what happens if nobody wants it."""

import pickle
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from itertools import count
from pathlib import Path

import pytest
import torch

from qconfig import (
    Int8WeightOnlyConfig,
    convert_checkpoint,
    quantize_checkpoint,
    save_checkpoint,
    upgrade_checkpoint,
    verify_checkpoint,
)
from qconfig.checkpoints.contents import ShardContents
from qconfig.checkpoints.events import EventKind, Phase
from qconfig.checkpoints.job import Job, Stopped
from qconfig.checkpoints.open import open_checkpoint
from qconfig.checkpoints.write import write_checkpoint
from qconfig.codec.tensor_values import LazyTensor
from qconfig.errors import StorageError, UsageError
from tests.checkpoints.builders import (
    checkpoint_of,
    float_checkpoint,
    float_state_dict,
    v1_layout,
)

ROW = Int8WeightOnlyConfig()
SHARDS = [f"model-0000{i}-of-00003.safetensors" for i in (1, 2, 3)]


def quantized(tmp_path, listener=None, **options):
    """Quantize three shards and return the target."""
    source = float_checkpoint(tmp_path / "float", shards=3)
    quantize_checkpoint(source, tmp_path / "int8", ROW, listener=listener, **options)
    return tmp_path / "int8"


def names(directory: Path) -> list[str]:
    """Return what lies in a directory, hidden files included."""
    return sorted(p.name for p in directory.iterdir())


def ticking(listener, name="write"):
    """Return a job whose clock goes on by one second whenever it is asked."""
    seconds = count()
    return Job(name, listener, clock=lambda: float(next(seconds)))


def two_tensors() -> dict[str, ShardContents]:
    """Return the contents of one shard: a tensor in memory and one that is made."""
    made = LazyTensor.of(torch.zeros(4)).map(lambda t: t + 1)
    return {"model.safetensors": ShardContents({"a": LazyTensor.of(torch.ones(2)), "b": made})}


def test_the_stream_begins_with_start_and_ends_with_done(tmp_path):
    """Tensors of a shard come before the shard, between one start and one done."""
    seen = []
    quantized(tmp_path, seen.append)
    kinds = [event.kind for event in seen]
    assert (kinds[0], kinds[-1]) == (EventKind.START, EventKind.DONE)
    assert kinds.count(EventKind.START) == kinds.count(EventKind.DONE) == 1
    assert [e.shard for e in seen if e.kind is EventKind.SHARD] == SHARDS
    for shard in SHARDS:
        assert [e.kind for e in seen if e.shard == shard][-1] is EventKind.SHARD


@pytest.mark.parametrize("jobs", [1, 3])
def test_bytes_add_up(tmp_path, jobs):
    """Bytes of tensors and of shards are those of the whole, in threads too."""
    seen = []
    with ThreadPoolExecutor(jobs) as pool:
        quantized(tmp_path, seen.append, executor=pool)
    tensors = [e for e in seen if e.kind is EventKind.TENSOR]
    shards = [e for e in seen if e.kind is EventKind.SHARD]
    total = seen[0].total
    assert sum(e.bytes for e in tensors) == sum(e.bytes for e in shards) == total > 0
    assert [e.done for e in tensors] == sorted(e.done for e in tensors)
    assert seen[-1].done == total


def test_seconds_never_go_back(tmp_path):
    """Listeners hear of events in the order of their times, from whichever thread."""
    seen = []
    with ThreadPoolExecutor(3) as pool:
        quantized(tmp_path, seen.append, executor=pool)
    assert [e.seconds for e in seen] == sorted(e.seconds for e in seen)


def test_time_is_counted_once(tmp_path):
    """In one thread, what was spent adds up to the seconds of the last event."""
    seen = []
    job = ticking(seen.append)
    write_checkpoint(tmp_path / "t", two_tensors(), {}, job=job)
    job.done()
    spent = [event.spent for event in seen]
    assert sum(sum(s.values()) for s in spent) == seen[-1].seconds
    assert {phase for s in spent for phase in s} == set(Phase) - {Phase.READ}


def test_bringing_files_to_the_disk_is_told_apart(tmp_path):
    """What follows the last tensor of a shard is its flush; `done` has that of directories."""
    seen = []
    job = ticking(seen.append)
    with ThreadPoolExecutor(1) as pool:
        write_checkpoint(tmp_path / "t", two_tensors(), {}, executor=pool, job=job)
    job.done()
    assert [e.kind for e in seen if Phase.FLUSH in e.spent] == [EventKind.SHARD, EventKind.DONE]


class _Later(Executor):
    """An executor that works when it is waited for, in another thread."""

    def __init__(self):
        self.pending = []

    def submit(self, fn, /, *args, **kwargs):
        self.pending.append((Future(), fn, args))
        return self.pending[-1][0]

    def as_completed(self, _):
        while self.pending:
            future, fn, args = self.pending.pop()
            with ThreadPoolExecutor(1) as pool:
                future.set_result(pool.submit(fn, *args).result())
            yield future


def test_waiting_for_threads_does_not_count(tmp_path, monkeypatch):
    """What other threads spend is theirs alone."""
    now, seen, later = [0.0], [], _Later()

    def listen(event):
        seen.append(event)
        now[0] += 100 if event.kind is EventKind.TENSOR else 0

    monkeypatch.setattr("qconfig.checkpoints.gathering.as_completed", later.as_completed)
    job = Job("write", listen, clock=lambda: now[0])
    write_checkpoint(tmp_path / "t", two_tensors(), {}, executor=later, job=job)
    job.done()
    assert seen[-1].seconds == 200
    assert sum(seen[-1].spent.values()) == 0


def test_the_rate_is_counted_from_the_start():
    """What came before the work began does not slow its rate."""
    seen = []
    job = ticking(seen.append)
    for _ in range(10):
        job.switch(Phase.OTHER)
    job.start(100)
    job.tensor("s", "a", 60)
    start, tensor = seen
    assert (start.rate, tensor.done) == (0.0, 60)
    assert tensor.rate == pytest.approx(60 / (tensor.seconds - start.seconds))


def test_reading_and_computing_are_told_apart(tmp_path):
    """What a builder does counts as computed, without the reading inside."""
    seen = []
    quantized(tmp_path, seen.append)
    first = next(e for e in seen if e.tensor == "layers.0.up.weight.qdata")
    assert first.spent[Phase.READ] > 0
    assert first.spent[Phase.COMPUTE] > 0


def test_the_old_callback_goes_on(tmp_path):
    """`progress` is told name, bytes and total of each tensor, beside a listener."""
    seen, calls = [], []
    quantized(tmp_path, seen.append, progress=lambda *call: calls.append(call))
    tensors = [e for e in seen if e.kind is EventKind.TENSOR]
    assert calls == [(e.tensor, e.bytes, e.total) for e in tensors]


@pytest.mark.parametrize("jobs", [1, 3])
@pytest.mark.parametrize("kind", [EventKind.START, EventKind.TENSOR, EventKind.SHARD])
@pytest.mark.parametrize("error", [ValueError("stop"), KeyboardInterrupt(), UsageError("no")])
def test_a_listener_that_raises_ends_the_work(tmp_path, kind, error, jobs):
    """What it raises is raised, and only what another run can go on with is left."""

    def refuse(event):
        if event.kind is kind:
            raise error

    with ThreadPoolExecutor(jobs) as pool, pytest.raises(type(error)) as caught:
        quantized(tmp_path, refuse, executor=None if jobs == 1 else pool)
    assert caught.value is error
    goes_on = kind is EventKind.SHARD and not isinstance(error, UsageError)
    assert names(tmp_path) == [".int8.qconfig-tmp"] * goes_on + ["float"]


def test_after_it_raised_a_listener_hears_nothing_more():
    """Other threads end with their next tensor, by an exception that only says so."""
    seen = []

    def refuse(event):
        seen.append(event)
        raise ValueError("stop")

    job = Job("write", refuse)
    for name, kind in (("a", ValueError), ("b", Stopped)):
        with pytest.raises(kind):
            job.tensor("s", name, 1)
    assert [e.tensor for e in seen] == ["a"]


class _Again(Executor):
    """An executor that runs again what has failed."""

    def submit(self, fn, /, *args, **kwargs):
        future = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except StorageError:
            future.set_result(fn(*args, **kwargs))
        return future


def test_a_shard_that_is_begun_again_is_a_retry(tmp_path):
    """A retry takes back the bytes of its shard and says what had happened."""
    seen, failures = [], [StorageError("the disk is away")]

    def fails_once(tensor):
        if failures:
            raise failures.pop()
        return tensor

    contents = two_tensors()
    contents["model.safetensors"].plain["c"] = LazyTensor.of(torch.ones(3)).map(fails_once)
    job = Job("write", seen.append)
    write_checkpoint(tmp_path / "t", contents, {}, executor=_Again(), job=job)
    kinds = [str(e.kind) for e in seen]
    assert kinds == ["start", *["tensor"] * 2, "retry", *["tensor"] * 3, "shard"]
    retry = seen[3]
    assert (retry.shard, retry.bytes, retry.done) == ("model.safetensors", 24, 0)
    assert "the disk is away" in retry.reason
    assert seen[-1].done == seen[-1].total == 36


@pytest.mark.parametrize("threads", [1, 3])
def test_verify_tells_of_tensors(tmp_path, threads):
    """Each tensor is one event, quantized ones with all their bytes; each shard ends once."""
    target, seen = quantized(tmp_path), []
    with ThreadPoolExecutor(threads) as pool:
        executor = pool if threads > 1 else None
        verify_checkpoint(target, executor=executor, listener=seen.append)
    tensors = [e.tensor for e in seen if e.kind is EventKind.TENSOR]
    assert sorted(tensors) == sorted(open_checkpoint(target).shard_of)
    shards = [e.shard for e in seen if e.kind is EventKind.SHARD]
    assert len(shards) == len(set(shards))
    assert seen[-1].done == seen[0].total


def test_an_upgrade_that_is_verified_is_two_jobs(tmp_path):
    """Verification is a job of its own inside the upgrade, and its time is not counted twice."""
    seen = []
    source = checkpoint_of(tmp_path / "old", {"a.weight": v1_layout()})
    upgrade_checkpoint(source, tmp_path / "new", verify=True, listener=seen.append)
    ends = [e.job for e in seen if e.kind in (EventKind.START, EventKind.DONE)]
    assert ends == ["upgrade", "verify", "verify", "upgrade"]
    own = sum(sum(e.spent.values()) for e in seen if e.job == "upgrade")
    inner = next(e for e in seen if e.job == "verify" and e.kind is EventKind.DONE)
    assert own <= seen[-1].seconds - inner.seconds + 1e-6


def test_an_error_of_ours_from_a_listener_is_no_finding(tmp_path):
    """What a listener raises during verification is raised, and not taken for a problem."""

    def refuse(event):
        if event.job == "verify":
            raise UsageError("no")

    source = checkpoint_of(tmp_path / "old", {"a.weight": v1_layout()})
    with pytest.raises(UsageError, match="no"):
        upgrade_checkpoint(source, tmp_path / "new", verify=True, listener=refuse)


@pytest.mark.parametrize("dry_run", [True, False])
def test_nothing_to_do_is_done_at_once(tmp_path, dry_run):
    """A checkpoint that is up to date gives a start without bytes, and done."""
    seen = []
    upgrade_checkpoint(quantized(tmp_path), tmp_path / "new", dry_run=dry_run, listener=seen.append)
    assert [(e.kind, e.total) for e in seen] == [(EventKind.START, 0), (EventKind.DONE, 0)]


def test_every_writer_has_a_listener(tmp_path):
    """Saving and converting tell the same kinds of events under their own names."""
    seen = []
    save_checkpoint(float_state_dict(), tmp_path / "saved", listener=seen.append)
    convert_checkpoint(quantized(tmp_path), tmp_path / "torchao", listener=seen.append)
    assert {e.job for e in seen} == {"save", "convert"}
    assert {e.kind for e in seen} == set(EventKind) - {EventKind.RETRY}


def test_without_a_listener_the_clock_is_not_asked(tmp_path):
    """Nobody to tell, nothing to measure."""

    def clock():
        raise AssertionError

    write_checkpoint(tmp_path / "t", two_tensors(), {}, job=Job("write", None, clock=clock))
    assert (tmp_path / "t" / "model.safetensors").exists()


def test_a_job_in_another_process_is_silent():
    """A job can be sent to a process that has nobody to tell."""
    copy = pickle.loads(pickle.dumps(Job("write", print)))
    copy.start(1)
    with copy.shard("s", {}) as report:
        report("t", 1)
    copy.shard_done("s")


def test_a_log_has_no_empty_keys():
    """Plain data of an event holds what there is, and rounds seconds to microseconds."""
    seen = []
    job = ticking(seen.append)
    job.start(8)
    assert seen[0].to_dict() == {
        "event": "start",
        "job": "write",
        "bytes": 0,
        "done": 0,
        "total": 8,
        "seconds": 2.0,
        "rate": 0.0,
        "spent": {"other": 2.0},
    }
