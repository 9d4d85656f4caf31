"""The streaming writer: the bytes of safetensors, little memory, and no litter after faults."""

import errno
import math
import os
import struct
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
from qconfig.codec.dtypes import FROM_SAFETENSORS, DType
from qconfig.codec.limits import DEFAULT_LIMITS
from qconfig.codec.safetensors_header import read_header
from qconfig.codec.safetensors_reader import lazy_tensors
from qconfig.codec.safetensors_writer import write_safetensors
from qconfig.codec.tensor_values import ByteRange, LazyTensor
from qconfig.errors import ContainerError, StorageError

_DTYPES = sorted(FROM_SAFETENSORS.values())
_SHAPES = [(), (0,), (5,), (3, 2), (2, 0, 4)]
_CASES = [(d, s) for d in _DTYPES for s in _SHAPES if s or d is not DType.FLOAT4_E2M1FN_X2]


def _tensor(dtype: DType, shape: tuple[int, ...], seed: int = 0) -> torch.Tensor:
    size = math.prod(shape) * dtype.itemsize
    codes = (torch.arange(size) * 37 + seed) % (2 if dtype is DType.BOOL else 256)
    return codes.to(torch.uint8).view(dtype.to_torch()).reshape(shape)


def _composed(name: str) -> str:
    return unicodedata.normalize("NFC", name)


def _all_tensors() -> dict[str, torch.Tensor]:
    return {f"{d}{s}": _tensor(d, s, seed) for seed, (d, s) in enumerate(_CASES)}


def _lazy(tensors: dict[str, torch.Tensor]) -> dict[str, LazyTensor]:
    return {name: LazyTensor.of(tensor) for name, tensor in tensors.items()}


def _raw(tensor: torch.Tensor) -> list[int]:
    values: list[int] = tensor.reshape(-1).view(torch.uint8).tolist()
    return values


def _content(path: Path) -> tuple[bytes, bytes]:
    """Return the header without its padding, and the data."""
    raw = path.read_bytes()
    end = 8 + int.from_bytes(raw[:8], "little")
    return raw[8:end].rstrip(b" "), raw[end:]


def _never() -> torch.Tensor:
    raise AssertionError("a tensor with a source was loaded")


def _write(path: Path, tensors: dict[str, LazyTensor], **limits: int) -> None:
    write_safetensors(path, tensors, {}, limits=evolve(DEFAULT_LIMITS, **limits))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A file that safetensors wrote, with every dtype."""
    path = tmp_path / "source.safetensors"
    save_file(_all_tensors(), path, metadata={"k": "é\u2028\x01"})
    return path


# Equality with safetensors


def test_files_equal_those_of_safetensors(source: Path, tmp_path: Path) -> None:
    """For every dtype, 0-d and empty: order, escapes and data are those of safetensors 0.8.0."""
    target = tmp_path / "target.safetensors"
    write_safetensors(target, _lazy(_all_tensors()), {"k": "é\u2028\x01"})
    assert _content(target) == _content(source)


@pytest.mark.parametrize(("dtype", "shape"), _CASES)
def test_safetensors_loads_what_was_written(
    tmp_path: Path, dtype: DType, shape: tuple[int, ...]
) -> None:
    """The real reader gives back dtype, shape and bytes."""
    tensor = _tensor(dtype, shape)
    write_safetensors(tmp_path / "m.safetensors", _lazy({"a": tensor}), {})
    loaded = load_file(tmp_path / "m.safetensors")["a"]
    assert (loaded.dtype, loaded.shape) == (tensor.dtype, tensor.shape)
    assert _raw(loaded) == _raw(tensor)


@settings(max_examples=25)
@given(
    st.dictionaries(
        st.text(st.characters(categories=["L", "N", "P"]), max_size=6).map(_composed),
        st.sampled_from(_CASES),
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
    tensors = {name: _tensor(*case, seed) for seed, (name, case) in enumerate(cases.items())}
    write_safetensors(path, _lazy(tensors), metadata)
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
    tensors = _lazy(_all_tensors())
    metadata = {"b": "2", "a": "1"}
    write_safetensors(tmp_path / "1", tensors, metadata)
    write_safetensors(
        tmp_path / "2", dict(reversed(tensors.items())), dict(reversed(metadata.items()))
    )
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()


def test_data_is_aligned(tmp_path: Path) -> None:
    """Each tensor starts at a multiple of its element's size, in the file."""
    _write(tmp_path / "m", _lazy(_all_tensors()))
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
    _write(tmp_path / "m", _lazy({"a": tensor}))
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
    _write(tmp_path / "m", _lazy(tensors))
    header = read_header(tmp_path / "m")
    assert list(header.tensors) == ["wide", "codes", "scale", "half", "odd"]
    assert {header.byte_range(n).offset % 64 for n in ("wide", "codes")} == {0}
    assert all(torch.equal(t, tensors[n]) for n, t in load_file(tmp_path / "m").items())


