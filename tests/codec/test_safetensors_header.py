"""The strict safetensors header: what is refused, in which words, and what real files give."""

import math
import struct
from pathlib import Path
from typing import Any

import pytest
import safetensors
import torch
from safetensors.torch import save_file

from qconfig.codec.dtypes import FROM_SAFETENSORS, DType
from qconfig.codec.safetensors_header import read_header
from qconfig.codec.safetensors_maps import MappedFiles
from qconfig.codec.safetensors_reader import lazy_tensors
from qconfig.errors import ContainerError
from tests.codec.header_samples import ENTRY, file_bytes, parse_bytes

_DTYPES = sorted(FROM_SAFETENSORS.values())
_SHAPES = [(), (0,), (1,), (3, 2), (2, 0, 4)]
_CASES = [(d, s) for d in _DTYPES for s in _SHAPES if s or d is not DType.FLOAT4_E2M1FN_X2]


def _refusal(buffer: bytes, **limits: int) -> ContainerError:
    with pytest.raises(ContainerError) as caught:
        parse_bytes(buffer, **limits)
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
    with MappedFiles() as files:
        lazy = files.tensors(header)[name]
        tensor = files.mapped(lazy) if way == "mapped" else lazy.load()
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
    assert parse_bytes(file_bytes(header, bytes(12))).tensors["a"].shape == (3, 4)


@pytest.mark.parametrize("name", ["", "weight", "a b", "層.weight", "../../etc/passwd", "dtype"])
def test_unusual_names_work(name: str) -> None:
    """Items 22 and 24: a name may be empty, lack a dot, or look like a path and never be one."""
    assert list(parse_bytes(file_bytes({name: ENTRY}, b"12")).tensors) == [name]


@pytest.mark.parametrize("header", [{}, {"__metadata__": {}}])
def test_a_file_without_tensors_is_read(header: dict[str, Any]) -> None:
    """Metadata and tensors are both optional."""
    assert parse_bytes(file_bytes(header)).tensors == {}


def test_tensors_may_stand_in_any_order() -> None:
    """The header's order need not be the data's; empty tensors lie anywhere between."""
    header = {
        "b": {"dtype": "U8", "shape": [3], "data_offsets": [2, 5]},
        "e": {"dtype": "F64", "shape": [0], "data_offsets": [2, 2]},
        "a": ENTRY,
    }
    assert list(parse_bytes(file_bytes(header, bytes(5))).tensors) == ["b", "e", "a"]


def test_a_mapped_tensor_never_writes_to_the_file(real_file: Path) -> None:
    """A mapping is private: an in-place operation changes memory only."""
    before = real_file.read_bytes()
    with MappedFiles() as files:
        files.mapped(files.tensors(read_header(real_file))["float32(3, 2)"]).fill_(7)
    assert real_file.read_bytes() == before


