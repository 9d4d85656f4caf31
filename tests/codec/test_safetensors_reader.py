"""Reading safetensors files: files that are no files, files that change, fuzzed headers."""

import os
import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import safetensors
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from qconfig.codec.dtypes import FROM_SAFETENSORS
from qconfig.codec.safetensors_header import read_header
from qconfig.codec.safetensors_maps import MappedFiles
from qconfig.codec.safetensors_reader import lazy_tensors
from qconfig.codec.tensor_values import ByteRange
from qconfig.errors import ContainerError, StorageError
from tests.codec.header_samples import ENTRY, file_bytes, parse_bytes

# Files that are no files: items 19 and 20


def _make_socket(path: Path) -> None:
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    server.close()


@pytest.mark.parametrize(
    ("make", "kind"),
    [(os.mkfifo, "a FIFO"), (os.mkdir, "a directory"), (_make_socket, "a socket")],
)
def test_what_is_no_regular_file_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Any, kind: str
) -> None:
    """Item 19: a FIFO without a writer would block an ordinary open for ever."""
    monkeypatch.chdir(tmp_path)  # a socket's path is short
    make(Path("x.safetensors"))
    refused: list[ContainerError] = []

    def read() -> None:
        try:
            read_header("x.safetensors")
        except ContainerError as error:
            refused.append(error)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    thread.join(timeout=10)
    assert [e.message for e in refused] == ["not a regular file"]
    assert refused[0].found == repr(kind)


def test_a_device_is_refused() -> None:
    """Item 19: /dev/zero has no end."""
    with pytest.raises(ContainerError, match="not a regular file"):
        read_header("/dev/zero")


@pytest.mark.parametrize("name", ["dangling", "loop"])
def test_a_link_that_leads_nowhere_is_refused(tmp_path: Path, name: str) -> None:
    """Item 20: a dangling link is a damaged checkpoint, with exit code 3."""
    (tmp_path / "dangling").symlink_to(tmp_path / "gone")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(ContainerError, match="a symbolic link that leads nowhere") as caught:
        read_header(tmp_path / name)
    assert caught.value.exit_code == 3


@pytest.mark.parametrize("name", ["absent", "nul\0"])
def test_a_file_that_cannot_be_opened_is_a_storage_error(tmp_path: Path, name: str) -> None:
    """A missing file is the file system's answer, with exit code 5."""
    with pytest.raises(StorageError, match="cannot open: ") as caught:
        read_header(tmp_path / name)
    assert caught.value.exit_code == 5


# Files that change


@pytest.mark.parametrize("way", ["lazy", "mapped"])
def test_a_file_that_shrank_gives_an_error_and_no_signal(tmp_path: Path, way: str) -> None:
    """A truncated file would kill a process that had mapped it; both ways notice first."""
    path = tmp_path / "m.safetensors"
    save_file({"a": torch.zeros(100)}, path)
    header = read_header(path)
    os.truncate(path, header.file_size - 1)
    with MappedFiles() as files, pytest.raises(ContainerError) as caught:
        lazy = files.tensors(header)["a"]
        lazy.load() if way == "lazy" else files.mapped(lazy)
    assert caught.value.file == str(path)
    assert (
        caught.value.message
        == {
            "lazy": "the file is cut short",
            "mapped": "the file has changed since its header was read",
        }[way]
    )


def test_a_file_that_vanished_names_the_tensor(tmp_path: Path) -> None:
    """A lazy tensor opens its file when it is asked, and says for which tensor that failed."""
    path = tmp_path / "m.safetensors"
    save_file({"a": torch.zeros(1)}, path)
    lazy = lazy_tensors(read_header(path))["a"]
    path.unlink()
    with pytest.raises(StorageError) as caught:
        lazy.load()
    assert caught.value.fqn == "a"


def test_byte_ranges_are_values() -> None:
    """Parsing touches no file: a header of bytes gives ranges in a file that need not exist."""
    buffer = file_bytes({"a": ENTRY}, b"12")
    assert parse_bytes(buffer).byte_range("a") == ByteRange(
        Path("m.safetensors"), len(buffer) - 2, 2
    )


# Fuzzing

_NAMES = st.text(max_size=3) | st.sampled_from(["__metadata__", "a", "b", "\u00e9", "e\u0301"])


_SCALARS = st.none() | st.booleans() | st.integers(-1, 9) | st.sampled_from([2**60, 1.5, "x", ""])


_ENTRIES = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from([*FROM_SAFETENSORS, "F6_E2M3", "F5"]) | _SCALARS,
        "shape": st.lists(st.integers(0, 3), max_size=3) | st.lists(_SCALARS, max_size=2),
        "data_offsets": st.tuples(st.integers(0, 4), st.integers(0, 8)) | st.lists(_SCALARS),
    },
    optional={"extra": _SCALARS},
)


@given(st.binary(max_size=60))
def test_arbitrary_bytes_give_a_header_or_a_typed_error(buffer: bytes) -> None:
    """No input raises anything but ContainerError."""
    with suppress(ContainerError):
        parse_bytes(buffer)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(_NAMES, _ENTRIES | _SCALARS, max_size=3), st.integers(0, 16))
@example({"a": ENTRY}, 2)
def test_what_is_accepted_here_is_accepted_by_safetensors(header: Any, size: int) -> None:
    """This reader is a subset of safetensors 0.8.0, entry by entry."""
    buffer = file_bytes(header, bytes(size))
    try:
        parsed = parse_bytes(buffer)
    except ContainerError:
        return
    theirs = dict(safetensors.deserialize(buffer))
    assert theirs.keys() == parsed.tensors.keys()
    for name, entry in parsed.tensors.items():
        assert FROM_SAFETENSORS[theirs[name]["dtype"]] is entry.dtype
        assert len(theirs[name]["data"]) == entry.end - entry.start


@given(st.data())
def test_a_damaged_file_never_passes_here_alone(data: st.DataObject) -> None:
    """One changed byte gives a typed error, or a header that safetensors reads alike."""
    header = {"__metadata__": {"k": "v"}, "a": ENTRY, "b": ENTRY | {"data_offsets": [2, 4]}}
    buffer = bytearray(file_bytes(header, b"1234"))
    position = data.draw(st.integers(0, len(buffer) - 1))
    # No minus: Rust's JSON reader takes -0 for a float, Python's for the int 0.
    buffer[position] = data.draw(st.sampled_from(b'\0"{}[]:,0123489 eUIF\\\x80'))
    try:
        parsed = parse_bytes(bytes(buffer))
    except ContainerError:
        return
    assert dict(safetensors.deserialize(bytes(buffer))).keys() == parsed.tensors.keys()


def test_an_error_reads_well() -> None:
    """The text of an error has the file, the tensor, both values and what to do."""
    with pytest.raises(ContainerError) as caught:
        parse_bytes(file_bytes({"a.w": ENTRY | {"dtype": "BF61"}}, b"12"))
    assert str(caught.value).splitlines()[::3] == [
        "m.safetensors: a.w: unknown dtype code",
        "  hint: did you mean 'BF16'?",
    ]
