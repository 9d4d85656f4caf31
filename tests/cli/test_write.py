"""`qconfig quantize`, `upgrade` and `verify`: the verbs that read or write values."""

import json

import pytest
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from tests.checkpoints.builders import float_checkpoint
from tests.cli.calls import ROW, RULES, call, call_json, write


def test_quantize(float_model, config, tmp_path):
    """Quantizing says what was done and where it lies, and the result can be verified."""
    target = tmp_path / "new"
    result = call("quantize", float_model, target, "--config", config)
    assert result.exit_code == 0, result.stderr
    totals, written = result.stdout.splitlines()
    assert totals.startswith("1 of 6 tensors quantized, ")
    assert written == f"written to {target}"
    assert call("verify", target).exit_code == 0


def test_quantize_in_threads(config, tmp_path):
    """Jobs change nothing in what is written."""
    source = float_checkpoint(tmp_path / "sharded", shards=3)
    for jobs, name in ((1, "one"), (3, "three")):
        call("quantize", source, tmp_path / name, "-c", config, "-j", jobs)
    files = sorted(p.name for p in (tmp_path / "one").iterdir())
    assert files == sorted(p.name for p in (tmp_path / "three").iterdir())
    assert all(
        (tmp_path / "one" / n).read_bytes() == (tmp_path / "three" / n).read_bytes() for n in files
    )


def test_quantize_keeps_an_existing_target(float_model, config, tmp_path):
    """A target that holds something is refused and stays as it is."""
    kept = write(tmp_path / "there.json", 1)
    result = call("quantize", float_model, tmp_path, "--config", config)
    assert result.exit_code == 2
    assert kept.read_text() == "1"


def test_upgrade(old_model, tmp_path):
    """An upgrade lists the steps and what they drop; the source stays as it is."""
    before = (old_model / "model.safetensors").read_bytes()
    result = call("upgrade", old_model, tmp_path / "new")
    assert result.exit_code == 0, result.stderr
    assert "Int8TensorLayout v1 -> Int8TensorLayout v5: 1 tensor\n" in result.stdout
    assert "drops quant_min" in result.stdout
    assert result.stdout.endswith(f"written to {tmp_path / 'new'}\n")
    assert (old_model / "model.safetensors").read_bytes() == before
    assert call("inspect", tmp_path / "new").stderr == ""


def test_upgrade_out(old_model, tmp_path):
    """`--out` is another way to name the target; both at once are a usage error."""
    assert call("upgrade", old_model, "--out", tmp_path / "new").exit_code == 0
    assert (tmp_path / "new").is_dir()
    assert call("upgrade", old_model, tmp_path / "a", "--out", tmp_path / "b").exit_code == 2


def test_upgrade_needs_a_target(old_model):
    """A checkpoint without a target is a usage error."""
    result = call("upgrade", old_model)
    assert result.exit_code == 2
    assert "a checkpoint needs a target" in result.stderr


@pytest.mark.parametrize("verb", [["upgrade"], ["convert", "--to=torchao"]])
@pytest.mark.parametrize("name", ["new.pt", "new.safetensors"])
def test_a_target_named_like_a_file_is_refused(verb, name, old_model, tmp_path):
    """A checkpoint is written as a directory, which nobody expects under such a name."""
    result = call(*verb, old_model, tmp_path / name)
    assert result.exit_code == 2
    assert "a checkpoint is written as a directory" in result.stderr
    assert not (tmp_path / name).exists()


def test_dry_run(old_model, tmp_path):
    """A dry run writes nothing, says what would be done and exits with 1."""
    result = call("upgrade", old_model, tmp_path / "new", "--dry-run")
    assert result.exit_code == 1
    assert "v4 -> v5" in result.stdout
    assert not (tmp_path / "new").exists()


def test_up_to_date(current_model, tmp_path):
    """What is up to date is not written again, and exits with 0."""
    for options in ((), ("--dry-run",)):
        result = call("upgrade", current_model, tmp_path / "new", *options)
        assert result.exit_code == 0
        assert result.stdout == f"{current_model}: up to date, nothing to do\n"
    assert not (tmp_path / "new").exists()


