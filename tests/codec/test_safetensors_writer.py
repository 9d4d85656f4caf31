"""The streaming writer: the bytes of safetensors, little memory, and no litter after faults."""

import errno
import os
import unicodedata
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from qconfig.codec import byte_copy
from qconfig.codec.dtypes import DType
from qconfig.codec.safetensors_header import read_header
from qconfig.codec.safetensors_reader import lazy_tensors
from qconfig.codec.safetensors_writer import write_safetensors
from qconfig.codec.tensor_values import LazyTensor
from tests.codec.writer_samples import (
    CASES,
    lazy_values,
    never_loaded,
    refuse_io,
    sample_tensor,
    sample_tensors,
    write_new,
)


def _composed(name: str) -> str:
    return unicodedata.normalize("NFC", name)


def _raw(tensor: torch.Tensor) -> list[int]:
    values: list[int] = tensor.reshape(-1).view(torch.uint8).tolist()
    return values


def _content(path: Path) -> tuple[bytes, bytes]:
    """Return the header without its padding, and the data."""
    raw = path.read_bytes()
    end = 8 + int.from_bytes(raw[:8], "little")
    return raw[8:end].rstrip(b" "), raw[end:]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A file that safetensors wrote, with every dtype."""
    path = tmp_path / "source.safetensors"
    save_file(sample_tensors(), path, metadata={"k": "é\u2028\x01"})
    return path


# Equality with safetensors


def test_files_equal_those_of_safetensors(source: Path, tmp_path: Path) -> None:
    """For every dtype, 0-d and empty: order, escapes and data are those of safetensors 0.8.0."""
    target = tmp_path / "target.safetensors"
    write_safetensors(target, lazy_values(sample_tensors()), {"k": "é\u2028\x01"})
    assert _content(target) == _content(source)


@pytest.mark.parametrize(("dtype", "shape"), CASES)
def test_safetensors_loads_what_was_written(
    tmp_path: Path, dtype: DType, shape: tuple[int, ...]
) -> None:
    """The real reader gives back dtype, shape and bytes."""
    tensor = sample_tensor(dtype, shape)
    write_safetensors(tmp_path / "m.safetensors", lazy_values({"a": tensor}), {})
    loaded = load_file(tmp_path / "m.safetensors")["a"]
    assert (loaded.dtype, loaded.shape) == (tensor.dtype, tensor.shape)
    assert _raw(loaded) == _raw(tensor)


@settings(max_examples=25)
@given(
    st.dictionaries(
        st.text(st.characters(categories=["L", "N", "P"]), max_size=6).map(_composed),
        st.sampled_from(CASES),
        max_size=5,
    ),
    st.dictionaries(st.sampled_from(["a", "é", "qconfig"]), st.text('a"\\\n\0é€', max_size=5)),
)
def test_round_trip(
    tmp_path_factory: pytest.TempPathFactory,
    cases: dict[str, tuple[DType, tuple[int, ...]]],
    metadata: dict[str, str],
) -> None:
    """Any names, dtypes, shapes and metadata come back from our reader and from safetensors."""
    path = tmp_path_factory.mktemp("round") / "m.safetensors"
    tensors = {name: sample_tensor(*case, seed) for seed, (name, case) in enumerate(cases.items())}
    write_safetensors(path, lazy_values(tensors), metadata)
    header = read_header(path)
    assert header.metadata == metadata
    ours, theirs = lazy_tensors(header), load_file(path)
    assert ours.keys() == theirs.keys() == tensors.keys()
    for name, tensor in tensors.items():
        for read in (ours[name].load(), theirs[name]):
            assert (read.dtype, read.shape) == (tensor.dtype, tensor.shape)
            assert _raw(read) == _raw(tensor)


def test_order_of_arguments_does_not_matter(tmp_path: Path) -> None:
    """The same tensors and metadata give the same bytes."""
    tensors = lazy_values(sample_tensors())
    metadata = {"b": "2", "a": "1"}
    write_safetensors(tmp_path / "1", tensors, metadata)
    write_safetensors(
        tmp_path / "2", dict(reversed(tensors.items())), dict(reversed(metadata.items()))
    )
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()


def test_data_is_aligned(tmp_path: Path) -> None:
    """Each tensor starts at a multiple of its element's size, in the file."""
    write_new(tmp_path / "m", lazy_values(sample_tensors()))
    header = read_header(tmp_path / "m")
    for name, entry in header.tensors.items():
        assert header.byte_range(name).offset % entry.dtype.itemsize == 0


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(6.0).reshape(2, 3).t(),
        torch.arange(12)[::2],
        torch.tensor([1 + 2j, 3 - 4j]).conj(),
        torch.tensor([1 + 2j, 3 - 4j]).conj().imag,
        torch.ones(3, requires_grad=True),
        torch.zeros(1).expand(4),
        torch.arange(10)[4:7],
    ],
    ids=["transposed", "strided", "conjugate", "negative", "leaf", "expanded", "slice"],
)
def test_views_are_written_as_their_elements(tmp_path: Path, tensor: torch.Tensor) -> None:
    """What torch keeps as a view with other bytes in memory is written out."""
    write_new(tmp_path / "m", lazy_values({"a": tensor}))
    assert torch.equal(load_file(tmp_path / "m")["a"], tensor.detach().resolve_neg())


