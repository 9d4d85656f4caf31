"""Old files through the checkpoint functions and the command line: recognised, told of, written."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from qconfig import inspect_checkpoint, load_checkpoint, upgrade_checkpoint
from qconfig.codec.converter import unstructure
from qconfig.configs.fqn_to_config import FqnToConfig, Rule
from qconfig.errors import CheckpointError, ContainerError, QconfigError, UsageError
from tests.cli.calls import call
from tests.dialects.brevitas.samples import ALL_RELEASES, CONFIGS, FILES, case, model, weight

_STATE = "activations.state_dict.pt"


@pytest.fixture
def config_file(tmp_path: Path) -> Path:
    """Return the config of the model with activations, as a document."""
    path = tmp_path / "quant.json"
    path.write_text(json.dumps(unstructure(CONFIGS["activations"])))
    return path


@pytest.mark.parametrize("release", ALL_RELEASES)
def test_a_new_file_loads_into_our_model(release: str, tmp_path: Path) -> None:
    """What an upgrade writes is a state_dict of ours: strict loading takes it."""
    report = upgrade_checkpoint(
        FILES / release / _STATE, tmp_path / "new", config=CONFIGS["activations"]
    )
    assert (report.dialect, report.problems) == ("brevitas", ())
    module = model("activations")
    module.load_state_dict(load_checkpoint(tmp_path / "new"))
    sample: Any = case(release, "activations") if release in ("0.8.0", "0.13.4") else None
    if sample is not None:
        assert torch.equal(module.eval()(sample.input), sample.output)


def test_a_model_of_another_config_refuses_the_new_file(tmp_path: Path) -> None:
    """The config that was given lies beside the tensors: 8 bits do not load into 4."""
    upgrade_checkpoint(FILES / "0.13.4" / _STATE, tmp_path / "new", config=CONFIGS["activations"])
    other = model("conv")
    with pytest.raises(RuntimeError):
        other.load_state_dict(load_checkpoint(tmp_path / "new"))


def test_renames_copy_bytes(tmp_path: Path) -> None:
    """Weights and scales are copied as byte ranges; only what is added is computed."""
    state = torch.load(FILES / "0.13.4" / _STATE, weights_only=True)
    report = upgrade_checkpoint(
        FILES / "0.13.4" / _STATE, tmp_path / "new", config=CONFIGS["activations"]
    )
    assert report.copied_bytes == sum(tensor.nbytes for tensor in state.values())


def test_every_rename_is_in_the_report(config_file: Path, tmp_path: Path) -> None:
    """The command line reads a config, and its JSON report names each key that changed."""
    source, target, report = FILES / "0.10.3" / _STATE, tmp_path / "new", tmp_path / "report.json"
    done = call("upgrade", source, target, "--config", config_file, "--report", report)
    assert done.exit_code == 0, done.stderr
    notes = json.loads(report.read_text())["result"]["notes"]
    for key in torch.load(source, weights_only=True):
        if "tensor_quant" in key:
            assert any(note.startswith(key) and "renamed" in note for note in notes)


def test_without_a_config_the_command_says_how(tmp_path: Path) -> None:
    """A state_dict with quantizers needs a config, and the error says so."""
    done = call("upgrade", FILES / "0.13.4" / _STATE, tmp_path / "new")
    assert done.exit_code != 0
    assert "give the config that the model was quantized with" in done.stderr
    assert not (tmp_path / "new").exists()


def test_policies_and_names_to_drop_are_options(tmp_path: Path) -> None:
    """`--missing` and `--drop` decide about what is not there and what has no place."""
    state = {"fc.weight": torch.ones(4, 4), "head.weight": torch.ones(2)}
    torch.save(state, tmp_path / "old.pt")
    learned = {"type": "IntQuantConfig", "version": 1, "scale_kind": "PARAMETER_FROM_STATS"}
    rules = [{"match": "fc", "use": "a"}]
    document = {"type": "FqnToConfig", "version": 2, "configs": {"a": learned}, "rules": rules}
    (tmp_path / "quant.json").write_text(json.dumps(document))
    options = ("--from", "brevitas", "--config", tmp_path / "quant.json", "--drop", "head.*")
    refused = call("upgrade", tmp_path / "old.pt", tmp_path / "new", *options)
    assert "the file lacks a tensor of a quantizer" in refused.stderr
    done = call(
        "upgrade", tmp_path / "old.pt", tmp_path / "new", *options, "--missing", "**=derive"
    )
    assert done.exit_code == 0, done.stderr
    assert load_checkpoint(tmp_path / "new")["fc.weight_quant.threshold"] == 1


@pytest.mark.parametrize("text", ["derive", "=derive"])
def test_policies_have_a_pattern(text: str, tmp_path: Path) -> None:
    """A policy is a pattern and a word."""
    done = call("upgrade", FILES / "0.13.4" / _STATE, tmp_path / "new", "--missing", text)
    assert "not a policy" in done.stderr


def test_files_are_recognised_by_what_they_name(tmp_path: Path) -> None:
    """Files of one suffix are read as whose classes or keys they hold."""
    torch.save({"a": torch.ones(2)}, tmp_path / "plain.pt")
    nested, state = FILES / "0.13.4" / "nested.pt", FILES / "0.13.4" / _STATE
    assert inspect_checkpoint(tmp_path / "plain.pt").dialect == "torchao-pickle"
    assert inspect_checkpoint(nested).dialect == "brevitas"
    assert inspect_checkpoint(state).dialect == "brevitas"


def test_a_state_dict_can_be_looked_at_without_a_config() -> None:
    """To inspect and to load leaves Brevitas' names, and a note says what an upgrade takes."""
    file = FILES / "0.13.4" / _STATE
    assert "an upgrade converts them" in inspect_checkpoint(file).notes[0]
    assert load_checkpoint(file).keys() == torch.load(file, weights_only=True).keys()
    with pytest.raises(CheckpointError, match="no config says how"):
        upgrade_checkpoint(file, None, dry_run=True)


