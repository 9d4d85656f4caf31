"""Model folders whose config cannot be read: the tensors alone are taken where that is said."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torchao.quantization import Int8WeightOnlyConfig, quantize_

import qconfig
from qconfig.errors import QconfigError
from tests.cli.calls import call, call_json

UNREAD = {
    "quant_method": "torchao",
    "quant_type": {
        "default": {"_type": "Int4DynamicActivationInt4WeightConfig", "_version": 1, "_data": {}}
    },
}
FORM = ("--from", "torchao-pickle")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of a quantized linear beside a config that is refused."""
    layer = torch.nn.Sequential(torch.nn.Linear(32, 16, bias=False))
    quantize_(layer, Int8WeightOnlyConfig(version=2))
    path = tmp_path / "old"
    path.mkdir()
    torch.save({"layers.0.up.weight": layer[0].weight}, path / "pytorch_model.bin")
    document = {"model_type": "tiny", "quantization_config": UNREAD}
    (path / "config.json").write_text(json.dumps(document))
    return path


def written_config(path: Path) -> Any:
    """Return config.json of a folder."""
    return json.loads((path / "config.json").read_text())


def test_the_error_says_how_to_go_on(folder: Path, tmp_path: Path) -> None:
    """Its hint names the option."""
    result = call("upgrade", folder, tmp_path / "new", *FORM)
    assert result.exit_code == 3
    assert "--without-config, in Python keep_config=False" in result.stderr
    with pytest.raises(QconfigError, match="int4 activations"):
        qconfig.upgrade_checkpoint(folder, tmp_path / "new", dialect="torchao-pickle")


@pytest.mark.parametrize(
    "command", [["upgrade"], ["convert", "--to=qconfig"], ["convert", "--to=torchao"]]
)
def test_a_config_is_left_out_where_that_is_said(
    command: list[str], folder: Path, tmp_path: Path
) -> None:
    """The report has what was left out, and config.json the rest."""
    code, document = call_json(*command, folder, tmp_path / "new", *FORM, "--without-config")
    result = document["result"]
    assert code == 0
    assert (result["config_before"], result["config_after"]) == (UNREAD, None)
    assert any("is left out, as was asked for" in note for note in result["notes"])
    assert written_config(tmp_path / "new") == {"model_type": "tiny"}
    assert qconfig.verify_checkpoint(tmp_path / "new").ok


def test_inspect_and_verify_look_at_the_tensors_alone(folder: Path) -> None:
    """Both say that the config is left out, which verify counts as an oddity."""
    assert call("inspect", folder, *FORM).exit_code == 3
    assert call("inspect", folder, *FORM, "--without-config").exit_code == 0
    assert call("verify", folder, *FORM).exit_code == 3
    result = call("verify", folder, *FORM, "--without-config")
    assert result.exit_code == 1
    assert "sound, with 1 note; 1 quantized tensor read" in result.stdout


def test_loading_needs_no_config(folder: Path) -> None:
    """The tensors say all that a state_dict holds."""
    state = qconfig.load_checkpoint(folder, dialect="torchao-pickle")
    assert type(state["layers.0.up.weight"]).__name__ == "Int8Tensor"


def test_a_config_of_ours_is_left_out_alike(folder: Path, tmp_path: Path) -> None:
    """A document of our own that is broken is no reason to lose the tensors either."""
    new = tmp_path / "new"
    qconfig.upgrade_checkpoint(folder, new, dialect="torchao-pickle", keep_config=False)
    broken = {"quant_method": "qconfig", "config": {"type": "Nothing", "version": 1}}
    (new / "config.json").write_text(json.dumps({"quantization_config": broken}))
    report = qconfig.upgrade_checkpoint(new, tmp_path / "newer", keep_config=False)
    assert (report.needed, report.config_before) == (True, broken)
    assert written_config(tmp_path / "newer") == {}
