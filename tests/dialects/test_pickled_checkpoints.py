"""Checkpoints that torch.save wrote: files, directories, shards, ties; what is no state_dict."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torchao.quantization import Int8WeightOnlyConfig, quantize_

import qconfig
from qconfig import inspect_checkpoint, load_checkpoint, upgrade_checkpoint
from qconfig.configs.int_quant import IntQuantConfig
from qconfig.errors import CheckpointError, ContainerError, QconfigError, UsageError

INT8 = {
    "_type": "Int8WeightOnlyConfig",
    "_version": 2,
    "_data": {"granularity": {"_type": "PerRow", "_version": 1, "_data": {"dim": -1}}},
}
CONFIG = {
    "model_type": "tiny",
    "quantization_config": {"quant_method": "torchao", "quant_type": {"default": INT8}},
}


@pytest.fixture
def model() -> torch.nn.Module:
    """Return two linears that torchao has quantized."""
    torch.manual_seed(3)
    layers = torch.nn.Sequential(torch.nn.Linear(32, 16), torch.nn.Linear(16, 8))
    quantize_(layers, Int8WeightOnlyConfig(version=2))
    return layers


def saved(directory: Path, files: dict[str, Any], config: Any = None) -> Path:
    """Save objects into a directory, and a config.json beside them."""
    directory.mkdir()
    for name, value in files.items():
        torch.save(value, directory / name)
    if config is not None:
        (directory / "config.json").write_text(json.dumps(config))
    return directory


def test_a_file_named_by_its_path_is_read(model: torch.nn.Module, tmp_path: Path) -> None:
    """A .pt file becomes a checkpoint with the values that torchao has."""
    torch.save(model.state_dict(), tmp_path / "old.pt")
    report = upgrade_checkpoint(tmp_path / "old.pt", tmp_path / "new")
    found = load_checkpoint(tmp_path / "new")
    for name, expected in model.state_dict().items():
        if name.endswith("weight"):
            assert torch.equal(found[name].dequantize(), expected.dequantize())
        else:
            assert torch.equal(found[name], expected)
    assert report.dialect == "torchao-pickle"
    assert report.problems == ()
    assert {t.origin.type for t in report.tensors if t.origin} == {"Int8Tensor"}


def test_bytes_are_copied_and_not_decoded(model: torch.nn.Module, tmp_path: Path) -> None:
    """What an upgrade does not change is copied from the archive as byte ranges."""
    torch.save(model.state_dict(), tmp_path / "old.pt")
    report = upgrade_checkpoint(tmp_path / "old.pt", None, dry_run=True)
    assert report.computed_bytes == 0
    assert report.copied_bytes > 0


def test_a_directory_of_pickles_is_read_only_when_asked(
    model: torch.nn.Module, tmp_path: Path
) -> None:
    """Without --from, a directory of pickles is refused, with what to say."""
    directory = saved(tmp_path / "old", {"pytorch_model.bin": model.state_dict()})
    with pytest.raises(CheckpointError) as caught:
        upgrade_checkpoint(directory, tmp_path / "new")
    assert caught.value.hint == (
        "pytorch_model.bin is read only when asked for: name it, or say --from torchao-pickle"
    )
    assert not (tmp_path / "new").exists()
    (directory / "second.bin").write_bytes((directory / "pytorch_model.bin").read_bytes())
    with pytest.raises(CheckpointError) as caught:
        upgrade_checkpoint(directory, tmp_path / "new")
    assert caught.value.found == "'no file *.safetensors'"
    assert caught.value.hint == (
        "pytorch_model.bin and others are read only when asked for: say --from torchao-pickle"
    )


def test_a_model_folder_keeps_what_belongs_to_it(model: torch.nn.Module, tmp_path: Path) -> None:
    """The config becomes ours, other files come along, the pickle stays behind."""
    directory = saved(tmp_path / "old", {"pytorch_model.bin": model.state_dict()}, CONFIG)
    (directory / "tokenizer.json").write_text("{}")
    upgrade_checkpoint(directory, tmp_path / "new", dialect="torchao-pickle")
    assert sorted(p.name for p in (tmp_path / "new").iterdir()) == [
        "config.json",
        "model.safetensors",
        "tokenizer.json",
    ]
    config = json.loads((tmp_path / "new/config.json").read_text())
    assert config["model_type"] == "tiny"
    assert config["quantization_config"]["quant_method"] == "qconfig"
    assert config["quantization_config"]["config"]["type"] == "Int8WeightOnlyConfig"


def test_shards_keep_their_number(model: torch.nn.Module, tmp_path: Path) -> None:
    """Shards of pickles become as many shards of safetensors, by the index."""
    state = model.state_dict()
    names = {"pytorch_model-00001-of-00002.bin": "0.", "pytorch_model-00002-of-00002.bin": "1."}
    files = {
        file: {name: t for name, t in state.items() if name.startswith(start)}
        for file, start in names.items()
    }
    directory = saved(tmp_path / "old", files)
    weight_map = {name: file for file, tensors in files.items() for name in tensors}
    (directory / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": weight_map}))
    upgrade_checkpoint(directory, tmp_path / "new", dialect="torchao-pickle")
    assert sorted(p.name for p in (tmp_path / "new").iterdir()) == [
        "config.json",
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
        "model.safetensors.index.json",
    ]
    assert load_checkpoint(tmp_path / "new").keys() == state.keys()


def test_two_names_of_one_tensor_are_a_tie(model: torch.nn.Module, tmp_path: Path) -> None:
    """A quantized tensor and a plain one that two names share are stored once each."""
    weight, bias = model[0].weight, model[0].bias
    state = {"a.weight": weight, "b.weight": weight, "a.bias": bias, "b.bias": bias}
    torch.save(state, tmp_path / "old.pt")
    upgrade_checkpoint(tmp_path / "old.pt", tmp_path / "new")
    found = load_checkpoint(tmp_path / "new")
    assert found["a.weight"] is found["b.weight"]
    assert found["a.bias"] is found["b.bias"]
    assert inspect_checkpoint(tmp_path / "new").ties == {"b.weight": "a.weight", "b.bias": "a.bias"}


def test_equal_tensors_of_their_own_are_no_tie(tmp_path: Path) -> None:
    """Two tensors that hold the same values in two places stay two."""
    torch.save({"a": torch.ones(4), "b": torch.ones(4)}, tmp_path / "old.pt")
    upgrade_checkpoint(tmp_path / "old.pt", tmp_path / "new")
    assert inspect_checkpoint(tmp_path / "new").ties == {}


def test_a_file_without_quantized_tensors_says_so(tmp_path: Path) -> None:
    """A file of plain tensors is written, with a note on what torchao saves as such."""
    torch.save({"a.weight": torch.ones(4, 4)}, tmp_path / "old.pt")
    report = upgrade_checkpoint(tmp_path / "old.pt", tmp_path / "new")
    assert len(report.notes) == 1
    assert "torchao's CodebookQuantizedTensor and constant quantizers" in report.notes[0]


def test_weights_that_still_train_are_said(tmp_path: Path) -> None:
    """A state_dict of modules of ours is not said to hold nothing that is quantized."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 4))
    qconfig.quantize_(model, IntQuantConfig())
    torch.save(model.state_dict(), tmp_path / "old.pt")
    assert inspect_checkpoint(tmp_path / "old.pt").notes == (
        "weights that still train, as floats with their quantizers beside them: 1",
    )


