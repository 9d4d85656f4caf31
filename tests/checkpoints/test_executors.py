"""Shards are written by any executor: in threads, in other processes, in any order."""

import multiprocessing
import os
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial

import pytest
import torch

from qconfig import (
    Int8WeightOnlyConfig,
    convert_checkpoint,
    load_checkpoint,
    quantize_checkpoint,
    save_checkpoint,
    upgrade_checkpoint,
    verify_checkpoint,
)
from qconfig.checkpoints.contents import ShardContents
from qconfig.checkpoints.events import EventKind
from qconfig.checkpoints.open import open_checkpoint
from qconfig.checkpoints.planned import Planned
from qconfig.checkpoints.shard_task import RunAgain, ShardTask
from qconfig.checkpoints.shared import Shared
from qconfig.checkpoints.write import write_checkpoint
from qconfig.codec.tensor_values import LazyTensor
from qconfig.errors import CheckpointError, ContainerError, QconfigError, StorageError, UsageError

_SHARDS = 4


def _tree(directory):
    return {p.name: p.read_bytes() for p in sorted(directory.iterdir())}


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A checkpoint of four shards of different sizes, with a further file."""
    folder = tmp_path_factory.mktemp("executors") / "float"
    generator = torch.Generator().manual_seed(0)
    model = {
        f"layers.{i}.weight": torch.randn(32 * (i + 1), 32, generator=generator)
        for i in range(_SHARDS)
    }
    save_checkpoint(model, folder, max_shard_bytes=1)
    (folder / "tokenizer.json").write_text("{}")
    return folder


@pytest.fixture(scope="module")
def processes():
    """Two processes that share nothing with this one."""
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


class Recording(Executor):
    """Works at once and notes the order."""

    def __init__(self):
        self.names = []

    def submit(self, fn, /, *args, **kwargs):
        self.names.append(fn.function.name)
        future = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except QconfigError as error:
            future.set_exception(error)
        return future


_JOBS = {
    "quantize": partial(quantize_checkpoint, config=Int8WeightOnlyConfig()),
    "upgrade": upgrade_checkpoint,
    "convert": convert_checkpoint,
}


def _input(job, source, tmp_path):
    if job == "quantize":
        return source
    quantize_checkpoint(source, tmp_path / "int8", Int8WeightOnlyConfig())
    if job == "convert":
        return tmp_path / "int8"
    convert_checkpoint(tmp_path / "int8", tmp_path / "theirs")
    return tmp_path / "theirs"


@pytest.mark.parametrize("job", list(_JOBS))
def test_other_processes_write_the_same_bytes(tmp_path, source, processes, job):
    """They plan the work themselves, from the same call, and the plan is the same."""
    given = _input(job, source, tmp_path)
    _JOBS[job](given, tmp_path / "serial")
    _JOBS[job](given, tmp_path / "parallel", executor=processes)
    assert _tree(tmp_path / "parallel") == _tree(tmp_path / "serial")


def test_shards_of_other_processes_are_told(tmp_path, source, processes):
    """Their tensors are not, but the bytes add up."""
    seen = []
    quantize_checkpoint(
        source, tmp_path / "t", Int8WeightOnlyConfig(), executor=processes, listener=seen.append
    )
    assert {e.kind for e in seen} == {EventKind.START, EventKind.SHARD, EventKind.DONE}
    assert seen[-1].done == seen[-1].total
    assert sum(e.bytes for e in seen if e.kind is EventKind.SHARD) == seen[-1].total


def test_the_largest_shard_comes_first(tmp_path, source):
    """Otherwise it might go on alone in the end."""
    executor = Recording()
    quantize_checkpoint(source, tmp_path / "t", Int8WeightOnlyConfig(), executor=executor)
    names = sorted(p.name for p in source.glob("*.safetensors"))
    assert executor.names == names[::-1]


@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_a_failed_shard_fails_the_run(tmp_path, source, processes, kind):
    """The error is that of the shard, and nothing is left."""
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    for path in source.iterdir():
        (damaged / path.name).write_bytes(path.read_bytes())
    with ThreadPoolExecutor(2) as threads:
        executor = threads if kind == "threads" else processes

        class Truncating(Executor):
            def submit(self, fn, /, *args, **kwargs):
                shard = damaged / "model-00002-of-00004.safetensors"
                os.truncate(shard, 8000)
                return executor.submit(fn, *args, **kwargs)

        with pytest.raises(ContainerError, match=r"cut short|ends before|header"):
            quantize_checkpoint(
                damaged, tmp_path / "t", Int8WeightOnlyConfig(), executor=Truncating()
            )
    assert sorted(p.name for p in tmp_path.iterdir()) == ["damaged"]


def test_what_lies_in_memory_needs_threads(tmp_path, processes):
    """Another process cannot plan it anew."""
    contents = {"model.safetensors": ShardContents({"a": LazyTensor.of(torch.ones(2))})}
    with pytest.raises(UsageError, match="lies in the memory of another process"):
        write_checkpoint(tmp_path / "t", contents, {}, executor=processes)
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_sees_another_checkpoint_is_refused(tmp_path, source, processes):
    """A worker whose files differ would write shards that do not fit together."""
    again = RunAgain(partial(_other_plan, source), "0" * 16, source)
    task = ShardTask(
        Shared(again), "model-00001-of-00004.safetensors", tmp_path, tmp_path, tmp_path
    )
    with pytest.raises(CheckpointError, match="another process finds another checkpoint"):
        processes.submit(task).result()
    assert list(tmp_path.iterdir()) == []


def _other_plan(source):
    checkpoint = open_checkpoint(source)
    return Planned({name: ShardContents() for name in checkpoint.shards}, checkpoint)


def test_what_processes_wrote_is_what_was_quantized(tmp_path, source, processes):
    """Loaded, it is the model."""
    quantize_checkpoint(source, tmp_path / "t", Int8WeightOnlyConfig(), executor=processes)
    loaded, given = load_checkpoint(tmp_path / "t"), load_checkpoint(source)
    for name, tensor in loaded.items():
        torch.testing.assert_close(tensor.dequantize(), given[name], atol=0.05, rtol=0)


def test_a_worker_that_is_killed_fails_the_run_cleanly(tmp_path, source):
    """What is finished is kept, and the same call goes on."""
    quantize_checkpoint(source, tmp_path / "serial", Int8WeightOnlyConfig())

    def kill(event):
        if event.kind is EventKind.SHARD:
            for child in multiprocessing.active_children():
                child.kill()

    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        with pytest.raises(StorageError, match="a worker has ended before its task") as caught:
            quantize_checkpoint(
                source, tmp_path / "t", Int8WeightOnlyConfig(), executor=pool, listener=kill
            )
        assert "run the same again to go on" in str(caught.value)
    quantize_checkpoint(source, tmp_path / "t", Int8WeightOnlyConfig())
    assert _tree(tmp_path / "t") == _tree(tmp_path / "serial")


class Closing(Executor):
    """Takes one task, and is closed then."""

    def __init__(self, pool):
        self.pool, self.futures = pool, []

    def submit(self, fn, /, *args, **kwargs):
        if self.futures:
            self.futures[0].result()
            raise RuntimeError("closed")
        self.futures.append(self.pool.submit(fn, *args, **kwargs))
        return self.futures[0]


def test_an_executor_that_takes_no_more_tasks_is_waited_for(tmp_path, source):
    """What it has begun has ended before the error is raised, and is kept."""
    with ThreadPoolExecutor(1) as pool:
        executor = Closing(pool)
        with pytest.raises(StorageError, match="the executor takes no tasks") as caught:
            quantize_checkpoint(source, tmp_path / "t", Int8WeightOnlyConfig(), executor=executor)
        assert executor.futures[0].done()
    assert "1 finished file is kept" in str(caught.value)
    quantize_checkpoint(source, tmp_path / "t", Int8WeightOnlyConfig())


def test_an_executor_that_is_closed_is_an_error_of_ours(tmp_path, source):
    """In every verb that takes one."""
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    with pytest.raises(StorageError, match="the executor takes no tasks"):
        quantize_checkpoint(source, tmp_path / "t", Int8WeightOnlyConfig(), executor=pool)
    with pytest.raises(StorageError, match="the executor takes no tasks"):
        verify_checkpoint(source, executor=pool)


class Cancelling(Executor):
    """Says of every task that it is cancelled."""

    def submit(self, fn, /, *args, **kwargs):
        future = Future()
        future.cancel()
        future.set_running_or_notify_cancel()
        return future


def test_a_task_that_somebody_cancels_is_a_lost_worker(tmp_path, source):
    """A target never lacks a shard."""
    with pytest.raises(StorageError, match="a worker has ended before its task"):
        quantize_checkpoint(source, tmp_path / "t", Int8WeightOnlyConfig(), executor=Cancelling())
    assert list(tmp_path.iterdir()) == []