# Copying ranges


def test_an_unchanged_file_is_copied_without_loading(source: Path, tmp_path: Path) -> None:
    """Tensors with a source are copied as bytes, also under other names and shapes."""
    header = read_header(source)
    tensors = {n: evolve(t, load=_never) for n, t in lazy_tensors(header).items()}
    write_safetensors(tmp_path / "copy", tensors, header.metadata)
    assert _content(tmp_path / "copy") == _content(source)
    _write(tmp_path / "renamed", {"x": tensors["int32(3, 2)"].reshape(6)})
    assert _raw(load_file(tmp_path / "renamed")["x"]) == _raw(_all_tensors()["int32(3, 2)"])


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
    _write(tmp_path / "all", tensors)
    assert len(calls) == 1
    calls.clear()
    del tensors["int32(3, 2)"]
    _write(tmp_path / "two", tensors)
    assert len(calls) == 2


def _refuse(*_: int) -> int:
    raise OSError(errno.EXDEV, "Invalid cross-device link")


def _give_up(*_: int) -> int:
    return 0


def _stutter(source: int, target: int, offset: int, length: int) -> int:
    if offset % 3 == 0:
        raise OSError(errno.EIO, "Input/output error")
    return os.sendfile(target, source, offset, min(length, 7))


@pytest.mark.parametrize("copy", [byte_copy._copy_file_range, _refuse, _give_up, _stutter])
@pytest.mark.parametrize("send", [byte_copy._sendfile, _refuse, _give_up, _stutter])
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
    write_safetensors(tmp_path / "m", _lazy(_all_tensors()), {"k": "é\u2028\x01"})
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

    _write(tmp_path / "m", {str(i): LazyTensor(DType.FLOAT32, (100,), load) for i in range(4)})
    assert len(alive) == 4


def test_progress_is_told_each_tensor(source: Path, tmp_path: Path) -> None:
    """Copied and computed tensors alike are reported once, with their bytes."""
    tensors = lazy_tensors(read_header(source)) | _lazy({"new": torch.zeros(3)})
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


# Refusals: before a file is made


@pytest.mark.parametrize("dtype", sorted(set(DType) - set(FROM_SAFETENSORS.values())), ids=str)
def test_a_dtype_without_a_code_is_refused(tmp_path: Path, dtype: DType) -> None:
    """A dtype that the format lacks is named, with its tensor, and no file is made."""
    with pytest.raises(ContainerError) as caught:
        _write(tmp_path / "m", {"a.w": LazyTensor(dtype, (1,), _never)})
    assert caught.value.message == f"safetensors has no code for {dtype}"
    assert caught.value.fqn == "a.w"
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        pytest.param("a\x1b", (1,), "a tensor name has control", id="item-23"),
        pytest.param("a" * 4097, (1,), "a tensor name is too long", id="item-26"),
        pytest.param("\u00e9", (1,), "differ only in their Unicode normal form", id="item-25"),
        pytest.param("a", (0, 2**60), "a dimension is too large", id="item-28"),
        pytest.param("a", (1,) * 17, "the shape has too many dimensions", id="item-29"),
        pytest.param("__metadata__", (1,), "a tensor has the name of the metadata", id="metadata"),
        pytest.param("\ud800", (1,), "a string that UTF-8 cannot hold", id="surrogate"),
    ],
)
def test_what_the_reader_refuses_is_not_written(
    tmp_path: Path, name: str, shape: tuple[int, ...], message: str
) -> None:
    """Names and shapes obey the reader's rules before anything is created."""
    tensors = {n: LazyTensor(DType.UINT8, shape, _never) for n in ("e\u0301", name)}
    with pytest.raises(ContainerError, match=message) as caught:
        _write(tmp_path / "m", tensors)
    assert caught.value.file == str(tmp_path / "m")
    assert not (tmp_path / "m").exists()


def test_a_scalar_of_two_codes_is_refused(tmp_path: Path) -> None:
    """A header counts the codes of F4, and a 0-d tensor has no dimension to double."""
    with pytest.raises(ContainerError, match="0-d tensor of two codes a byte") as caught:
        _write(tmp_path / "m", {"a": LazyTensor(DType.FLOAT4_E2M1FN_X2, (), _never)})
    assert caught.value.fqn == "a"