def test_a_pickle_of_our_tensors_says_who_reads_it(tmp_path: Path) -> None:
    """What torch.save wrote of our own tensors names our code, which no file may; torch does."""
    torch.save(
        {"a": qconfig.IntQuantTensor(torch.ones(2), 1.0, 0.0, 8.0, True)}, tmp_path / "old.pt"
    )
    with pytest.raises(ContainerError, match="not read") as caught:
        inspect_checkpoint(tmp_path / "old.pt")
    assert "qconfig.save_checkpoint" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("value", "message", "hint"),
    [
        ([torch.ones(2)], "not a state_dict", None),
        ({"step": 3, "a": torch.ones(2)}, "an entry of the file is no tensor", None),
        ({1: torch.ones(2)}, "the name of an entry of the file is no text", None),
        (
            {"state_dict": {"a": torch.ones(2)}},
            "the file holds more than a state_dict",
            "the tensors lie under state_dict: upgrade and inspect read them with --key state_dict",
        ),
    ],
)
def test_what_is_no_state_dict_is_refused(
    value: Any, message: str, hint: str | None, tmp_path: Path
) -> None:
    """Nothing of a file is dropped: an entry that is no tensor is named."""
    torch.save(value, tmp_path / "old.pt")
    with pytest.raises(CheckpointError, match=message) as caught:
        upgrade_checkpoint(tmp_path / "old.pt", tmp_path / "new")
    assert caught.value.hint == hint
    assert not (tmp_path / "new").exists()


