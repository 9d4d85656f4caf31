"""What the safetensors writer refuses, and what it leaves when writing fails."""

import errno
import os
import struct
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from qconfig.codec import byte_copy
from qconfig.codec.dtypes import FROM_SAFETENSORS, DType
from qconfig.codec.safetensors_header import read_header
from qconfig.codec.safetensors_reader import lazy_tensors
from qconfig.codec.safetensors_writer import write_safetensors
from qconfig.codec.tensor_values import ByteRange, LazyTensor
from qconfig.errors import ContainerError, StorageError
from tests.codec.writer_samples import (
    lazy_values,
    never_loaded,
    refuse_io,
    sample_tensors,
    write_new,
)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A file that safetensors wrote, with every dtype."""
    path = tmp_path / "source.safetensors"
    save_file(sample_tensors(), path, metadata={"k": "é\u2028\x01"})
    return path


# Refusals: before a file is made


@pytest.mark.parametrize("dtype", sorted(set(DType) - set(FROM_SAFETENSORS.values())), ids=str)
def test_a_dtype_without_a_code_is_refused(tmp_path: Path, dtype: DType) -> None:
    """A dtype that the format lacks is named, with its tensor, and no file is made."""
    with pytest.raises(ContainerError) as caught:
        write_new(tmp_path / "m", {"a.w": LazyTensor(dtype, (1,), never_loaded)})
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
    tensors = {n: LazyTensor(DType.UINT8, shape, never_loaded) for n in ("e\u0301", name)}
    with pytest.raises(ContainerError, match=message) as caught:
        write_new(tmp_path / "m", tensors)
    assert caught.value.file == str(tmp_path / "m")
    assert not (tmp_path / "m").exists()


def test_a_scalar_of_two_codes_is_refused(tmp_path: Path) -> None:
    """A header counts the codes of F4, and a 0-d tensor has no dimension to double."""
    with pytest.raises(ContainerError, match="0-d tensor of two codes a byte") as caught:
        write_new(tmp_path / "m", {"a": LazyTensor(DType.FLOAT4_E2M1FN_X2, (), never_loaded)})
    assert caught.value.fqn == "a"


def test_the_header_is_bounded(tmp_path: Path) -> None:
    """A header that no reader would take is refused before anything is written."""
    with pytest.raises(ContainerError, match="the header is too long") as caught:
        write_new(tmp_path / "m", lazy_values(sample_tensors()), header_bytes=100)
    assert caught.value.expected == "bytes: at most 100 (Limits.header_bytes)"
    assert caught.value.hint == "write more, smaller shards: --max-shard-size or max_shard_bytes="
    assert not (tmp_path / "m").exists()


def test_metadata_holds_strings_only(tmp_path: Path) -> None:
    """A number would make a file that safetensors cannot open."""
    with pytest.raises(ContainerError, match="__metadata__ has a value that is no string"):
        write_safetensors(tmp_path / "m", {}, {"k": 1})  # type: ignore[dict-item]


def test_a_range_of_the_wrong_length_is_refused(tmp_path: Path) -> None:
    """A source must hold exactly the elements."""
    lazy = LazyTensor(DType.INT16, (2,), never_loaded, ByteRange(tmp_path / "s", 0, 3))
    with pytest.raises(ContainerError, match="byte range does not fit") as caught:
        write_new(tmp_path / "m", {"a": lazy})
    assert caught.value.expected == "4 bytes for int16 (2,)"


# Failures: after the file was made


def _failing() -> torch.Tensor:
    raise KeyboardInterrupt


def test_an_interrupted_write_leaves_nothing(tmp_path: Path) -> None:
    """Whatever is raised while tensors are loaded, the partial file is removed."""
    with pytest.raises(KeyboardInterrupt):
        write_new(tmp_path / "m", {"a": LazyTensor(DType.INT8, (1,), _failing)})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("tensor", [torch.zeros(2), torch.zeros(1, dtype=torch.int32)])
def test_a_tensor_that_differs_from_its_declaration_is_refused(
    tmp_path: Path, tensor: torch.Tensor
) -> None:
    """The header is written first, so the tensor must be what it said."""
    lazy = LazyTensor(DType.FLOAT32, (1,), lambda: tensor)
    with pytest.raises(ContainerError, match="differs from its declaration") as caught:
        write_new(tmp_path / "m", {"a": lazy})
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
        write_new(path, lazy_values({"a": torch.zeros(250)}))
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

    monkeypatch.setattr(byte_copy, "_copy_file_range", refuse_io)
    monkeypatch.setattr(byte_copy, method, fail)
    with pytest.raises(StorageError, match="No space left") as caught:
        write_new(tmp_path / "m", lazy_tensors(read_header(source)))
    assert caught.value.file == str(tmp_path / "m")


def test_an_existing_file_is_left_alone(tmp_path: Path) -> None:
    """The target must be new, and a refusal does not remove what is there."""
    path = tmp_path / "m"
    path.write_text("precious")
    with pytest.raises(StorageError, match="cannot write: File exists") as caught:
        write_new(path, {})
    assert caught.value.exit_code == 5
    assert path.read_text() == "precious"


def test_a_source_that_shrank_is_named(source: Path, tmp_path: Path) -> None:
    """Item 5, meanwhile: the error names the source, and the target is removed."""
    tensors = lazy_tensors(read_header(source))
    os.truncate(source, source.stat().st_size - 1)
    with pytest.raises(ContainerError, match="the file is cut short") as caught:
        write_new(tmp_path / "m", tensors)
    assert caught.value.file == str(source)
    assert not (tmp_path / "m").exists()


def test_a_source_that_vanished_is_named(source: Path, tmp_path: Path) -> None:
    """A source that cannot be opened is the source's fault, not the target's."""
    tensors = lazy_tensors(read_header(source))
    source.unlink()
    with pytest.raises(StorageError, match="cannot open") as caught:
        write_new(tmp_path / "m", tensors)
    assert caught.value.file == str(source)


def test_an_empty_file_is_a_file(tmp_path: Path) -> None:
    """No tensors and no metadata give the shortest header, padded with spaces."""
    write_new(tmp_path / "m", {})
    assert (tmp_path / "m").read_bytes() == struct.pack("<Q", 56) + b"{}".ljust(56)
    assert load_file(tmp_path / "m") == {}