def test_report(old_model, tmp_path):
    """The report is what `--json` prints, in a new file."""
    path = tmp_path / "report.json"
    _, document = call_json("upgrade", old_model, tmp_path / "new", "--report", path)
    assert json.loads(path.read_text()) == document
    assert document["result"]["tensors"][0]["from_version"] == 1
    assert call("upgrade", old_model, tmp_path / "other", "--report", path).exit_code == 2
    assert not (tmp_path / "other").exists()


OLD = {"type": "Int8WeightOnlyConfig", "version": 1, "group_size": 32}


def test_upgrade_a_config_to_stdout(tmp_path):
    """A config without target is printed in its current version; what is lost is noted."""
    result = call("upgrade", write(tmp_path / "old.json", OLD))
    document = json.loads(result.stdout)
    assert (document["version"], document["granularity"]["group_size"]) == (3, 32)
    assert "Int8WeightOnlyConfig v1 -> v3" in result.stderr
    assert result.exit_code == 0


def test_upgrade_a_config_to_a_file(tmp_path):
    """A config is written to a new file named *.json."""
    source = write(tmp_path / "old.json", RULES | {"configs": {"row": OLD}})
    target = tmp_path / "new.json"
    assert call("upgrade", source, target).stdout == f"written to {target}\n"
    assert json.loads(target.read_text())["configs"]["row"]["version"] == 3
    assert call("upgrade", source, target).exit_code == 2
    assert call("upgrade", source, tmp_path / "new.yaml").exit_code == 2


@pytest.mark.parametrize(
    ("document", "code"),
    [
        (ROW, 0),
        (OLD, 1),
        (RULES, 0),
        (RULES | {"configs": {"row": OLD}}, 1),
        ({"_type": "Int8WeightOnlyConfig", "_version": 1, "_data": {"group_size": None}}, 1),
    ],
)
def test_dry_run_of_a_config(document, code, tmp_path):
    """A dry run says whether anything in a config is older than today's version."""
    source = write(tmp_path / "some.json", document)
    result = call("upgrade", source, tmp_path / "new.json", "--dry-run")
    assert result.exit_code == code
    assert not (tmp_path / "new.json").exists()


def test_config_report_points_into_the_document(tmp_path):
    """The report of a config has a JSON pointer for each config that is old."""
    source = write(tmp_path / "old.json", RULES | {"configs": {"a/b": OLD, "row": ROW}})
    _, document = call_json("upgrade", source)
    (found,) = document["result"]["configs"]
    assert (found["pointer"], found["to_version"]) == ("/configs/a~1b", 3)
    assert document["result"]["document"]["configs"]["a/b"]["version"] == 3


def test_verify_sound(current_model):
    """A sound checkpoint is said to be one."""
    result = call("verify", current_model)
    assert result.stdout == f"{current_model}: sound; 1 quantized tensor read, 2 digests match\n"
    assert result.exit_code == 0


def damage(model):
    """Put a negative scale into a checkpoint."""
    shard = model / "model.safetensors"
    with safe_open(shard, "pt") as file:
        metadata = file.metadata()
    tensors = load_file(shard)
    tensors["layers.0.up.weight.scale"] = -tensors["layers.0.up.weight.scale"]
    save_file({k: v.clone() for k, v in tensors.items()}, shard, metadata)


def test_verify_finds_bad_values(current_model):
    """A value that no layout allows is a finding: printed with its tensor, exit code 1."""
    damage(current_model)
    result = call("verify", current_model)
    assert result.exit_code == 1
    assert "layers.0.up.weight" in result.stdout
    assert result.stdout.endswith(": 2 problems; 1 quantized tensor read, 2 digests compared\n")


def test_verify_json(current_model):
    """Findings are a result, not an error."""
    damage(current_model)
    code, document = call_json("verify", current_model)
    assert (code, document["result"]["ok"]) == (1, False)
    assert document["result"]["problems"][-1]["fqn"] == "layers.0.up.weight"


def test_verify_strict(current_model):
    """A stray file is a finding, and an error where that is asked for."""
    (current_model / "stray.safetensors").write_bytes(
        (current_model / "model.safetensors").read_bytes()
    )
    assert call("verify", current_model).exit_code == 1
    assert "stray.safetensors" in call("verify", current_model).stderr
    assert call("verify", current_model, "--strict").exit_code == 3
