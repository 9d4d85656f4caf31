"""`qconfig convert`: checkpoints and configs in torchao's form, or in ours."""

import json

import pytest
from safetensors import safe_open
from safetensors.torch import load_file

from tests.checkpoints.builders import checkpoint_of, current_layout
from tests.cli.calls import ROW, call, call_json, write

NAME = "layers.0.up.weight"


def test_convert_writes_what_torchao_loads(current_model, tmp_path):
    """The new checkpoint has torchao's keys and metadata, and the source stays as it is."""
    before = (current_model / "model.safetensors").read_bytes()
    result = call("convert", current_model, tmp_path / "new", "--to", "torchao")
    assert result.exit_code == 0, result.stderr
    assert "Int8TensorLayout v5 -> torchao's Int8Tensor: 1 tensor\n" in result.stdout
    assert result.stdout.endswith(f"written to {tmp_path / 'new'}\n")
    file = tmp_path / "new" / "model.safetensors"
    keys = {f"layers.0.up._weight_{part}" for part in ("qdata", "scale", "zero_point")}
    assert keys <= load_file(file).keys()
    with safe_open(file, "pt") as opened:
        assert json.loads(opened.metadata()[NAME])["_type"] == "Int8Tensor"
    assert (current_model / "model.safetensors").read_bytes() == before


def test_convert_takes_old_versions(old_model, tmp_path):
    """A layout of an earlier version is brought up to date on the way, and the steps are listed."""
    result = call("convert", old_model, tmp_path / "new", "--to", "torchao")
    assert result.exit_code == 0, result.stderr
    assert "Int8TensorLayout v1 -> torchao's Int8Tensor: 1 tensor\n" in result.stdout
    assert "drops quant_min" in result.stdout


def test_dry_run_writes_nothing(current_model, tmp_path):
    """A dry run reports what would be done and needs no target."""
    code, document = call_json("convert", current_model, "--to", "torchao", "--dry-run")
    assert code == 0
    result = document["result"]
    assert (result["dry_run"], result["target"]) == (True, None)
    assert [t["to_type"] for t in result["tensors"]] == ["Int8Tensor"]
    assert list(tmp_path.iterdir()) == [current_model]


def test_report_is_what_json_prints(current_model, tmp_path):
    """`--report` writes the result to a new file."""
    report = tmp_path / "report.json"
    target = tmp_path / "new"
    code, document = call_json(
        "convert", current_model, target, "--to", "torchao", "--report", report
    )
    assert code == 0
    assert json.loads(report.read_text()) == document
    assert document["result"]["target"] == str(target)
    assert call("convert", current_model, target, "--to", "torchao", "--report", report).exit_code


def test_to_qconfig_is_an_upgrade(old_model, tmp_path):
    """Both verbs write the same bytes and print the same."""
    first = call("convert", old_model, tmp_path / "a", "--to", "qconfig")
    second = call("upgrade", old_model, tmp_path / "b")
    assert first.exit_code == second.exit_code == 0
    assert first.stdout.replace(str(tmp_path / "a"), "") == second.stdout.replace(
        str(tmp_path / "b"), ""
    )
    name = "model.safetensors"
    assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


@pytest.mark.parametrize(
    ("arguments", "code"), [([], 2), (["--to", "gguf"], 2), (["--to", "torchao"], 2)]
)
def test_a_form_and_a_target_are_needed(current_model, arguments, code):
    """Without them a call is a usage error."""
    assert call("convert", current_model, *arguments).exit_code == code


def test_what_torchao_would_lose_is_an_error_and_nothing_is_written(tmp_path):
    """The error names the tensor."""
    names = ("m.w", "m.w_1")
    source = checkpoint_of(tmp_path / "a", {name: current_layout() for name in names})
    result = call("convert", source, tmp_path / "b", "--to", "torchao")
    assert result.exit_code == 3
    assert "m.w: torchao would lose the tensor" in result.stderr
    assert not (tmp_path / "b").exists()


def test_a_config_is_printed_in_torchaos_form(tmp_path):
    """Without a target the envelope goes to stdout."""
    result = call("convert", write(tmp_path / "c.json", ROW), "--to", "torchao")
    assert result.exit_code == 0
    envelope = json.loads(result.stdout)
    assert (envelope["_type"], envelope["_version"]) == ("Int8WeightOnlyConfig", 2)


def test_a_config_is_written_in_torchaos_form_and_comes_back(tmp_path):
    """A target gets the envelope; converted to qconfig it is the config again."""
    source, target = write(tmp_path / "c.json", ROW), tmp_path / "theirs.json"
    assert call("convert", source, target, "--to", "torchao").exit_code == 0
    assert json.loads(target.read_text())["_type"] == "Int8WeightOnlyConfig"
    result = call("convert", target, "--to", "qconfig")
    assert json.loads(result.stdout)["type"] == "Int8WeightOnlyConfig"
    assert call("convert", source, target, "--to", "torchao").exit_code == 2


def test_a_config_without_words_in_torchao_is_an_error(tmp_path):
    """A config that torchao does not have is refused by name."""
    source = write(
        tmp_path / "c.json", {"type": "Int8StaticActivationIntxWeightConfig", "version": 1}
    )
    result = call("convert", source, "--to", "torchao")
    assert result.exit_code == 3
    assert "torchao has no such config" in result.stderr


def test_a_dry_run_of_a_config_says_whether_torchao_has_words(tmp_path):
    """Nothing is written, and the document is in the JSON."""
    source, target = write(tmp_path / "c.json", ROW), tmp_path / "theirs.json"
    code, document = call_json("convert", source, target, "--to", "torchao", "--dry-run")
    assert code == 0
    assert document["result"]["document"]["_type"] == "Int8WeightOnlyConfig"
    assert not target.exists()


@pytest.mark.parametrize("form", ["torchao", "qconfig"])
def test_a_dry_run_that_would_succeed_exits_with_0(form, old_model, tmp_path):
    """Of convert it asks whether the form can be written; work to do is a finding of upgrade."""
    assert call("convert", old_model, "--to", form, "--dry-run").exit_code == 0
    assert call("upgrade", old_model, "--dry-run").exit_code == 1
    old = write(tmp_path / "c.json", {"type": "Int8WeightOnlyConfig", "version": 1})
    assert call("convert", old, "--to", form, "--dry-run").exit_code == 0
    assert call("upgrade", old, "--dry-run").exit_code == 1
