"""The strict safetensors header: what is refused, in which words, and what real files give."""

import json
import math
import os
import socket
import struct
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import safetensors
import torch
from attrs import evolve
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from qconfig.codec.dtypes import FROM_SAFETENSORS, DType
from qconfig.codec.limits import DEFAULT_LIMITS
from qconfig.codec.safetensors_header import Header, parse_header, read_header
from qconfig.codec.safetensors_reader import lazy_tensors, mapped_tensors
from qconfig.codec.tensor_values import ByteRange
from qconfig.errors import ContainerError, StorageError

_DTYPES = sorted(FROM_SAFETENSORS.values())
_SHAPES = [(), (0,), (1,), (3, 2), (2, 0, 4)]
_CASES = [(d, s) for d in _DTYPES for s in _SHAPES if s or d is not DType.FLOAT4_E2M1FN_X2]
_A = {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}


def _buffer(header: Any, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def _parse(buffer: bytes, **limits: int) -> Header:
    return parse_header(
        buffer, file_size=len(buffer), path="m.safetensors", limits=evolve(DEFAULT_LIMITS, **limits)
    )


def _refusal(buffer: bytes, **limits: int) -> ContainerError:
    with pytest.raises(ContainerError) as caught:
        _parse(buffer, **limits)
    assert caught.value.file == "m.safetensors"
    return caught.value


def _tensor(dtype: DType, shape: tuple[int, ...]) -> torch.Tensor:
    size = math.prod(shape) * dtype.itemsize
    codes = torch.arange(size, dtype=torch.int64) * 37 % (2 if dtype is DType.BOOL else 256)
    return codes.to(torch.uint8).view(dtype.to_torch()).reshape(shape)


def _raw(tensor: torch.Tensor) -> bytes:
    return bytes(tensor.reshape(-1).view(torch.uint8).tolist())


def _is_accepted_by_safetensors(buffer: bytes) -> bool:
    try:
        safetensors.deserialize(buffer)
    except safetensors.SafetensorError:
        return False
    return True


@pytest.fixture(scope="module")
def real_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that safetensors itself wrote, with every dtype and shape of this module."""
    path = tmp_path_factory.mktemp("real") / "m.safetensors"
    save_file({f"{d}{s}": _tensor(d, s) for d, s in _CASES}, path, metadata={"k": "é\n"})
    return path


# Real files


@pytest.mark.parametrize(("dtype", "shape"), _CASES)
@pytest.mark.parametrize("way", ["lazy", "mapped"])
def test_real_tensors_come_back_bit_by_bit(
    real_file: Path, dtype: DType, shape: tuple[int, ...], way: str
) -> None:
    """What safetensors wrote is read with torch's dtype, torch's shape and the same bytes."""
    header = read_header(real_file)
    name = f"{dtype}{shape}"
    entry = header.tensors[name]
    assert (entry.dtype, entry.shape) == (dtype, shape)
    tensor = lazy_tensors(header)[name].load() if way == "lazy" else mapped_tensors(header)[name]
    assert (tensor.dtype, tuple(tensor.shape)) == (dtype.to_torch(), shape)
    assert _raw(tensor) == _raw(_tensor(dtype, shape))


def test_a_header_says_where_the_bytes_lie(real_file: Path) -> None:
    """Byte ranges count from the start of the file and hold the tensor's bytes."""
    header = read_header(real_file)
    source = header.byte_range("int32(3, 2)")
    assert lazy_tensors(header)["int32(3, 2)"].source == source
    data = real_file.read_bytes()[source.offset : source.offset + source.length]
    assert data == _raw(_tensor(DType.INT32, (3, 2)))


def test_metadata_is_read(real_file: Path) -> None:
    """The strings of __metadata__ come back; they may have line breaks."""
    assert read_header(real_file).metadata == {"k": "é\n"}


def test_f4_counts_bytes_and_not_codes() -> None:
    """A header counts the codes of F4, torch counts pairs of them."""
    header = {"a": {"dtype": "F4", "shape": [3, 8], "data_offsets": [0, 12]}}
    assert _parse(_buffer(header, bytes(12))).tensors["a"].shape == (3, 4)


@pytest.mark.parametrize("name", ["", "weight", "a b", "層.weight", "../../etc/passwd", "dtype"])
def test_unusual_names_work(name: str) -> None:
    """Items 22 and 24: a name may be empty, lack a dot, or look like a path and never be one."""
    assert list(_parse(_buffer({name: _A}, b"12")).tensors) == [name]


@pytest.mark.parametrize("header", [{}, {"__metadata__": {}}])
def test_a_file_without_tensors_is_read(header: dict[str, Any]) -> None:
    """Metadata and tensors are both optional."""
    assert _parse(_buffer(header)).tensors == {}


def test_tensors_may_stand_in_any_order() -> None:
    """The header's order need not be the data's; empty tensors lie anywhere between."""
    header = {
        "b": {"dtype": "U8", "shape": [3], "data_offsets": [2, 5]},
        "e": {"dtype": "F64", "shape": [0], "data_offsets": [2, 2]},
        "a": _A,
    }
    assert list(_parse(_buffer(header, bytes(5))).tensors) == ["b", "e", "a"]


def test_a_mapped_tensor_never_writes_to_the_file(real_file: Path) -> None:
    """A mapping is private: an in-place operation changes memory only."""
    before = real_file.read_bytes()
    mapped_tensors(read_header(real_file))["float32(3, 2)"].fill_(7)
    assert real_file.read_bytes() == before


def test_an_unaligned_tensor_is_mapped_all_the_same(tmp_path: Path) -> None:
    """Files of old writers do not align their data; such tensors are copied."""
    header = b'{"a":{"dtype":"I32","shape":[1],"data_offsets":[0,4]}}'
    for pad in range(4):
        path = tmp_path / f"{pad}.safetensors"
        path.write_bytes(_buffer(header + b" " * pad, b"\1\0\0\0"))
        mapped = mapped_tensors(read_header(path))["a"]
        assert mapped.tolist() == [1]
        assert mapped.data_ptr() % 4 == 0


# Hostile bytes: items 1 to 9 and 23 to 30


@pytest.mark.parametrize(
    ("buffer", "message", "found", "expected"),
    [
        pytest.param(
            b"\xff" * 8 + b"{}",
            "the header is too long",
            f"{2**64 - 1} bytes",
            "bytes: at most 100000000 (Limits.header_bytes)",
            id="item-1",
        ),
        pytest.param(
            struct.pack("<Q", 3) + b"{}",
            "the header ends after the file",
            "a header of 3 bytes in a file of 10 bytes",
            "a file of at least 11 bytes",
            id="item-2",
        ),
        pytest.param(
            struct.pack("<Q", 100_000_001) + b"{}",
            "the header is too long",
            "100000001 bytes",
            "bytes: at most 100000000 (Limits.header_bytes)",
            id="item-3",
        ),
        pytest.param(
            b"", "too short for a safetensors file", "0 bytes", "at least 8 bytes", id="item-4"
        ),
        pytest.param(
            bytes(7),
            "too short for a safetensors file",
            "7 bytes",
            "at least 8 bytes",
            id="item-4-seven-bytes",
        ),
        pytest.param(
            _buffer({"a": _A}, b"1"), "the file is cut short", "69 bytes", "70 bytes", id="item-5"
        ),
        pytest.param(
            _buffer({"a": _A}, b"123"),
            "bytes after the last tensor",
            "71 bytes",
            "70 bytes",
            id="item-6",
        ),
    ],
)
def test_a_file_of_a_wrong_length_is_refused(
    buffer: bytes, message: str, found: str, expected: str
) -> None:
    """Items 1 to 6: the error gives the size that was found and the size that would be right."""
    error = _refusal(buffer)
    assert (error.message, error.found, error.expected) == (message, repr(found), expected)


@pytest.mark.parametrize(
    "second",
    [
        pytest.param(b'{"dtype":"U8","shape":[2],"data_offsets":[0,2]}', id="item-7"),
        pytest.param(b'{"dtype":"I16","shape":[1],"data_offsets":[0,2]}', id="item-8"),
    ],
)
def test_a_tensor_that_is_there_twice_is_refused(second: bytes) -> None:
    """Items 7 and 8: safetensors 0.8.0 silently keeps the last one."""
    first = b'{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"a":'
    buffer = _buffer(first + second + b"}", b"12")
    assert _is_accepted_by_safetensors(buffer)
    error = _refusal(buffer)
    assert error.fqn == "a"
    assert error.message == (
        "in the header: duplicate key 'a' at line 1, column 54; it is first at line 1, column 2"
    )


def test_a_metadata_key_that_is_there_twice_is_refused() -> None:
    """Item 9: two `qconfig` entries would let two readers see two checkpoints."""
    error = _refusal(_buffer(b'{"__metadata__":{"qconfig":"1","qconfig":"2"}}'))
    assert "duplicate key 'qconfig'" in error.message
    assert (error.pointer, error.fqn) == ("/__metadata__/qconfig", None)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("a\x1b[2J", "U+001B"),
        ("a\nb", "U+000A"),
        ("a\0", "U+0000"),
        ("\u202egnp.a", "U+202E"),
        ("a\u200bb", "U+200B"),
        ("a\u2028b\x85", "U+0085, U+2028"),
    ],
)
def test_characters_that_steer_or_hide_are_refused(name: str, found: str) -> None:
    """Item 23: control and bidi characters are refused, and the error prints them escaped."""
    error = _refusal(_buffer({name: _A}, b"12"))
    assert error.message == "a tensor name has control or invisible characters"
    assert error.found == repr(found)
    assert str(error).replace("\n", "").isprintable()


