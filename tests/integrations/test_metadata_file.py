"""Nothing in torch's `.metadata`, a pickle, is called or imported; all of it is checked."""

import pickle
from pathlib import Path, PurePosixPath

import pytest
import torch
from torch.distributed.checkpoint import FileSystemReader

from qconfig.configs import Int8WeightOnlyConfig
from qconfig.errors import ContainerError
from qconfig.integrations.distributed_checkpoint import load_distributed, save_distributed
from qconfig.integrations.metadata_file import FilesReader
from qconfig.limits import use_limits
from qconfig.testing.subject import Subject

W = Subject(Int8WeightOnlyConfig(), (32, 64)).build()


@pytest.fixture
def folder(tmp_path):
    """Return a checkpoint."""
    state = {"m": {"w": W, "list": [torch.ones(2, 2), torch.tensor(1)]}, "step": 3}
    save_distributed(state, checkpoint_id=tmp_path / "state")
    return tmp_path / "state"


class Call:
    """What makes a pickle call a function."""

    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


def changed(folder, change):
    """Change the metadata of a checkpoint."""
    file = folder / ".metadata"
    metadata = pickle.loads(file.read_bytes())
    file.write_bytes(pickle.dumps(change(metadata) or metadata))


def test_it_says_what_torch_reads(folder):
    """Names, types, shapes, places and keys are those that torch unpickles."""
    found, expected = (kind(folder).read_metadata() for kind in (FilesReader, FileSystemReader))
    assert found.state_dict_metadata == expected.state_dict_metadata
    assert found.storage_data == expected.storage_data
    assert found.planner_data == expected.planner_data


def test_nothing_is_called(folder, tmp_path):
    """A pickle that would make a directory is refused, and none is made."""
    changed(folder, lambda m: setattr(m, "planner_data", Call(Path.mkdir, tmp_path / "made")))
    with pytest.raises(ContainerError, match="names what torch does not write there") as caught:
        load_distributed(checkpoint_id=folder)
    assert caught.value.file == str(folder / ".metadata")
    assert not (tmp_path / "made").exists()


def of(metadata, name):
    """Return what is said of a tensor."""
    return metadata.state_dict_metadata[name]


def nested(levels):
    """Return a list in a list, and so on."""
    return [nested(levels - 1)] if levels else []


def info(metadata):
    """Return where some tensor lies."""
    return next(iter(metadata.storage_data.values()))


CASES = {
    "another object": (lambda _: PurePosixPath("x"), "names what torch does not write"),
    "plain data": (lambda _: {"a": 1}, "has another value than torch writes"),
    "a path": (lambda m: setattr(info(m), "relative_path", "../secret"), "names a file elsewhere"),
    "a text": (lambda m: setattr(info(m), "offset", "0"), "has another value than torch writes"),
    "an offset": (lambda m: setattr(info(m), "offset", 10**9), "the file is shorter"),
    "a type": (
        lambda m: setattr(of(m, "m.w.qdata").properties, "dtype", "int8"),
        "has a tensor without a type",
    ),
    "a size": (
        lambda m: setattr(of(m, "m.w.qdata"), "size", torch.Size([2**40, 2**20])),
        "a tensor takes more bytes than are stored",
    ),
    "a dimension": (
        lambda m: setattr(of(m, "m.w.qdata"), "size", torch.Size([2**60])),
        "has a dimension beyond bounds",
    ),
    "a rank": (
        lambda m: setattr(of(m, "m.w.qdata"), "size", torch.Size([1] * 40)),
        "has too many dimensions",
    ),
    "a size that wraps in 64 bits": (
        lambda m: setattr(of(m, "m.w.qdata"), "size", torch.Size([2**47] * 4)),
        "a tensor takes more bytes than are stored",
    ),
    "an item": (
        lambda m: m.planner_data.update({3: "x"}),
        "has another value than torch writes",
    ),
    "a set": (
        lambda m: setattr(m, "planner_data", {"a": {1, 2}}),
        "uses an instruction that is not obeyed",
    ),
    "lists in lists": (
        lambda m: m.planner_data.update(x=nested(100)),
        "the pickle nests values too deep",
    ),
    "an entry": (
        lambda m: m.state_dict_metadata.update(x=3),
        "has another value than torch writes",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_hostile_metadata(folder, name):
    """What torch would not write, or the files do not hold, is refused before memory is taken."""
    change, message = CASES[name]
    changed(folder, change)
    with pytest.raises(ContainerError, match=message):
        load_distributed(checkpoint_id=folder)


def test_tuples_in_tuples(folder):
    """A tuple of which hash and text would take time without end is neither hashed nor shown."""
    start = b"\x80\x04()\x94" + b"".join(bytes([104, i, 104, i, 0x86, 0x94]) for i in range(64))
    refusals = ((b"}h\x40Ns.", "a key that is no plain value"), (b"t.", "grows too large"))
    for end, message in refusals:
        (folder / ".metadata").write_bytes(start + end)
        with pytest.raises(ContainerError, match=message):
            load_distributed(checkpoint_id=folder)


def test_damaged_metadata(folder):
    """Cut, empty and garbled files are errors of the file."""
    file = folder / ".metadata"
    content = file.read_bytes()
    for bad in (content[:100], b"", b"garbage", content[:-1], b"\x80\x04r\xff\xff\xff\x7f."):
        file.write_bytes(bad)
        with pytest.raises(ContainerError, match="the pickle"):
            load_distributed(checkpoint_id=folder)


def test_metadata_has_a_bound(folder):
    """The size of the file is bounded by a limit that the error names."""
    with use_limits(pickle_bytes=100), pytest.raises(ContainerError, match="too large") as caught:
        load_distributed(checkpoint_id=folder)
    assert "pickle_bytes" in str(caught.value)


def test_instructions_have_a_bound(folder):
    """Small instructions that each make a value are counted, and the limit is named."""
    (folder / ".metadata").write_bytes(b"\x80\x04" + b"]" * 5000 + b".")
    with use_limits(pickle_operations=1000), pytest.raises(ContainerError) as caught:
        load_distributed(checkpoint_id=folder)
    assert "pickle_operations" in str(caught.value)
