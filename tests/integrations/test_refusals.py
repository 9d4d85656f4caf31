"""What is wrong with a state or a stored checkpoint is said, in errors of ours."""

import pickle

import attrs
import pytest
import torch
from torch import nn
from torch.distributed.checkpoint import (
    FileSystemReader,
    HuggingFaceStorageReader,
    HuggingFaceStorageWriter,
)

from qconfig.checkpoints.record import METADATA_KEY
from qconfig.codec.digests import digest
from qconfig.codec.strict_json import dumps_compact, loads
from qconfig.configs import Int8WeightOnlyConfig
from qconfig.errors import (
    CheckpointError,
    ContainerError,
    NewerVersionError,
    QconfigError,
    StorageError,
    UsageError,
)
from qconfig.integrations.distributed_checkpoint import (
    load_distributed,
    load_distributed_into,
    plain_state,
    save_distributed,
)
from qconfig.integrations.plain_state import RECORD_NAME
from qconfig.testing.subject import Subject

W = Subject(Int8WeightOnlyConfig(), (32, 64)).build()


def saved(folder, change, state=None):
    """Save a state whose plain form was changed."""
    plain = plain_state(state or {"w": W, "b": torch.ones(3)})
    change(plain)
    with pytest.warns(UserWarning, match="single process"):
        torch.distributed.checkpoint.save(plain, checkpoint_id=folder)


def record_changed(**changes):
    """Return a change that gives a record other content, under the right digest."""

    def change(plain):
        name = next(n for n in plain if RECORD_NAME.fullmatch(n))
        record = loads(bytes(plain.pop(name).tolist()))
        text = dumps_compact({**record, **changes}).encode()
        plain[f"{METADATA_KEY}.{digest(text)}"] = torch.tensor(list(text), dtype=torch.uint8)

    return change


def flipped(plain):
    """Flip a bit of the record."""
    name = next(n for n in plain if RECORD_NAME.fullmatch(n))
    plain[name] = plain[name].clone()
    plain[name][20] ^= 1


def of_another_form(plain):
    """Make the record one of floats."""
    name = next(n for n in plain if RECORD_NAME.fullmatch(n))
    plain[name] = plain[name].float()


def binary(plain):
    """Make the record no text."""
    plain.pop(next(n for n in plain if RECORD_NAME.fullmatch(n)))
    plain[f"{METADATA_KEY}.{digest(bytes([255]))}"] = torch.tensor([255], dtype=torch.uint8)


def second_record(plain):
    """Add a record that says something else of the tensor."""
    other = plain_state({"w": W.to(torch.bfloat16)})
    plain |= {name: value for name, value in other.items() if RECORD_NAME.fullmatch(name)}


CASES = [
    (lambda p: p.pop("w.scale"), CheckpointError, "an inner tensor is missing", "w.scale"),
    (
        lambda p: p.update({"w.scale": torch.ones(3)}),
        CheckpointError,
        "an inner tensor differs from its record",
        "w.scale",
    ),
    (
        lambda p: p.update({"w.other": torch.ones(3)}),
        CheckpointError,
        "a tensor lies beside a quantized one",
        "w.other",
    ),
    (lambda p: p.update(w=3), CheckpointError, "a tensor lies beside a quantized one", "w"),
    (flipped, CheckpointError, "a record is damaged", None),
    (of_another_form, CheckpointError, "a record has another form", None),
    (binary, CheckpointError, "a record is no text", None),
    (second_record, CheckpointError, "two records differ about the tensor", "w"),
    (record_changed(min_reader=99), NewerVersionError, "the container is newer", None),
    (record_changed(layouts=[]), ContainerError, "the qconfig record is malformed", None),
    (
        record_changed(ties={"x": "absent"}),
        CheckpointError,
        "a tie does not lead from a new name",
        "x",
    ),
]


@pytest.mark.parametrize(("change", "kind", "message", "fqn"), CASES)
def test_damaged_checkpoints(tmp_path, change, kind, message, fqn):
    """Records and tensors that contradict each other are refused, with place and name."""
    saved(tmp_path, change)
    with pytest.raises(kind, match=message) as caught:
        load_distributed(checkpoint_id=tmp_path)
    assert caught.value.file == str(tmp_path)
    if fqn is None:
        assert RECORD_NAME.fullmatch(caught.value.fqn)
    else:
        assert caught.value.fqn == fqn
    assert "__metadata__" not in str(caught.value)


def test_newer_layouts(tmp_path):
    """A layout of a later version is refused by its version."""
    plain = plain_state({"w": W})
    name = next(n for n in plain if RECORD_NAME.fullmatch(n))
    layouts = loads(bytes(plain[name].tolist()))["layouts"]
    layouts[0]["version"] = 99
    saved(tmp_path, record_changed(layouts=layouts), {"w": W})
    with pytest.raises(NewerVersionError) as caught:
        load_distributed(checkpoint_id=tmp_path)
    assert caught.value.pointer == "/layouts/0/version"


def test_no_checkpoint(tmp_path):
    """A place without a checkpoint is an error of storage."""
    with pytest.raises(StorageError, match="cannot open: No such file") as caught:
        load_distributed(checkpoint_id=tmp_path / "absent")
    assert caught.value.file == str(tmp_path / "absent" / ".metadata")
    with pytest.raises(StorageError, match="there is no checkpoint") as caught:
        load_distributed(storage_reader=FileSystemReader(tmp_path / "absent"))
    assert caught.value.file == str(tmp_path / "absent")