def test_names_in_two_normal_forms_are_refused() -> None:
    """Item 25: NFC and NFD twins look the same and are two tensors."""
    empty = {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}
    error = _refusal(_buffer({"caf\u00e9": empty, "cafe\u0301": empty}))
    assert error.message == (
        r"the tensor names 'caf\xe9' and 'cafe\u0301' differ only in their Unicode normal form"
    )


def test_a_name_whose_normal_form_is_ascii_has_a_twin_too() -> None:
    """Item 25: the Kelvin sign composes to the letter K."""
    empty = {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}
    assert "normal form" in _refusal(_buffer({"\u212a": empty, "K": empty})).message


@pytest.mark.parametrize("name", ["a" * 4097, "é" * 2049, "a" * 1_000_000])
def test_a_long_name_is_refused(name: str) -> None:
    """Item 26: a name is bounded in bytes, and the error does not repeat all of it."""
    error = _refusal(_buffer({name: _A}, b"12"))
    assert error.message == "a tensor name is too long"
    assert error.expected == "bytes: at most 4096 (Limits.name_bytes)"
    assert len(str(error)) < 400


def test_the_longest_name_is_read() -> None:
    """The limit on names is inclusive."""
    assert _parse(_buffer({"a" * 4096: _A}, b"12")).tensors


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        pytest.param([2**62, 4], "a dimension is too large", id="item-27"),
        pytest.param([2**32, 2**32], "the shape overflows", id="item-27-small-dimensions"),
        pytest.param([0, 2**60], "a dimension is too large", id="item-28"),
        pytest.param([0, 2**40, 2**40], "the shape overflows", id="item-28-strides"),
        pytest.param([1] * 100_000, "the shape has too many dimensions", id="item-29"),
        pytest.param([1.0, 2], "a dimension is not a size", id="item-30-float"),
        pytest.param(["2"], "a dimension is not a size", id="item-30-string"),
        pytest.param([True, 2], "a dimension is not a size", id="item-30-bool"),
        pytest.param([1e23], "a dimension is not a size", id="item-30-1e23"),
        pytest.param([-2], "a dimension is not a size", id="negative"),
        pytest.param([[2]], "a dimension is not a size", id="nested"),
        pytest.param(None, "the shape is not a list", id="null"),
        pytest.param(2, "the shape is not a list", id="number"),
    ],
)
def test_an_absurd_shape_is_refused(shape: Any, message: str) -> None:
    """Items 27 to 30: a shape is a short list of sizes whose product has a meaning."""
    error = _refusal(_buffer({"a": _A | {"shape": shape}}, b"12"))
    assert (error.message, error.fqn) == (message, "a")


