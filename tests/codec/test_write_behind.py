"""Computed tensors are written by a thread, and that changes nothing but the time it takes."""

import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from qconfig.codec import write_behind
from qconfig.codec.dtypes import DType
from qconfig.codec.safetensors_writer import write_safetensors
from qconfig.codec.tensor_values import LazyTensor
from qconfig.errors import ContainerError, StorageError
from tests.codec.writer_samples import lazy_values, sample_tensors, write_new


@pytest.fixture(autouse=True)
def always_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Small tensors go through the thread, too; after each test none is left."""
    monkeypatch.setattr(write_behind, "_WORTH_A_THREAD", 0)
    monkeypatch.setattr(write_behind, "_MOST_WAITING", 8)
    yield
    assert not [t for t in threading.enumerate() if t.name == "qconfig-write"]


def test_the_bytes_are_those_of_one_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a thread writes is not seen in the file."""
    write_new(tmp_path / "a", lazy_values(sample_tensors()))
    monkeypatch.setattr(write_behind, "_WORTH_A_THREAD", 2**40)
    write_new(tmp_path / "b", lazy_values(sample_tensors()))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_all_tensors_are_reported_in_their_order(tmp_path: Path) -> None:
    """Progress names each tensor once, in the order in which they are made."""
    told: list[tuple[str, int]] = []
    tensors = {name: torch.zeros(5, dtype=torch.int8) for name in "cabd"} | {
        "e": torch.zeros(0, dtype=torch.int8)
    }
    write_safetensors(
        tmp_path / "m", lazy_values(tensors), {}, progress=lambda *said: told.append(said)
    )
    assert told == [("c", 5), ("a", 5), ("b", 5), ("d", 5), ("e", 0)]


def test_an_error_of_the_thread_is_raised_by_the_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that fails ends the work, whoever is writing, and the file goes."""

    def fail(*_: Any) -> int:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "write", fail)
    tensors = lazy_values({str(i): torch.zeros(5) for i in range(9)})
    with pytest.raises(StorageError, match="Input/output error"):
        write_safetensors(tmp_path / "m", tensors, lambda _: {})
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_error_while_making_ends_the_thread(tmp_path: Path, error: type[BaseException]) -> None:
    """What is raised while a tensor is made comes through."""

    def fail() -> torch.Tensor:
        raise error

    tensors = lazy_values({str(i): torch.zeros(5) for i in range(9)})
    with pytest.raises(error):
        write_new(tmp_path / "m", tensors | {"z": LazyTensor(DType.INT8, (1,), fail)})
    assert not (tmp_path / "m").exists()


def test_an_error_of_the_listener_ends_the_thread(tmp_path: Path) -> None:
    """Progress is told in the caller's thread, and may refuse."""

    def refuse(_name: str, _size: int) -> None:
        assert threading.current_thread() is threading.main_thread()
        raise LookupError

    tensors = lazy_values({str(i): torch.zeros(5) for i in range(9)})
    with pytest.raises(LookupError):
        write_safetensors(tmp_path / "m", tensors, {}, progress=refuse)


def test_ctrl_c_while_the_thread_ends_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is not closed under the thread, and the interrupt is not lost."""
    behind = write_behind.WriteBehind(-1, digests=False, threaded=True)
    thread = behind._thread
    assert thread is not None
    joins, join = [KeyboardInterrupt], thread.join

    def interrupted() -> None:
        if joins:
            raise joins.pop()
        join()

    monkeypatch.setattr(thread, "join", interrupted)
    with pytest.raises(KeyboardInterrupt), behind:
        pass
    assert not thread.is_alive()


def test_parts_of_a_tensor_make_the_file_of_the_whole(tmp_path: Path) -> None:
    """A tensor that comes in parts has the bytes, and the digest, of one that does not."""
    whole = torch.arange(24, dtype=torch.int16).reshape(6, 4)
    parts = LazyTensor(DType.INT16, (6, 4), whole.clone, parts=lambda _: iter(whole.split(4)))
    for name, tensor in {"a": parts, "b": LazyTensor.of(whole)}.items():
        write_safetensors(tmp_path / name, {"w": tensor}, lambda d: {"d": d.tensors[0]})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("rows", [5, 7])
def test_parts_of_other_size_are_refused(tmp_path: Path, rows: int) -> None:
    """Parts must be the tensor that was declared: no row more, none less."""
    whole = torch.zeros(rows, 4)
    lazy = LazyTensor(DType.FLOAT32, (6, 4), whole.clone, parts=lambda _: iter(whole.split(4)))
    with pytest.raises(ContainerError, match="differs from its declaration") as caught:
        write_new(tmp_path / "m", {"w": lazy})
    assert caught.value.fqn == "w"
