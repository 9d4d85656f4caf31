"""Upgrades of checkpoints: bit-exact, by byte ranges, whole or not at all."""

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from qconfig import inspect_checkpoint, upgrade_checkpoint
from qconfig.checkpoints.open import open_checkpoint
from qconfig.codec import write_behind
from qconfig.codec.tensor_values import LazyTensor
from qconfig.errors import MigrationError, StorageError, UsageError
from tests.checkpoints.builders import checkpoint_of, current_layout, v1_layout

V1_CONFIG = {
    "quantization_config": {
        "quant_method": "qconfig",
        "config": {"type": "Int8WeightOnlyConfig", "version": 1, "group_size": None},
    },
    "model_type": "tiny",
}


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A checkpoint of layout and config version 1."""
    return checkpoint_of(
        tmp_path / "old",
        {"a.weight": v1_layout(), "b.weight": v1_layout(4, 32, group=8)},
        {"a.bias": torch.arange(8.0)},
        V1_CONFIG,
    )


def files_of(directory: Path) -> dict[str, bytes]:
    """Return the content of every file below a directory."""
    return {
        p.relative_to(directory).as_posix(): p.read_bytes()
        for p in sorted(directory.rglob("*"))
        if p.is_file()
    }


def test_codes_and_scales_keep_their_bits(old: Path, tmp_path: Path) -> None:
    """Every stored element is the same after the upgrade; only names and shapes differ."""
    upgrade_checkpoint(old, tmp_path / "new")
    before, after = (
        load_file(old / "model.safetensors"),
        load_file(tmp_path / "new/model.safetensors"),
    )
    assert torch.equal(before["a.weight.int_data"], after["a.weight.qdata"])
    assert after["a.weight.scale"].shape == (8, 1)
    assert torch.equal(before["a.weight.scale"], after["a.weight.scale"].flatten())
    assert torch.equal(before["b.weight.scale"], after["b.weight.scale"])
    assert after["b.weight.zero_point"].dtype == torch.int8
    assert torch.equal(before["a.bias"], after["a.bias"])


def test_everything_is_current_afterwards(old: Path, tmp_path: Path) -> None:
    """No layout of the new checkpoint is older than the newest version, and nor is the config."""
    assert inspect_checkpoint(old).outdated
    upgrade_checkpoint(old, tmp_path / "new")
    inspection = inspect_checkpoint(tmp_path / "new")
    assert not inspection.outdated
    assert inspection.layouts == {("Int8TensorLayout", 5): 2}
    config = inspection.quantization_config["config"]
    assert (config["version"], config["granularity"]) == (3, {"type": "PerRow", "dim": -1})


def test_other_keys_of_config_json_are_carried(old: Path, tmp_path: Path) -> None:
    """What the upgrade does not know in config.json stays."""
    upgrade_checkpoint(old, tmp_path / "new")
    assert json.loads((tmp_path / "new/config.json").read_text())["model_type"] == "tiny"


def test_what_is_odd_is_noted(old: Path, tmp_path: Path) -> None:
    """A file that belongs to no index is carried along, and the report says that it is there."""
    (old / "stray.safetensors").write_bytes((old / "model.safetensors").read_bytes())
    report = upgrade_checkpoint(old, tmp_path / "new")
    assert report.notes == ("stray.safetensors is not in the index",)
    assert report.to_dict()["notes"] == list(report.notes)
    assert (tmp_path / "new" / "stray.safetensors").is_file()


def test_other_files_are_carried(old: Path, tmp_path: Path) -> None:
    """Files that are no part of the checkpoint lie in the new directory with the same bytes."""
    (old / "sub").mkdir()
    (old / "sub" / "merges.txt").write_bytes(b"\x00\xff")
    upgrade_checkpoint(old, tmp_path / "new")
    assert (tmp_path / "new/sub/merges.txt").read_bytes() == b"\x00\xff"


def test_the_source_is_not_touched(old: Path, tmp_path: Path) -> None:
    """All files of the source have the bytes they had."""
    before = files_of(old)
    upgrade_checkpoint(old, tmp_path / "new")
    assert files_of(old) == before


def test_the_report_says_steps_and_losses(old: Path, tmp_path: Path) -> None:
    """Each tensor is reported with versions, steps and what was dropped."""
    report = upgrade_checkpoint(old, tmp_path / "new").to_dict()
    first = report["tensors"][0]
    assert (first["fqn"], first["from_version"], first["to_version"]) == ("a.weight", 1, 5)
    edges = [(step["from"], step["to"]) for step in first["steps"]]
    names = [f"Int8TensorLayout v{version}" for version in range(1, 6)]
    assert edges == list(pairwise(names))
    assert all(step["text"].endswith(".") for step in first["steps"])
    assert first["drops"] == [
        "quant_min, quant_max and zero_point_domain: no value depends on them"
    ]
    assert report["computed_bytes"] == 8 + 16


def test_unchanged_bytes_are_never_decoded(
    old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the zero points, which change their type, pass through a tensor."""
    decoded: list[str] = []
    original = write_behind._parts

    def spy(name: str, tensor: LazyTensor) -> Iterator[torch.Tensor]:
        decoded.append(name)
        return original(name, tensor)

    monkeypatch.setattr(write_behind, "_parts", spy)
    upgrade_checkpoint(old, tmp_path / "new")
    assert decoded == ["a.weight.zero_point", "b.weight.zero_point"]


