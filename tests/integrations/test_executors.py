"""Executors by their descriptions, a Dask cluster of two processes among them."""

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import distributed
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
from qconfig.checkpoints.events import EventKind
from qconfig.errors import ContainerError, StorageError, UsageError
from qconfig.integrations.executors import open_executor
from tests.cli.calls import call

CONFIG = Int8WeightOnlyConfig()


def _tree(directory):
    return {p.name: p.read_bytes() for p in sorted(directory.iterdir())}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A scheduler and two worker processes of one thread each; none of them has a dashboard."""
    folder = tmp_path_factory.mktemp("dask")
    with distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=True,
        host="127.0.0.1",
        dashboard_address=None,
        worker_dashboard_address=None,
        local_directory=str(folder),
        silence_logs=50,
    ) as started:
        yield started


@pytest.fixture
def source(tmp_path):
    """A checkpoint of three shards in a folder that all processes see."""
    generator = torch.Generator().manual_seed(0)
    model = {f"layers.{i}.weight": torch.randn(32, 64, generator=generator) for i in range(3)}
    save_checkpoint(model, tmp_path / "float", max_shard_bytes=1)
    return tmp_path / "float"


@pytest.fixture
def dask(cluster):
    """How a command names the cluster."""
    return f"dask={cluster.scheduler_address}"


@pytest.mark.parametrize("description", ["threads=2", "processes=2"])
def test_workers_of_this_machine_give_the_same_bytes(tmp_path, source, description):
    """Threads and processes write what a run without them writes."""
    quantize_checkpoint(source, tmp_path / "serial", CONFIG)
    with open_executor(description) as executor:
        quantize_checkpoint(source, tmp_path / "t", CONFIG, executor=executor)
    assert _tree(tmp_path / "t") == _tree(tmp_path / "serial")


def test_one_thread_is_no_executor():
    """The thread that asks does the work."""
    with open_executor("threads=1") as executor:
        assert executor is None
    with open_executor("threads=2") as executor:
        assert isinstance(executor, ThreadPoolExecutor)


@pytest.mark.parametrize(
    "description", ["", "dask", "dask=", "threads", "threads=0", "processes=x", "threads=99999"]
)
def test_other_descriptions_are_refused(description):
    """What is allowed is said."""
    with pytest.raises(UsageError, match="not an executor"), open_executor(description):
        pass


def test_dask_quantizes_upgrades_converts_and_verifies(tmp_path, source, dask):
    """Two worker processes write the bytes that one process writes, in all three verbs."""
    convert_checkpoint(_quantized(source, tmp_path / "int8"), tmp_path / "theirs")
    jobs = {
        "quantize": partial(quantize_checkpoint, source, config=CONFIG),
        "convert": partial(convert_checkpoint, tmp_path / "int8"),
        "upgrade": partial(upgrade_checkpoint, tmp_path / "theirs", verify=True),
    }
    for name, job in jobs.items():
        job(target=tmp_path / f"{name}-serial")
        with open_executor(dask) as executor:
            job(target=tmp_path / f"{name}-dask", executor=executor)
            assert verify_checkpoint(tmp_path / f"{name}-dask", executor=executor).ok
        assert _tree(tmp_path / f"{name}-dask") == _tree(tmp_path / f"{name}-serial")


def test_the_command_line_takes_a_cluster(tmp_path, source, dask):
    """`--executor` names it; `--jobs` beside it is a contradiction."""
    config = tmp_path / "q.json"
    config.write_text('{"type": "Int8WeightOnlyConfig", "version": 3}')
    arguments = ("quantize", source, tmp_path / "t", "--config", config, "--executor", dask)
    assert call(*arguments).exit_code == 0
    assert call("verify", tmp_path / "t", "--executor", dask).exit_code == 0
    _quantized(source, tmp_path / "serial")
    assert _tree(tmp_path / "t") == _tree(tmp_path / "serial")
    refused = call(*arguments, "--jobs", "2")
    assert refused.exit_code == 2
    assert "two kinds of workers" in refused.stderr


def test_a_failed_shard_fails_the_run_of_a_cluster(tmp_path, source, dask):
    """The error is the one of a serial run, and nothing is left."""

    def truncate(event):
        if event.kind is EventKind.START:
            os.truncate(source / "model-00002-of-00003.safetensors", 8000)

    with (
        open_executor(dask) as executor,
        pytest.raises(ContainerError, match="the file is cut short"),
    ):
        quantize_checkpoint(source, tmp_path / "t", CONFIG, executor=executor, listener=truncate)
    assert [p.name for p in tmp_path.iterdir()] == ["float"]


def test_a_flipped_bit_is_found_by_a_cluster(tmp_path, source, dask):
    """Each worker reads a part of the checkpoint; what it finds has the place."""
    _quantized(source, tmp_path / "int8")
    shard = tmp_path / "int8" / "model-00003-of-00003.safetensors"
    content = bytearray(shard.read_bytes())
    content[-1] ^= 1
    shard.write_bytes(content)
    with open_executor(dask) as executor:
        (problem,) = verify_checkpoint(tmp_path / "int8", executor=executor).problems
    assert problem.file == str(shard)
    assert problem.fqn == "layers.2.weight.qdata"


def test_a_worker_that_dies_is_replaced(tmp_path, source, cluster, dask):
    """Dask gives its shard to another one; the bytes are the same."""
    _quantized(source, tmp_path / "serial")

    def kill(event):
        if event.kind is EventKind.START:
            worker = next(iter(cluster.workers.values()))
            os.kill(worker.process.pid, signal.SIGKILL)

    with open_executor(dask) as executor:
        quantize_checkpoint(source, tmp_path / "t", CONFIG, executor=executor, listener=kill)
    assert _tree(tmp_path / "t") == _tree(tmp_path / "serial")


def test_a_scheduler_that_is_not_there_is_an_error():
    """The address is in the message, and no thread is left that goes on trying."""
    before = threading.active_count()
    with (
        pytest.raises(StorageError, match="the Dask scheduler cannot be reached"),
        open_executor("dask=tcp://127.0.0.1:1"),
    ):
        pass
    assert threading.active_count() == before


@pytest.mark.parametrize("address", ["x", "tcp://x", "tcp://x:y", ":1"])
def test_an_address_has_a_port(address):
    """Anything else is a wrong call."""
    with pytest.raises(UsageError, match="not the address"), open_executor(f"dask={address}"):
        pass


_PARENT = """
import os, sys
from qconfig.integrations.executors import open_executor
if __name__ == "__main__":
    with open_executor("processes=1") as pool:
        print(pool.submit(os.getpid).result(), flush=True)
        sys.stdin.read()
"""


def test_processes_end_with_their_parent(tmp_path):
    """Even if that is killed: a pipe that they hold is closed then."""
    script = tmp_path / "parent.py"
    script.write_text(_PARENT)
    parent = subprocess.Popen(
        [sys.executable, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert parent.stdin is not None
    assert parent.stdout is not None
    with parent.stdin, parent.stdout:
        assert int(parent.stdout.readline()) != parent.pid
        parent.kill()
        parent.wait()
        assert parent.stdout.read() == b""  # returns when the worker has gone, too


def _quantized(source, target):
    quantize_checkpoint(source, target, CONFIG)
    return target