def test_large_tensors_lie_at_multiples_of_64(tmp_path: Path) -> None:
    """Odd sizes come last, so that whatever has a size of full lines starts at one when mapped."""
    tensors = {
        "scale": torch.ones(3, 1),
        "codes": torch.ones(16, 64, dtype=torch.int8),
        "odd": torch.ones(7, dtype=torch.int8),
        "wide": torch.ones(32, dtype=torch.float64),
        "half": torch.ones(5, dtype=torch.bfloat16),
    }
    write_new(tmp_path / "m", lazy_values(tensors))
    header = read_header(tmp_path / "m")
    assert list(header.tensors) == ["wide", "codes", "scale", "half", "odd"]
    assert {header.byte_range(n).offset % 64 for n in ("wide", "codes")} == {0}
    assert all(torch.equal(t, tensors[n]) for n, t in load_file(tmp_path / "m").items())


# Copying ranges


def test_an_unchanged_file_is_copied_without_loading(source: Path, tmp_path: Path) -> None:
    """Tensors with a source are copied as bytes, also under other names and shapes."""
    header = read_header(source)
    tensors = {n: evolve(t, load=never_loaded) for n, t in lazy_tensors(header).items()}
    write_safetensors(tmp_path / "copy", tensors, header.metadata)
    assert _content(tmp_path / "copy") == _content(source)
    write_new(tmp_path / "renamed", {"x": tensors["int32(3, 2)"].reshape(6)})
    assert _raw(load_file(tmp_path / "renamed")["x"]) == _raw(sample_tensors()["int32(3, 2)"])


def test_adjacent_ranges_are_copied_at_once(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file in the same order is one run; a tensor taken from its middle makes two."""
    calls: list[int] = []

    def count(source: int, target: int, offset: int, length: int) -> int:
        calls.append(length)
        return os.sendfile(target, source, offset, length)

    monkeypatch.setattr(byte_copy, "_copy_file_range", count)
    tensors = lazy_tensors(read_header(source))
    write_new(tmp_path / "all", tensors)
    assert len(calls) == 1
    calls.clear()
    del tensors["int32(3, 2)"]
    write_new(tmp_path / "two", tensors)
    assert len(calls) == 2


def _give_up(*_: int) -> int:
    return 0


def _stutter(source: int, target: int, offset: int, length: int) -> int:
    if offset % 3 == 0:
        raise OSError(errno.EIO, "Input/output error")
    return os.sendfile(target, source, offset, min(length, 7))


@pytest.mark.parametrize("copy", [byte_copy._copy_file_range, refuse_io, _give_up, _stutter])
@pytest.mark.parametrize("send", [byte_copy._sendfile, refuse_io, _give_up, _stutter])
def test_every_way_of_copying_gives_the_same_bytes(
    source: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    copy: Callable[[int, int, int, int], int],
    send: Callable[[int, int, int, int], int],
) -> None:
    """A kernel or file system that refuses, stops early or half way is worked around."""
    monkeypatch.setattr(byte_copy, "_copy_file_range", copy)
    monkeypatch.setattr(byte_copy, "_sendfile", send)
    monkeypatch.setattr(byte_copy, "CHUNK", 5)
    header = read_header(source)
    write_safetensors(tmp_path / "copy", lazy_tensors(header), header.metadata)
    assert _content(tmp_path / "copy") == _content(source)


def test_short_writes_are_completed(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write that takes fewer bytes than it was given is repeated for the rest."""
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:7]))
    write_safetensors(tmp_path / "m", lazy_values(sample_tensors()), {"k": "é\u2028\x01"})
    monkeypatch.undo()
    assert _content(tmp_path / "m") == _content(source)


# Memory and progress


def test_one_tensor_is_in_memory_at_a_time(tmp_path: Path) -> None:
    """Each tensor is loaded once, and gone before the next one is loaded."""
    alive: list[Any] = []

    def load() -> torch.Tensor:
        assert [ref for ref in alive if ref() is not None] == []
        tensor = torch.ones(100)
        alive.append(weakref.ref(tensor))
        return tensor

    write_new(tmp_path / "m", {str(i): LazyTensor(DType.FLOAT32, (100,), load) for i in range(4)})
    assert len(alive) == 4


def test_progress_is_told_each_tensor(source: Path, tmp_path: Path) -> None:
    """Copied and computed tensors alike are reported once, with their bytes."""
    tensors = lazy_tensors(read_header(source)) | lazy_values({"new": torch.zeros(3)})
    told: list[tuple[str, int]] = []

    def tell(name: str, size: int) -> None:
        told.append((name, size))

    write_safetensors(tmp_path / "m", tensors, {}, progress=tell)
    header = read_header(tmp_path / "m")
    assert sorted(told) == sorted((n, e.end - e.start) for n, e in header.tensors.items())


def test_computed_tensors_are_made_in_the_callers_order(tmp_path: Path) -> None:
    """Tensors that are computed together are asked for together, wherever they lie in the file."""
    asked: list[str] = []

    def lazy(name: str, dtype: DType) -> LazyTensor:
        def load() -> torch.Tensor:
            asked.append(name)
            return torch.full((3,), len(asked), dtype=dtype.to_torch())

        return LazyTensor(dtype, (3,), load)

    dtypes = {"a.q": DType.INT8, "a.s": DType.FLOAT32, "b.q": DType.INT8, "b.s": DType.FLOAT32}
    write_safetensors(tmp_path / "m", {n: lazy(n, d) for n, d in dtypes.items()}, {})
    assert asked == list(dtypes)
    loaded = load_file(tmp_path / "m")
    assert [int(loaded[name][0]) for name in dtypes] == [1, 2, 3, 4]