def test_an_unaligned_tensor_is_mapped_all_the_same(tmp_path: Path) -> None:
    """Files of old writers do not align their data; such tensors are copied."""
    header = b'{"a":{"dtype":"I32","shape":[1],"data_offsets":[0,4]}}'
    for pad in range(4):
        path = tmp_path / f"{pad}.safetensors"
        path.write_bytes(file_bytes(header + b" " * pad, b"\1\0\0\0"))
        with MappedFiles() as files:
            mapped = files.mapped(files.tensors(read_header(path))["a"])
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
            file_bytes({"a": ENTRY}, b"1"),
            "the file is cut short",
            "69 bytes",
            "70 bytes",
            id="item-5",
        ),
        pytest.param(
            file_bytes({"a": ENTRY}, b"123"),
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
    buffer = file_bytes(first + second + b"}", b"12")
    assert _is_accepted_by_safetensors(buffer)
    error = _refusal(buffer)
    assert error.fqn == "a"
    assert error.message == (
        "in the header: duplicate key 'a' at line 1, column 54; it is first at line 1, column 2"
    )


def test_a_metadata_key_that_is_there_twice_is_refused() -> None:
    """Item 9: two `qconfig` entries would let two readers see two checkpoints."""
    error = _refusal(file_bytes(b'{"__metadata__":{"qconfig":"1","qconfig":"2"}}'))
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
    error = _refusal(file_bytes({name: ENTRY}, b"12"))
    assert error.message == "a tensor name has control or invisible characters"
    assert error.found == repr(found)
    assert str(error).replace("\n", "").isprintable()


def test_names_in_two_normal_forms_are_refused() -> None:
    """Item 25: NFC and NFD twins look the same and are two tensors."""
    empty = {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}
    error = _refusal(file_bytes({"caf\u00e9": empty, "cafe\u0301": empty}))
    assert error.message == (
        r"the tensor names 'caf\xe9' and 'cafe\u0301' differ only in their Unicode normal form"
    )


def test_a_name_whose_normal_form_is_ascii_has_a_twin_too() -> None:
    """Item 25: the Kelvin sign composes to the letter K."""
    empty = {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}
    assert "normal form" in _refusal(file_bytes({"\u212a": empty, "K": empty})).message


@pytest.mark.parametrize("name", ["a" * 4097, "é" * 2049, "a" * 1_000_000])
def test_a_long_name_is_refused(name: str) -> None:
    """Item 26: a name is bounded in bytes, and the error does not repeat all of it."""
    error = _refusal(file_bytes({name: ENTRY}, b"12"))
    assert error.message == "a tensor name is too long"
    assert error.expected == "bytes: at most 4096 (Limits.name_bytes)"
    assert len(str(error)) < 400


def test_the_longest_name_is_read() -> None:
    """The limit on names is inclusive."""
    assert parse_bytes(file_bytes({"a" * 4096: ENTRY}, b"12")).tensors


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
    error = _refusal(file_bytes({"a": ENTRY | {"shape": shape}}, b"12"))
    assert (error.message, error.fqn) == (message, "a")


@pytest.mark.parametrize(
    ("limits", "header", "name"),
    [
        ({"rank": 0}, {"a": ENTRY}, "rank"),
        ({"dimension": 1}, {"a": ENTRY}, "dimension"),
        ({"tensors": 0}, {"a": ENTRY}, "tensors"),
        ({"name_bytes": 0}, {"a": ENTRY}, "name_bytes"),
        ({"metadata_value_bytes": 3}, {"__metadata__": {"k": "ab€"}}, "metadata_value_bytes"),
        ({"name_bytes": 1}, {"__metadata__": {"kk": ""}}, "name_bytes"),
        ({"json_depth": 2}, {"a": ENTRY}, "json_depth"),
        ({"header_bytes": 20}, {"a": ENTRY}, "header_bytes"),
    ],
)
def test_a_limit_is_named_where_it_refuses(
    limits: dict[str, int], header: dict[str, Any], name: str
) -> None:
    """Every bound can be changed, and the error says which one it was."""
    assert f"(Limits.{name})" in (_refusal(file_bytes(header, b"12"), **limits).expected or "")


def test_a_flood_of_brackets_is_refused_before_it_is_parsed() -> None:
    """Brackets cost far more memory than bytes, so they are counted first."""
    error = _refusal(file_bytes(b"{" + b"[]," * 2000), tensors=100)
    assert error.message == "the header has too many tensors"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (ENTRY | {"extra": 1}, "the entry has an unknown field"),
        ({"dtype": "U8", "shape": [2]}, "the entry lacks data_offsets"),
        ({}, "the entry lacks data_offsets, dtype, shape"),
        (None, "the entry is not an object"),
        ([], "the entry is not an object"),
        (ENTRY | {"dtype": "F8"}, "unknown dtype code"),
        (ENTRY | {"dtype": "u8"}, "unknown dtype code"),
        (ENTRY | {"dtype": None}, "unknown dtype code"),
        (ENTRY | {"dtype": ["U8"]}, "unknown dtype code"),
        (ENTRY | {"dtype": "F4", "shape": [3]}, "half a byte left over"),
        (ENTRY | {"dtype": "F4", "shape": []}, "half a byte left over"),
        (ENTRY | {"data_offsets": [0, 1]}, "the byte range does not fit dtype and shape"),
        (ENTRY | {"data_offsets": [2, 0]}, "the byte range does not fit dtype and shape"),
        (ENTRY | {"data_offsets": [0, 2, 4]}, "data_offsets are not two sizes"),
        (ENTRY | {"data_offsets": [False, 2]}, "data_offsets are not two sizes"),
        (ENTRY | {"data_offsets": [-2, 0]}, "data_offsets are not two sizes"),
        (ENTRY | {"data_offsets": "02"}, "data_offsets are not two sizes"),
        (ENTRY | {"data_offsets": [1, 3]}, "a hole in the data"),
    ],
)
def test_a_wrong_entry_is_refused(fields: Any, message: str) -> None:
    """Missing, unknown and ill-typed fields name the tensor."""
    error = _refusal(file_bytes({"a": fields}, b"12"))
    assert (error.message, error.fqn) == (message, "a")


@pytest.mark.parametrize(
    ("offsets", "message"),
    [([1, 3], "the bytes overlap those of 'a'"), ([3, 5], "a hole in the data")],
)
def test_the_data_is_covered_once(offsets: list[int], message: str) -> None:
    """Every byte belongs to exactly one tensor."""
    error = _refusal(
        file_bytes({"a": ENTRY, "b": ENTRY | {"data_offsets": offsets}}, bytes(offsets[1]))
    )
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
    assert _refusal(file_bytes({"__metadata__": value})).message == message


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
    assert _refusal(file_bytes(text)).message == message