def test_a_dry_run_writes_nothing(old: Path, tmp_path: Path) -> None:
    """A dry run reports the same and leaves no file."""
    report = upgrade_checkpoint(old, None, dry_run=True)
    assert report.needed
    assert sorted(p.name for p in tmp_path.iterdir()) == ["old"]


def test_a_current_checkpoint_needs_nothing(tmp_path: Path) -> None:
    """Where everything is current, nothing is written."""
    source = checkpoint_of(tmp_path / "now", {"a.weight": current_layout()})
    report = upgrade_checkpoint(source, tmp_path / "new")
    assert not report.needed
    assert not (tmp_path / "new").exists()


def test_ties_survive(tmp_path: Path) -> None:
    """A tied name leads to its tensor after the upgrade too."""
    source = checkpoint_of(
        tmp_path / "old", {"a.weight": v1_layout()}, ties={"b.weight": "a.weight"}
    )
    upgrade_checkpoint(source, tmp_path / "new")
    assert open_checkpoint(tmp_path / "new").ties == {"b.weight": "a.weight"}


def test_a_zero_point_that_does_not_fit_stops_the_upgrade(tmp_path: Path) -> None:
    """A zero point outside int8 is an error that names tensor and value, and nothing is written."""
    layout = v1_layout()
    layout.zero_point[3] = 200
    source = checkpoint_of(tmp_path / "old", {"a.weight": layout})
    with pytest.raises(MigrationError) as caught:
        upgrade_checkpoint(source, tmp_path / "new")
    assert "zero_point does not fit int8" in str(caught.value)
    assert "found: 200" in str(caught.value)
    assert "a.weight.zero_point" in str(caught.value)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["old"]


def test_an_existing_target_is_refused(old: Path, tmp_path: Path) -> None:
    """A directory with something in it is never written into."""
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "precious").write_text("x")
    with pytest.raises(UsageError, match="the target exists"):
        upgrade_checkpoint(old, tmp_path / "new")
    assert files_of(tmp_path / "new") == {"precious": b"x"}


@pytest.mark.parametrize("place", ["old/new", "old", "."])
def test_source_and_target_may_not_overlap(old: Path, tmp_path: Path, place: str) -> None:
    """Hostile input 21: the target may not be the source, lie in it or hold it."""
    with pytest.raises(UsageError) as caught:
        upgrade_checkpoint(old, tmp_path / place)
    assert caught.value.exit_code == 2


def test_a_missing_source_is_an_io_error(tmp_path: Path) -> None:
    """A path that does not exist is named, with exit code 5."""
    with pytest.raises(StorageError, match="no such file or directory") as caught:
        upgrade_checkpoint(tmp_path / "nothing", tmp_path / "new")
    assert caught.value.exit_code == 5


def test_real_safetensors_reads_the_result(old: Path, tmp_path: Path) -> None:
    """The peer's library opens the new file and finds the format key."""
    upgrade_checkpoint(old, tmp_path / "new")
    with safe_open(tmp_path / "new/model.safetensors", "pt") as file:
        assert file.metadata()["format"] == "pt"