@pytest.mark.parametrize(
    ("limits", "header", "name"),
    [
        ({"rank": 0}, {"a": _A}, "rank"),
        ({"dimension": 1}, {"a": _A}, "dimension"),
        ({"tensors": 0}, {"a": _A}, "tensors"),
        ({"name_bytes": 0}, {"a": _A}, "name_bytes"),
        ({"metadata_value_bytes": 3}, {"__metadata__": {"k": "ab€"}}, "metadata_value_bytes"),
        ({"name_bytes": 1}, {"__metadata__": {"kk": ""}}, "name_bytes"),
        ({"json_depth": 2}, {"a": _A}, "json_depth"),
        ({"header_bytes": 20}, {"a": _A}, "header_bytes"),
    ],
)
def test_a_limit_is_named_where_it_refuses(
    limits: dict[str, int], header: dict[str, Any], name: str
) -> None:
    """Every bound can be changed, and the error says which one it was."""
    assert f"(Limits.{name})" in (_refusal(_buffer(header, b"12"), **limits).expected or "")


def test_a_flood_of_brackets_is_refused_before_it_is_parsed() -> None:
    """Brackets cost far more memory than bytes, so they are counted first."""
    error = _refusal(_buffer(b"{" + b"[]," * 2000), tensors=100)
    assert error.message == "the header has too many tensors"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (_A | {"extra": 1}, "the entry has an unknown field"),
        ({"dtype": "U8", "shape": [2]}, "the entry lacks data_offsets"),
        ({}, "the entry lacks data_offsets, dtype, shape"),
        (None, "the entry is not an object"),
        ([], "the entry is not an object"),
        (_A | {"dtype": "F8"}, "unknown dtype code"),
        (_A | {"dtype": "u8"}, "unknown dtype code"),
        (_A | {"dtype": None}, "unknown dtype code"),
        (_A | {"dtype": ["U8"]}, "unknown dtype code"),
        (_A | {"dtype": "F4", "shape": [3]}, "half a byte left over"),
        (_A | {"dtype": "F4", "shape": []}, "half a byte left over"),
        (_A | {"data_offsets": [0, 1]}, "the byte range does not fit dtype and shape"),
        (_A | {"data_offsets": [2, 0]}, "the byte range does not fit dtype and shape"),
        (_A | {"data_offsets": [0, 2, 4]}, "data_offsets are not two sizes"),
        (_A | {"data_offsets": [False, 2]}, "data_offsets are not two sizes"),
        (_A | {"data_offsets": [-2, 0]}, "data_offsets are not two sizes"),
        (_A | {"data_offsets": "02"}, "data_offsets are not two sizes"),
        (_A | {"data_offsets": [1, 3]}, "a hole in the data"),
    ],
)
def test_a_wrong_entry_is_refused(fields: Any, message: str) -> None:
    """Missing, unknown and ill-typed fields name the tensor."""
    error = _refusal(_buffer({"a": fields}, b"12"))
    assert (error.message, error.fqn) == (message, "a")


