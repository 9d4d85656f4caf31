"""Hostile pickles: each is refused with an error of ours, and what it names never runs."""

import io
import pickle
import tracemalloc
import zipfile

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from qconfig.codec.pickled_values import Role
from qconfig.codec.torch_files import read_torch_file
from qconfig.errors import ContainerError, QconfigError
from tests.codec.torch_samples import global_of, of_pickle, saved
from tests.hostile.pickle_samples import NAMED, hostile

NAMES = {"torchao.quantization.Int8Tensor": Role.TENSOR, "torchao.PerRow": Role.OBJECT}
SAMPLES = hostile()


@pytest.mark.parametrize("name", SAMPLES)
def test_a_hostile_pickle_is_refused(name, tmp_path):
    """With the file, and where in the pickle."""
    path = tmp_path / "m.pt"
    path.write_bytes(of_pickle(SAMPLES[name]))
    with pytest.raises(ContainerError) as caught:
        read_torch_file(path, NAMES)
    assert caught.value.file == str(path)
    assert "pickle" in str(caught.value)


@pytest.mark.parametrize("name", NAMED)
def test_what_it_calls_is_named(name, tmp_path):
    """So that one sees what the file was meant to do."""
    path = tmp_path / "m.pt"
    path.write_bytes(of_pickle(NAMED[name]))
    with pytest.raises(ContainerError) as caught:
        read_torch_file(path, NAMES)
    assert "names something that is not read" in str(caught.value)
    assert name.strip(".") in caught.value.found


def test_a_name_that_steers_a_terminal_is_escaped(tmp_path):
    """Names of the file are printed, and are hostile, too."""
    path = tmp_path / "m.pt"
    path.write_bytes(of_pickle(b"cos\x1b[2J\n" + b"x" * 100_000 + b"\n."))
    with pytest.raises(ContainerError) as caught:
        read_torch_file(path, NAMES)
    assert "\x1b" not in str(caught.value)
    assert len(str(caught.value)) < 1000


@pytest.fixture
def small(tmp_path):
    """A small file of all kinds of tensors."""
    state = {"w": nn.Parameter(torch.ones(2)), "v": torch.arange(6).view(2, 3).t()}
    return saved(state | {"n": 1.5}, tmp_path / "m.pt")


def test_a_file_cut_anywhere_is_refused(small):
    """At every byte: what was there before the cut is never taken for the whole."""
    data = small.read_bytes()
    for length in range(len(data)):
        small.write_bytes(data[:length])
        with pytest.raises(ContainerError):
            read_torch_file(small, NAMES)


def loaded(value) -> None:
    """Load every tensor of a tree."""
    for part in value.values() if isinstance(value, dict) else ():
        if hasattr(part, "value"):
            part.value.load()


@pytest.mark.parametrize("change", [0x01, 0x80])
def test_a_file_with_a_changed_byte_is_read_or_refused(change, small):
    """Each byte in turn: an error of ours or other numbers, and nothing else."""
    data = bytearray(small.read_bytes())
    refused = 0
    for place in range(len(data)):
        data[place] ^= change
        small.write_bytes(data)
        data[place] ^= change
        try:
            loaded(read_torch_file(small, NAMES).root)
        except QconfigError:
            refused += 1
    assert refused > len(data) // 3


def test_a_pickle_with_a_changed_byte_is_read_or_refused(small, tmp_path):
    """The same past the checksum, for each instruction there is at each place."""
    archive = zipfile.ZipFile(io.BytesIO(small.read_bytes()))
    pickled = bytearray(archive.read("m/data.pkl"))
    storages = {str(i): archive.read(f"m/data/{i}") for i in range(2)}
    path = tmp_path / "changed.pt"
    for place in range(len(pickled)):
        kept = pickled[place]
        for value in {kept ^ 1, kept ^ 0x80, ord("R"), ord("."), ord("(")}:
            pickled[place] = value
            path.write_bytes(of_pickle(bytes(pickled), storages))
            try:
                loaded(read_torch_file(path, NAMES).root)
            except QconfigError:
                continue
        pickled[place] = kept


@settings(max_examples=500, deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(tmp_path_factory, data):
    """As a pickle, and as a file."""
    path = tmp_path_factory.mktemp("any") / "m.pt"
    for content in (of_pickle(data), b"PK\x03\x04" + data):
        path.write_bytes(content)
        try:
            read_torch_file(path, NAMES)
        except QconfigError:
            continue


TEXT = b"X\x01\x00\x00\x00a"
SHORT = [bytes([code]) for code in b"()]}N\x88t\x85\x86suaebR\x81Q"]
LONG = [b"K\x01", TEXT, b"q\x00", b"h\x00", b"q\x01", b"h\x01", b"ctorch\nint8\n"]
CALLABLE = [*NAMES, "collections.OrderedDict", "builtins.getattr", "functools.partial"]
OPCODES = st.sampled_from([*SHORT, *LONG, *map(global_of, CALLABLE)])


@settings(max_examples=1000, deadline=None)
@given(st.lists(OPCODES, max_size=30))
def test_any_instructions_are_obeyed_or_refused(tmp_path_factory, codes):
    """Sound instructions in any order."""
    path = tmp_path_factory.mktemp("any") / "m.pt"
    path.write_bytes(of_pickle(b"".join(codes) + b"."))
    try:
        repr(read_torch_file(path, NAMES).root)
    except QconfigError:
        return


@pytest.mark.parametrize("name", [n for n in SAMPLES if n.startswith("huge")])
def test_no_more_memory_is_taken_than_the_file_has(name, tmp_path):
    """A length is believed only where the bytes are there."""
    path = tmp_path / "m.pt"
    path.write_bytes(of_pickle(SAMPLES[name]))
    tracemalloc.start()
    try:
        with pytest.raises(ContainerError):
            read_torch_file(path, NAMES)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


def test_a_laughing_file_is_refused(tmp_path):
    """A few hundred bytes that would be a thousand million values."""
    value: object = [1]
    for _ in range(9):
        value = [value] * 10
    path = tmp_path / "m.pt"
    path.write_bytes(of_pickle(pickle.dumps({"w": value}, 2)))
    with pytest.raises(ContainerError, match="grows too large"):
        read_torch_file(path, NAMES)
