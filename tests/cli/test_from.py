"""`--from` and `--writer` are taken by every verb that opens files for which they matter."""

import json
from pathlib import Path

import pytest
import torch

from tests.cli.calls import RULES, call, write
from tests.dialects.brevitas.samples import FILES
from tests.torchao_pickles import PICKLES

SAMPLE = PICKLES / "0.4.0" / "direct_mxfp4__bf16.pt"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a pickle, which nobody reads without being asked."""
    path = tmp_path / "model"
    path.mkdir()
    (path / "pytorch_model.bin").write_bytes(SAMPLE.read_bytes())
    return path


@pytest.mark.parametrize("verb", ["inspect", "verify", "validate"])
def test_pickles_in_a_folder_are_read_when_asked_for(verb: str, folder: Path) -> None:
    """Without `--from` the error says how to ask."""
    refused = call(verb, folder)
    assert "say --from torchao-pickle" in refused.stdout + refused.stderr
    arguments = ("--from", "torchao-pickle", "--writer", "torchao==0.4")
    assert call(verb, folder, *arguments).exit_code == 0


@pytest.mark.parametrize("verb", ["inspect", "verify", "validate"])
def test_a_writer_of_another_library_is_refused(verb: str, folder: Path) -> None:
    """A writer is that of the form."""
    result = call(verb, folder, "--from", "torchao-pickle", "--writer", "brevitas==0.12")
    assert result.exit_code == 2


def test_diff_takes_a_form_for_both_or_one_for_each(folder: Path, tmp_path: Path) -> None:
    """Said once it is of both checkpoints, said twice of one after the other."""
    form = ("--from", "torchao-pickle")
    assert call("diff", folder, folder).exit_code == 3
    assert call("diff", folder, folder, *form).exit_code == 0
    assert call("upgrade", folder, tmp_path / "new", *form).exit_code == 0
    found = call("diff", folder, tmp_path / "new", *form, "--from", "qconfig")
    assert (found.exit_code, "MXTensorLayout v1" in found.stdout) == (1, True)
    assert call("diff", folder, tmp_path / "new", *form, *form, *form).exit_code == 2


def test_plan_and_quantize_read_pickles_when_asked_for(tmp_path: Path) -> None:
    """A model of floats may lie in a pickle, too."""
    source = tmp_path / "float"
    source.mkdir()
    state = {"layers.0.up.weight": torch.ones(8, 16), "layers.0.down.weight": torch.ones(8, 16)}
    torch.save(state, source / "pytorch_model.bin")
    config = write(tmp_path / "c.json", RULES)
    form = ("--from", "torchao-pickle")
    assert call("plan", source, config).exit_code == 3
    assert "1 of 2 tensors quantized" in call("plan", source, config, *form).stdout
    assert call("quantize", source, tmp_path / "q", "--config", config, *form).exit_code == 0
    stored = json.loads((tmp_path / "q" / "config.json").read_text())["quantization_config"]
    assert stored["quant_method"] == "qconfig"


def test_a_pickle_is_named_as_it_is(folder: Path, tmp_path: Path) -> None:
    """Tables and errors have the name of the file that is there, not of what it would become."""
    source = tmp_path / "old.pt"
    source.write_bytes(SAMPLE.read_bytes())
    assert call("inspect", source).stdout.splitlines()[1].endswith("  old.pt")
    assert "written as:   MXTensor (2)" in call("inspect", source).stdout
    form = ("--from", "torchao-pickle")
    assert call("inspect", folder, *form).stdout.splitlines()[1].endswith("  pytorch_model.bin")
    refused = call("plan", source, write(tmp_path / "c.json", RULES))
    assert f"{source}: the checkpoint is quantized already" in refused.stderr
    source.write_bytes((PICKLES / "0.4.0" / "direct_nf4__bf16.pt").read_bytes())
    refused = call("convert", source, tmp_path / "new", "--to=torchao")
    assert f"{source}: model.layers.0.self_attn.q_proj.weight: torchao stores no" in refused.stderr


def test_a_writer_may_be_named_as_torchao_names_itself() -> None:
    """What a build adds to a version is ignored, as all after the minor number is."""
    result = call("upgrade", SAMPLE, "--dry-run", "--writer", "torchao==0.4.0.post1+cu121")
    assert "MXTensor of 0.4: " in result.stdout


def test_verify_says_why_its_exit_code_is_one() -> None:
    """A file without problems and with a note is not called sound alone."""
    result = call("verify", FILES / "0.13.4" / "activations.state_dict.pt")
    assert (result.exit_code, "sound, with 1 note" in result.stdout) == (1, True)
