"""`qconfig validate`."""

import pytest

from tests.checkpoints.builders import checkpoint_of, current_layout
from tests.cli.calls import ROW, RULES, call, call_json, write


def test_valid_config(config):
    """A sound config is said to be one, with what it holds."""
    result = call("validate", config)
    assert result.stdout == (
        f"{config}: valid config: FqnToConfig v2 (1), Int8WeightOnlyConfig v3 (1)\n"
    )


def test_every_problem_has_its_place(tmp_path):
    """All problems of a file are printed, each with file, pointer, found, expected and hint."""
    bad = {**RULES, "rules": [{"match": "a", "use": "rwo"}], "defualt": "row"}
    path = write(tmp_path / "bad.json", bad)
    result = call("validate", path)
    assert result.exit_code == 3
    assert f"error: {path}: /defualt: unknown field\n  found: 'defualt'\n" in result.stdout
    assert "hint: did you mean 'default'?" in result.stdout
    assert result.stdout.endswith(" problem\n") or result.stdout.endswith(" problems\n")


def test_several_files_give_the_highest_code(config, tmp_path):
    """Every file is examined, and the exit code is the highest."""
    invalid = write(tmp_path / "invalid.json", ROW | {"x": 1})
    newer = write(tmp_path / "newer.json", ROW | {"version": 99})
    result = call("validate", newer, invalid, config)
    assert result.exit_code == 4
    assert f"{invalid}: 1 problem\n" in result.stdout
    assert f"{config}: valid config" in result.stdout


def test_valid_checkpoint(old_model):
    """A checkpoint is validated by its headers, and its layouts are counted."""
    result = call("validate", old_model)
    assert result.stdout == f"{old_model}: valid checkpoint: Int8TensorLayout v1 (1)\n"


def test_damaged_checkpoint(old_model):
    """A shard that is cut short is a problem with the file's name."""
    shard = old_model / "model.safetensors"
    shard.write_bytes(shard.read_bytes()[:-1])
    result = call("validate", old_model)
    assert result.exit_code == 3
    assert str(shard) in result.stdout


def test_checkpoint_with_a_bad_config(tmp_path):
    """The config in config.json is validated, with pointers into config.json."""
    document = {"quant_method": "qconfig", "config": ROW | {"x": 1}}
    model = checkpoint_of(
        tmp_path / "m", {"a.weight": current_layout()}, None, {"quantization_config": document}
    )
    code, found = call_json("validate", model)
    problem = found["result"]["files"][0]["problems"][0]
    assert (code, problem["pointer"]) == (3, "/quantization_config/config/x")
    assert problem["file"] == str(model / "config.json")


def test_checkpoint_of_another_tool(float_model):
    """The config of another tool is named and not judged."""
    write(float_model / "config.json", {"quantization_config": {"quant_method": "awq"}})
    result = call("validate", float_model)
    assert result.exit_code == 0
    assert "quantized by 'awq', and not checked here" in result.stderr


def test_json(config, tmp_path):
    """Each path has its kind, its verdict and its problems."""
    _, document = call_json("validate", config, tmp_path / "none.json")
    first, second = document["result"]["files"]
    assert (first["ok"], first["kind"], first["problems"]) == (True, "config", [])
    assert first["written"] == {"FqnToConfig v2": 1, "Int8WeightOnlyConfig v3": 1}
    assert (second["ok"], second["problems"][0]["error"]) == (False, "StorageError")


@pytest.mark.parametrize("text", ['"/etc/passwd"', "[]", "3", "null", "{", ""])
def test_not_an_object(text, tmp_path):
    """A document that is no object is invalid; a string in it is never taken for a path."""
    path = tmp_path / "odd.json"
    path.write_text(text)
    assert call("validate", path).exit_code == 3


def test_torchao_form(tmp_path):
    """A document in torchao's form is valid."""
    data = {"group_size": None, "set_inductor_config": True}
    document = {"_type": "Int8WeightOnlyConfig", "_version": 1, "_data": data}
    result = call("validate", write(tmp_path / "ao.json", document))
    assert result.exit_code == 0
    assert "in torchao's form" in result.stderr