@pytest.mark.parametrize(
    ("offsets", "message"),
    [([1, 3], "the bytes overlap those of 'a'"), ([3, 5], "a hole in the data")],
)
def test_the_data_is_covered_once(offsets: list[int], message: str) -> None:
    """Every byte belongs to exactly one tensor."""
    error = _refusal(_buffer({"a": _A, "b": _A | {"data_offsets": offsets}}, bytes(offsets[1])))
    assert (error.message, error.fqn, error.expected) == (message, "b", "data that starts at 2")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "__metadata__ is not an object"),
        ([], "__metadata__ is not an object"),
        ({"k": 1}, "__metadata__ has a value that is no string"),
        ({"k": None}, "__metadata__ has a value that is no string"),
        ({"k": {"n": "1"}}, "__metadata__ has a value that is no string"),
        ({"k\n": "v"}, "a metadata key has control or invisible characters"),
    ],
)
def test_metadata_is_an_object_of_strings(value: Any, message: str) -> None:
    """`__metadata__: null` passes safetensors 0.8.0; here it is refused like any other type."""
    assert _refusal(_buffer({"__metadata__": value})).message == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b" {}", "the header does not start with '{'"),
        (b"", "the header does not start with '{'"),
        (b"[]", "the header does not start with '{'"),
        (b"\xef\xbb\xbf{}", "the header does not start with '{'"),
        (b"{}\0", "in the header: not JSON at line 1, column 3: Extra data"),
        (b'{"\xff":1}', "in the header: not UTF-8 at line 1, column 3"),
        (b'{"\\ud800":{}}', "in the header: half of a surrogate pair at line 1, column 2"),
        (b'{"a":NaN}', "in the header: NaN is not JSON, at line 1, column 6"),
    ],
)
def test_a_header_that_is_no_strict_json_is_refused(text: bytes, message: str) -> None:
    """The header starts with a brace and is UTF-8 and JSON to its end."""
    assert _refusal(_buffer(text)).message == message


def test_an_error_reads_well() -> None:
    """The text of an error has the file, the tensor, both values and what to do."""
    assert str(_refusal(_buffer({"a.w": _A | {"dtype": "BF61"}}, b"12"))).splitlines()[::3] == [
        "m.safetensors: a.w: unknown dtype code",
        "  hint: did you mean 'BF16'?",
    ]


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
    lazy = lazy_tensors(header)["a"]
    with pytest.raises(ContainerError) as caught:
        lazy.load() if way == "lazy" else mapped_tensors(header)
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
    buffer = _buffer({"a": _A}, b"12")
    assert _parse(buffer).byte_range("a") == ByteRange(Path("m.safetensors"), len(buffer) - 2, 2)


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
        _parse(buffer)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(_NAMES, _ENTRIES | _SCALARS, max_size=3), st.integers(0, 16))
@example({"a": _A}, 2)
def test_what_is_accepted_here_is_accepted_by_safetensors(header: Any, size: int) -> None:
    """This reader is a subset of safetensors 0.8.0, entry by entry."""
    buffer = _buffer(header, bytes(size))
    try:
        parsed = _parse(buffer)
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
    header = {"__metadata__": {"k": "v"}, "a": _A, "b": _A | {"data_offsets": [2, 4]}}
    buffer = bytearray(_buffer(header, b"1234"))
    position = data.draw(st.integers(0, len(buffer) - 1))
    # No minus: Rust's JSON reader takes -0 for a float, Python's for the int 0.
    buffer[position] = data.draw(st.sampled_from(b'\0"{}[]:,0123489 eUIF\\\x80'))
    try:
        parsed = _parse(bytes(buffer))
    except ContainerError:
        return
    assert dict(safetensors.deserialize(bytes(buffer))).keys() == parsed.tensors.keys()