def test_several_pickles_without_an_index_are_refused(tmp_path: Path) -> None:
    """Which of two files is the checkpoint, nobody guesses."""
    directory = saved(tmp_path / "old", {"a.pt": {}, "b.pt": {}})
    with pytest.raises(ContainerError, match="several files and no index"):
        upgrade_checkpoint(directory, tmp_path / "new", dialect="torchao-pickle")


def test_a_tensor_in_two_files_is_refused(model: torch.nn.Module, tmp_path: Path) -> None:
    """Two shards that hold one name contradict each other."""
    state = dict(model.state_dict())
    directory = saved(tmp_path / "old", {"a.bin": state, "b.bin": state})
    index = {"weight_map": {"0.weight": "a.bin", "1.weight": "b.bin"}}
    (directory / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    with pytest.raises(QconfigError, match="the tensor lies in two files") as caught:
        upgrade_checkpoint(directory, tmp_path / "new", dialect="torchao-pickle")
    assert caught.value.problems[0].found == "'b.bin and a.bin'"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"writer": "brevitas==0.12"}, "not of that writer's library"),
        ({"writer": "torchao 0.13"}, "not a release"),
        ({"dialect": "torch"}, "unknown dialect"),
        ({"dialect": "qconfig", "writer": "torchao==0.13"}, "not of that writer's library"),
    ],
)
def test_a_wrong_dialect_or_writer_is_a_usage_error(
    options: Any, message: str, model: torch.nn.Module, tmp_path: Path
) -> None:
    """What the caller says about the source is checked before it is opened."""
    torch.save(model.state_dict(), tmp_path / "old.pt")
    with pytest.raises(UsageError, match=message):
        upgrade_checkpoint(tmp_path / "old.pt", tmp_path / "new", **options)


def test_inspect_shows_what_torchao_stored(model: torch.nn.Module, tmp_path: Path) -> None:
    """A pickle can be looked at before it is upgraded."""
    torch.save(model.state_dict(), tmp_path / "old.pt")
    found = inspect_checkpoint(tmp_path / "old.pt")
    assert found.dialect == "torchao-pickle"
    assert found.outdated
    assert {t.origin for t in found.tensors} == {None, "Int8Tensor"}


def test_two_checkpoints_in_one_directory_are_refused(
    model: torch.nn.Module, tmp_path: Path
) -> None:
    """A file that lies beside the pickle is never written over what was made of it."""
    directory = saved(tmp_path / "old", {"pytorch_model.bin": model.state_dict()})
    save_file({"0.bias": torch.zeros(16)}, directory / "model.safetensors")
    with pytest.raises(CheckpointError, match="has the name of one that is written") as caught:
        upgrade_checkpoint(directory, tmp_path / "new", dialect="torchao-pickle")
    assert caught.value.file == str(directory / "model.safetensors")
    assert not (tmp_path / "new").exists()


def test_a_report_says_that_values_are_the_writers(model: torch.nn.Module, tmp_path: Path) -> None:
    """A tensor that is carried without change or doubt is exact in the report."""
    torch.save(model.state_dict(), tmp_path / "old.pt")
    report = upgrade_checkpoint(tmp_path / "old.pt", None, dry_run=True)
    assert [t.to_dict()["exact"] for t in report.tensors] == [True, True]