def test_missing_and_cut_files(tmp_path):
    """A file that is missing or cut is an error of ours, not a crash of torch."""
    save_distributed({"w": W}, checkpoint_id=tmp_path)
    (file,) = tmp_path.glob("*.distcp")
    file.write_bytes(file.read_bytes()[:1000])
    reader = FileSystemReader(tmp_path)
    with pytest.raises(ContainerError, match="the file is shorter than the metadata says"):
        load_distributed(checkpoint_id=tmp_path)
    with pytest.raises(CheckpointError, match=r"torch\.distributed\.checkpoint failed"):
        load_distributed(storage_reader=reader)
    file.unlink()
    for options in ({"checkpoint_id": tmp_path}, {"storage_reader": reader}):
        with pytest.raises(StorageError, match="No such file"):
            load_distributed(**options)


def test_a_place_that_cannot_be_written(tmp_path):
    """Where the file system refuses a directory, that is an error of storage."""
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="the file system refused"):
        save_distributed({"w": W}, checkpoint_id=tmp_path / "file" / "state")


@attrs.define
class Custom:
    """A value of a class that nobody trusts."""

    number: int = 1


def test_values_of_other_classes(tmp_path):
    """A pickled value is read only if it needs no class that torch was not told to trust."""
    save_distributed({"w": W, "custom": Custom()}, checkpoint_id=tmp_path)
    with pytest.raises(CheckpointError, match="a class that is not trusted") as caught:
        load_distributed(checkpoint_id=tmp_path)
    assert caught.value.fqn == "custom"
    assert "Custom" in str(caught.value)
    mine = {"w": None}
    load_distributed_into(mine, checkpoint_id=tmp_path)
    with torch.serialization.safe_globals([Custom]):
        assert load_distributed(checkpoint_id=tmp_path)["custom"] == Custom()


def test_states_that_do_not_fit(tmp_path):
    """All entries that a state lacks or has otherwise are told at once, and nothing is changed."""
    save_distributed({"w": W, "b": torch.ones(3), "q": torch.ones(32, 64)}, checkpoint_id=tmp_path)
    state = {"w": torch.zeros(32, 64), "b": torch.zeros(4), "q": W, "bb": torch.zeros(3)}
    with pytest.raises(CheckpointError) as caught:
        load_distributed_into(state, checkpoint_id=tmp_path)
    assert {problem.fqn for problem in caught.value.problems} == {"w", "b", "q", "bb"}
    assert all(problem.file == str(tmp_path) for problem in caught.value.problems)
    assert not state["w"].any()


def test_models_that_do_not_fit(tmp_path):
    """Names of a model that are missing or left over are told, and so is a forgotten key."""
    model = nn.Linear(64, 32)
    save_distributed({"weight": W, "extra": torch.ones(1)}, checkpoint_id=tmp_path / "a")
    with pytest.raises(CheckpointError) as caught:
        load_distributed_into(model, checkpoint_id=tmp_path / "a")
    assert {problem.fqn for problem in caught.value.problems} == {"bias", "extra"}
    save_distributed({"model": {"weight": W}}, checkpoint_id=tmp_path / "b")
    with pytest.raises(CheckpointError, match="not the state of one model"):
        load_distributed_into(model, checkpoint_id=tmp_path / "b")


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"w": W, "w.scale": torch.ones(2)}, "two tensors would be stored under one name"),
        ({"w": W, "w.x": torch.ones(2)}, "a tensor lies beside a quantized one"),
        ({"w": W.to("meta")}, "a meta tensor has no values"),
        ({"w\n": W}, "control or invisible characters"),
        (plain_state({"w": W}), "the name is kept for records"),
    ],
)
def test_states_that_cannot_be_saved(tmp_path, state, message):
    """Nothing is written of a state that could not be read again."""
    with pytest.raises(QconfigError, match=message):
        save_distributed(state, checkpoint_id=tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_values_in_safetensors_are_refused(tmp_path):
    """Values that are no tensors would make unreadable files of torch's writer for Hugging Face."""
    writer = HuggingFaceStorageWriter(str(tmp_path))
    with pytest.raises(UsageError, match="a value that is no tensor"):
        save_distributed({"w": W, "step": 3}, storage_writer=writer)
    assert not list(tmp_path.iterdir())


def test_paths_that_contradict_names(tmp_path):
    """Keys in torch's metadata that are not those of the name are refused."""
    save_distributed({"m": {"w": W}}, checkpoint_id=tmp_path)
    file = tmp_path / ".metadata"
    metadata = pickle.loads(file.read_bytes())
    metadata.planner_data["m.w.qdata"] = ("other", 10**12)
    file.write_bytes(pickle.dumps(metadata))
    with pytest.raises(CheckpointError, match="the keys that lead to an entry") as caught:
        load_distributed(checkpoint_id=tmp_path)
    assert caught.value.fqn == "m.w.qdata"


def test_the_storage_of_others(tmp_path):
    """Files of safetensors in which another tool has cut a part are refused like torch's."""
    plain = plain_state({"w": W})
    del plain["w.scale"]
    with pytest.warns(UserWarning, match="single process"):
        torch.distributed.checkpoint.save(
            plain, storage_writer=HuggingFaceStorageWriter(str(tmp_path))
        )
    with pytest.raises(CheckpointError, match="an inner tensor is missing"):
        load_distributed(storage_reader=HuggingFaceStorageReader(str(tmp_path)))