def test_the_header_is_bounded(tmp_path: Path) -> None:
    """A header that no reader would take is refused before anything is written."""
    with pytest.raises(ContainerError, match="the header is too long") as caught:
        _write(tmp_path / "m", _lazy(_all_tensors()), header_bytes=100)
    assert caught.value.expected == "bytes: at most 100 (Limits.header_bytes)"
    assert not (tmp_path / "m").exists()


def test_metadata_holds_strings_only(tmp_path: Path) -> None:
    """A number would make a file that safetensors cannot open."""
    with pytest.raises(ContainerError, match="__metadata__ has a value that is no string"):
        write_safetensors(tmp_path / "m", {}, {"k": 1})  # type: ignore[dict-item]


def test_a_range_of_the_wrong_length_is_refused(tmp_path: Path) -> None:
    """A source must hold exactly the elements."""
    lazy = LazyTensor(DType.INT16, (2,), _never, ByteRange(tmp_path / "s", 0, 3))
    with pytest.raises(ContainerError, match="byte range does not fit") as caught:
        _write(tmp_path / "m", {"a": lazy})
    assert caught.value.expected == "4 bytes for int16 (2,)"


# Failures: after the file was made


def _failing() -> torch.Tensor:
    raise KeyboardInterrupt


def test_an_interrupted_write_leaves_nothing(tmp_path: Path) -> None:
    """Whatever is raised while tensors are loaded, the partial file is removed."""
    with pytest.raises(KeyboardInterrupt):
        _write(tmp_path / "m", {"a": LazyTensor(DType.INT8, (1,), _failing)})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("tensor", [torch.zeros(2), torch.zeros(1, dtype=torch.int32)])
def test_a_tensor_that_differs_from_its_declaration_is_refused(
    tmp_path: Path, tensor: torch.Tensor
) -> None:
    """The header is written first, so the tensor must be what it said."""
    lazy = LazyTensor(DType.FLOAT32, (1,), lambda: tensor)
    with pytest.raises(ContainerError, match="differs from its declaration") as caught:
        _write(tmp_path / "m", {"a": lazy})
    assert caught.value.expected == "float32 (1,)"
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize("call", ["write", "fsync"])
def test_a_full_disk_says_how_much_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """ENOSPC becomes a StorageError with the size of the whole file, which is removed."""

    def fail(*_: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, call, fail)
    path = tmp_path / "m"
    with pytest.raises(StorageError) as caught:
        _write(path, _lazy({"a": torch.zeros(250)}))
    assert str(caught.value) == (
        f"{path}: cannot write: No space left on device\n"
        "  expected: 1128 bytes of free space\n"
        "  hint: free some space or write to another disk"
    )
    assert not path.exists()


@pytest.mark.parametrize("method", ["_copy_file_range", "_sendfile"])
def test_a_disk_that_fills_up_while_copying_is_final(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """A full disk is reported at once, not tried again by the next method."""

    def fail(*_: int) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(byte_copy, "_copy_file_range", _refuse)
    monkeypatch.setattr(byte_copy, method, fail)
    with pytest.raises(StorageError, match="No space left") as caught:
        _write(tmp_path / "m", lazy_tensors(read_header(source)))
    assert caught.value.file == str(tmp_path / "m")


def test_an_existing_file_is_left_alone(tmp_path: Path) -> None:
    """The target must be new, and a refusal does not remove what is there."""
    path = tmp_path / "m"
    path.write_text("precious")
    with pytest.raises(StorageError, match="cannot write: File exists") as caught:
        _write(path, {})
    assert caught.value.exit_code == 5
    assert path.read_text() == "precious"


def test_a_source_that_shrank_is_named(source: Path, tmp_path: Path) -> None:
    """Item 5, meanwhile: the error names the source, and the target is removed."""
    tensors = lazy_tensors(read_header(source))
    os.truncate(source, source.stat().st_size - 1)
    with pytest.raises(ContainerError, match="the file is cut short") as caught:
        _write(tmp_path / "m", tensors)
    assert caught.value.file == str(source)
    assert not (tmp_path / "m").exists()


def test_a_source_that_vanished_is_named(source: Path, tmp_path: Path) -> None:
    """A source that cannot be opened is the source's fault, not the target's."""
    tensors = lazy_tensors(read_header(source))
    source.unlink()
    with pytest.raises(StorageError, match="cannot open") as caught:
        _write(tmp_path / "m", tensors)
    assert caught.value.file == str(source)


def test_an_empty_file_is_a_file(tmp_path: Path) -> None:
    """No tensors and no metadata give the shortest header, padded with spaces."""
    _write(tmp_path / "m", {})
    assert (tmp_path / "m").read_bytes() == struct.pack("<Q", 56) + b"{}".ljust(56)
    assert load_file(tmp_path / "m") == {}
