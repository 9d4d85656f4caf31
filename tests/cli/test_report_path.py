"""`--report` and `--from`: what can be known to fail is said before the work."""

from pathlib import Path

import pytest
import torch
from torchao.quantization import Int8WeightOnlyConfig, quantize_

from tests.cli.calls import call, call_json


@pytest.fixture
def pickle(tmp_path: Path) -> Path:
    """Return a file of torch.save under a name that says nothing."""
    layers = torch.nn.Sequential(torch.nn.Linear(32, 16))
    quantize_(layers, Int8WeightOnlyConfig(version=2))
    torch.save(layers.state_dict(), tmp_path / "weights")
    return tmp_path / "weights"


@pytest.mark.parametrize(
    ("report", "message"),
    [
        ("weights", "the report exists"),
        ("link", "the report exists"),
        ("new", "report and target are one"),
        ("none/r.json", "no directory for the report"),
    ],
)
@pytest.mark.parametrize("verb", ["upgrade", "convert"])
def test_a_report_that_cannot_be_written_is_a_usage_error(
    verb: str, report: str, message: str, pickle: Path, tmp_path: Path
) -> None:
    """Nothing is done first."""
    (tmp_path / "link").symlink_to("nowhere")
    options = ["--to", "torchao"] if verb == "convert" else []
    source = ["--from", "torchao-pickle", pickle, tmp_path / "new"]
    result = call(verb, *source, *options, "--report", tmp_path / report)
    assert result.exit_code == 2
    assert message in result.stderr
    assert not (tmp_path / "new").exists()


def test_a_report_in_the_source_is_a_usage_error(current_model: Path, tmp_path: Path) -> None:
    """The source stays as it is."""
    result = call("upgrade", current_model, tmp_path / "new", "--report", current_model / "r.json")
    assert result.exit_code == 2
    assert "the report lies in the source" in result.stderr


def test_a_report_in_the_target_is_written(pickle: Path, tmp_path: Path) -> None:
    """A report may lie beside what it is about."""
    options = ["--from", "torchao-pickle", "--report", tmp_path / "new" / "r.json"]
    assert call("upgrade", pickle, tmp_path / "new", *options).exit_code == 0
    assert (tmp_path / "new" / "r.json").exists()


@pytest.mark.parametrize("verb", ["inspect", "verify"])
def test_a_named_dialect_opens_a_file_of_any_name(verb: str, pickle: Path) -> None:
    """Who says --from torchao-pickle asks for the pickle, whatever it is called."""
    assert call(verb, pickle, "--from", "torchao-pickle").exit_code == 0


def test_a_file_of_any_name_is_upgraded_when_asked(pickle: Path, tmp_path: Path) -> None:
    """Without --from it is taken for a config and named as none."""
    assert "unknown kind of document" in call("upgrade", pickle, tmp_path / "new").stderr
    result = call("upgrade", pickle, tmp_path / "new", "--from", "torchao-pickle")
    assert result.exit_code == 0


def test_suffixes_in_capitals_are_known(pickle: Path) -> None:
    """WEIGHTS.PT is a file of torch.save, too."""
    renamed = pickle.rename(pickle.parent / "WEIGHTS.PT")
    assert call("inspect", renamed).exit_code == 0


def test_problems_of_what_was_written_stand_in_the_json(pickle: Path, tmp_path: Path) -> None:
    """Stdout is one JSON document, and the exit code is 1, where verify finds something."""
    state = torch.load(pickle, weights_only=False)
    state["0.weight"].scale.fill_(-1)
    torch.save(state, tmp_path / "bad.pt")
    code, document = call_json("upgrade", tmp_path / "bad.pt", tmp_path / "new")
    assert code == 1
    (problem,) = document["result"]["problems"]
    assert problem["fqn"] == "0.weight"
    assert problem["pointer"] == "/scale"
