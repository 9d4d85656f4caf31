import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from qconfig import Calibration, CalibrationConfig, Observer, PerAxis, calibrate
from qconfig.calibration.calibration import TENSORS
from qconfig.configs.choices import MappingType
from qconfig.errors import (
    CheckpointError,
    ContainerError,
    DocumentError,
    QconfigError,
    StorageError,
    UsageError,
)
from tests.calibration.models import Branches, batches, one_linear

EVERYTHING = CalibrationConfig(
    observer=Observer.RUNNING,
    granularity=PerAxis(-1),
    mapping_type=MappingType.ASYMMETRIC,
    output_granularity=PerAxis(-1),
    output_mapping_type=MappingType.ASYMMETRIC,
)


@pytest.fixture
def saved(tmp_path):
    """Return a calibration in a directory."""
    calibrate(Branches(), batches()).save(tmp_path / "cal")
    return tmp_path / "cal"


def assert_equal(first, second):
    """Compare two calibrations bit for bit."""
    assert first.record == second.record
    assert first.layers == second.layers
    assert first.unseen == second.unseen
    for name in first.layers:
        one, other = first.layer(name), second.layer(name)
        assert (one.rows, one.quant_dtype) == (other.rows, other.quant_dtype)
        for part in TENSORS:
            x, y = getattr(one, part), getattr(other, part)
            assert (x is None) == (y is None), part
            assert x is None or (x.dtype == y.dtype and torch.equal(x, y)), part


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    "config",
    [
        CalibrationConfig(),
        EVERYTHING,
        CalibrationConfig(sample_rows=0),
        CalibrationConfig(quant_dtype="float8_e4m3fn", sample_rows=3),
        CalibrationConfig(reduce_range=True),
    ],
    ids=["defaults", "everything", "no sample", "float8", "reduced"],
)
def test_round_trip(tmp_path, config, dtype):
    """What is loaded is what was saved: record, shapes, types and bits."""
    found = calibrate(Branches(dtype), batches(dtype=dtype), config)
    found.save(tmp_path / "cal")
    assert_equal(found, Calibration.load(tmp_path / "cal"))


def test_the_model_itself(tmp_path):
    """A layer with the empty name comes back."""
    found = calibrate(one_linear()[0], batches())
    found.save(tmp_path / "cal")
    assert_equal(found, Calibration.load(tmp_path / "cal"))


def test_the_files(saved):
    """The directory holds a document without tensors, and tensors under the layers' names."""
    assert sorted(p.name for p in saved.iterdir()) == [
        "calibration.json",
        "calibration.safetensors",
    ]
    record = json.loads((saved / "calibration.json").read_text())
    assert (record["type"], record["version"]) == ("CalibrationRecord", 1)
    assert record["layers"]["rare"] == {
        "in_features": 24,
        "out_features": 8,
        "calls": 0,
        "rows": 0,
    }
    assert "data" not in json.dumps(record)
    tensors = load_file(saved / "calibration.safetensors")
    assert tensors["up.act_scale"].shape == ()
    assert tensors["down.act_sample"].shape == (206, 40)


def test_an_existing_directory_is_kept(saved):
    """A calibration is never written over another."""
    with pytest.raises(UsageError, match="the target exists"):
        Calibration.load(saved).save(saved)


def test_a_failing_write_leaves_nothing(tmp_path, monkeypatch):
    """A disk that is full at the second file leaves no directory."""
    import qconfig.calibration.calibration as module

    def full(*_):
        raise StorageError("full")

    monkeypatch.setattr(module, "write_file", full)
    with pytest.raises(StorageError):
        calibrate(one_linear(), batches()).save(tmp_path / "cal")
    assert list(tmp_path.iterdir()) == []


def edit(saved, change):
    """Change the stored tensors."""
    file = saved / "calibration.safetensors"
    tensors = load_file(file)
    change(tensors)
    save_file(tensors, file)


def test_missing_and_surplus_tensors_are_all_named(saved):
    """Both files must say the same; every difference is told at once."""

    def change(tensors):
        del tensors["up.act_scale"]
        tensors["up.act_scales"] = torch.ones(())

    edit(saved, change)
    with pytest.raises(CheckpointError) as caught:
        Calibration.load(saved)
    missing, surplus = caught.value.problems
    assert (missing.fqn, surplus.fqn) == ("up.act_scale", "up.act_scales")
    assert missing.message == "the record asks for a tensor that is not stored"
    assert surplus.hint == "did you mean 'up.act_scale'?"


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("up.act_min", torch.zeros(23), "act_min does not fit the record"),
        ("up.act_scale", torch.zeros(24), "act_scale does not fit the record"),
        ("up.act_scale", torch.zeros(()), "act_scale of the calibration holds 1 values"),
        ("up.act_scale", torch.ones((), dtype=torch.float64), "has a wrong type or shape"),
        ("up.act_absmean", torch.full((24,), float("nan")), "act_absmean of the calibration"),
        ("up.act_sample", torch.zeros(206, 24, dtype=torch.int8), "act_sample of the calibration"),
    ],
)
def test_tensors_that_cannot_be_are_refused(saved, key, value, message):
    """Shapes, types and values are checked, with file and layer in the error."""

    def change(tensors):
        tensors[key] = value

    edit(saved, change)
    with pytest.raises(QconfigError, match=message) as caught:
        Calibration.load(saved)
    assert caught.value.fqn == "up"
    assert caught.value.file == str(saved / "calibration.safetensors")


def test_a_foreign_document_is_refused(saved):
    """A config of another kind is no record."""
    (saved / "calibration.json").write_text('{"type": "Int8WeightOnlyConfig", "version": 3}')
    with pytest.raises(DocumentError, match="not the record of a calibration"):
        Calibration.load(saved)


def test_a_newer_or_misspelt_record_is_refused(saved):
    """Unknown fields and newer versions are errors that name the file."""
    path = saved / "calibration.json"
    record = json.loads(path.read_text())
    for change in ({"version": 2}, {"layer": {}}):
        path.write_text(json.dumps(record | change))
        with pytest.raises(DocumentError) as caught:
            Calibration.load(saved)
        assert caught.value.file == str(path)


def test_missing_files(tmp_path, saved):
    """A directory that is none, and one without its tensors, are storage errors."""
    with pytest.raises(StorageError) as caught:
        Calibration.load(tmp_path / "none")
    assert caught.value.hint == "a calibration is a directory that Calibration.save made"
    (saved / "calibration.safetensors").unlink()
    with pytest.raises(StorageError):
        Calibration.load(saved)


def test_a_cut_file_is_refused(saved):
    """A tensor file that was cut off is an error of its format."""
    file = saved / "calibration.safetensors"
    file.write_bytes(file.read_bytes()[:-8])
    with pytest.raises(ContainerError, match="cut short"):
        Calibration.load(saved)
