"""`qconfig inspect`."""

import torch

from qconfig import IntQuantTensor, save_checkpoint
from tests.cli.calls import call, call_json, cells
from tests.dialects.brevitas.samples import FILES


def test_table(old_model):
    """A line for each tensor has shape, dtype, layout and version, bytes and bits a weight."""
    lines = call("inspect", old_model).stdout.splitlines()
    assert cells(lines[1]) == [
        "layers.0.up.weight",
        "8 × 16",
        "bfloat16",
        "Int8TensorLayout v1",
        "208",
        "13.00",
        "model.safetensors",
    ]


def test_no_tensors(old_model):
    """`--no-tensors` leaves the summary."""
    lines = call("inspect", old_model, "--no-tensors").stdout.splitlines()
    assert lines[0].split(maxsplit=1) == ["checkpoint:", str(old_model)]
    assert "layouts:      Int8TensorLayout v1 (1)" in lines


def test_one_file(old_model):
    """One safetensors file is a checkpoint, too."""
    assert call("inspect", old_model / "model.safetensors").exit_code == 0


def test_markdown(float_model):
    """`--markdown` makes tables for a model card."""
    text = call("inspect", float_model, "--markdown").stdout
    assert "| tensor | shape | dtype | layout | bytes | bits/weight | file |\n" in text
    assert "| norm.weight | 32 | float32 |  | 128 | 32.00 | model.safetensors |\n" in text


def test_json_without_tensors(old_model):
    """`--json --no-tensors` has everything but the tensors."""
    _, document = call_json("inspect", old_model, "--no-tensors")
    assert "tensors" not in document["result"]
    assert document["result"]["outdated"] is True


def test_json_and_markdown_exclude_each_other(old_model):
    """Two forms at once are a usage error."""
    assert call("inspect", old_model, "--json", "--markdown").exit_code == 2


def test_a_config_is_no_checkpoint(config):
    """A config is refused with the verb that takes it."""
    result = call("inspect", config)
    assert result.exit_code == 2
    assert "qconfig validate checks a config" in result.stderr


def test_symlinks(old_model, tmp_path):
    """A shard that is a link to elsewhere needs --follow-symlinks."""
    shard = old_model / "model.safetensors"
    shard.rename(tmp_path / "elsewhere")
    shard.symlink_to(tmp_path / "elsewhere")
    assert call("inspect", old_model).exit_code == 3
    assert call("inspect", old_model, "--follow-symlinks").exit_code == 0


def test_numbers_of_quant_tensors_are_shown(tmp_path):
    """Bit width and sign stand in the table and in JSON, though one is a tensor."""
    quantized = IntQuantTensor(torch.ones(2, 2), 0.5, 0.0, 4.0, signed=True)
    save_checkpoint({"a.w": quantized, "b": torch.ones(2)}, tmp_path / "q")
    header, line, *_ = call("inspect", tmp_path / "q").stdout.splitlines()
    assert cells(header)[-1] == "numbers"
    assert "bit_width 4, signed true" in cells(line)[-1]
    _, document = call_json("inspect", tmp_path / "q")
    assert document["result"]["tensors"][0]["numbers"]["bit_width"] == 4.0


def test_tables_without_such_numbers_have_no_column(old_model):
    """Other checkpoints look as they always did."""
    assert "numbers" not in call("inspect", old_model).stdout


def test_the_note_names_a_command_that_works(tmp_path):
    """The arguments that were needed to look at a file stand in the command that upgrades it."""
    torch.save({"model": {"a": torch.ones(2)}}, tmp_path / "a.pt")
    shown = call("inspect", tmp_path / "a.pt", "--key", "model").stderr
    assert f"qconfig upgrade {tmp_path / 'a.pt'} TARGET --key model writes it" in shown


def test_the_note_asks_for_a_config_where_one_is_needed():
    """A state_dict of Brevitas says no bit widths."""
    shown = call("inspect", FILES / "0.13.4" / "activations.state_dict.pt").stderr
    assert "TARGET --config FILE writes it" in shown