def test_state_dicts_in_safetensors_are_found_by_their_keys(tmp_path: Path) -> None:
    """A state_dict that was saved as safetensors is converted alike, shard by shard."""
    state = torch.load(FILES / "0.13.4" / _STATE, weights_only=True)
    config: Any = CONFIGS["activations"]
    save_file(state, tmp_path / "old.safetensors", metadata={"format": "pt"})
    report = upgrade_checkpoint(tmp_path / "old.safetensors", tmp_path / "new", config=config)
    upgrade_checkpoint(FILES / "0.13.4" / _STATE, tmp_path / "other", config=config)
    found, other = load_checkpoint(tmp_path / "new"), load_checkpoint(tmp_path / "other")
    assert report.dialect == "brevitas-safetensors"
    assert found.keys() == other.keys()
    assert all(torch.equal(found[name], other[name]) for name in found)


def test_any_file_may_be_said_to_be_of_brevitas(tmp_path: Path) -> None:
    """Named by `dialect`, a file without quantizers is read, and a note says that it has none."""
    torch.save({"a": torch.ones(2)}, tmp_path / "plain.pt")
    report = upgrade_checkpoint(tmp_path / "plain.pt", None, dry_run=True, dialect="brevitas")
    assert report.dialect == "brevitas"
    assert "nothing here is of a quantizer" in report.notes[0]


def test_directories_are_read_when_asked_for(tmp_path: Path) -> None:
    """A directory of one pickle says how to ask for it, and is read then."""
    directory = tmp_path / "model"
    directory.mkdir()
    (directory / "weights.pt").write_bytes((FILES / "0.13.4" / "nested.pt").read_bytes())
    with pytest.raises(CheckpointError) as caught:
        inspect_checkpoint(directory)
    assert str(caught.value.hint).endswith("say --from brevitas")
    assert inspect_checkpoint(directory, dialect="brevitas").dialect == "brevitas"


def test_guidance_is_refused_where_files_say_all_themselves(tmp_path: Path) -> None:
    """A checkpoint of ours knows its config; another one beside it would contradict it."""
    upgrade_checkpoint(FILES / "0.13.4" / "nested.pt", tmp_path / "new")
    with pytest.raises(UsageError, match="the files say by themselves"):
        upgrade_checkpoint(tmp_path / "new", None, dry_run=True, config=weight())


def test_quantized_tensors_are_held_against_a_config() -> None:
    """A weight of 4 bits is refused for a config of 8, by its name and both numbers."""
    file = FILES / "0.13.4" / "nested.pt"
    upgrade_checkpoint(file, None, dry_run=True, config=weight())
    with pytest.raises(QconfigError, match="another bit_width than the config") as caught:
        upgrade_checkpoint(file, None, dry_run=True, config=weight(bit_width=4))
    assert (caught.value.fqn, caught.value.found) == ("layers.0.weight", "8.0")


def test_rules_are_for_quantized_tensors_too() -> None:
    """Rules that name the layer of a quantized tensor match something, and are held against it."""
    file = FILES / "0.13.4" / "nested.pt"
    rules = (Rule("layers.0", "a"), Rule("layers.1.0", "b"))
    right = {"a": weight(), "b": weight(bit_width=4)}
    upgrade_checkpoint(file, None, dry_run=True, config=FqnToConfig(configs=right, rules=rules))
    wrong = right | {"b": weight()}
    with pytest.raises(QconfigError, match="another bit_width") as caught:
        upgrade_checkpoint(file, None, dry_run=True, config=FqnToConfig(configs=wrong, rules=rules))
    assert caught.value.fqn == "layers.1.0"


def test_old_archives_are_refused_by_name(tmp_path: Path) -> None:
    """What torch.save wrote before 1.6 is another kind of file."""
    torch.save({"a": torch.ones(2)}, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    with pytest.raises(ContainerError):
        upgrade_checkpoint(tmp_path / "old.pt", None, dry_run=True, dialect="brevitas")
