"""Verifying a checkpoint finds wrong values and contradictions (hostile inputs 35 to 38)."""

import json
from pathlib import Path

import pytest
import torch

from qconfig import Int8WeightOnlyConfig, quantize_checkpoint, verify_checkpoint
from qconfig.errors import UnknownFieldError
from tests.checkpoints.builders import checkpoint_of, current_layout, float_checkpoint, v1_layout


@pytest.fixture
def quantized(tmp_path: Path) -> Path:
    """A sound quantized checkpoint."""
    quantize_checkpoint(
        float_checkpoint(tmp_path / "float"), tmp_path / "int8", Int8WeightOnlyConfig()
    )
    return tmp_path / "int8"


def test_a_sound_checkpoint_has_no_problems(quantized: Path) -> None:
    """What quantize_checkpoint writes verifies."""
    found = verify_checkpoint(quantized)
    assert (found.ok, found.tensors, found.notes) == (True, 2, ())


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0, 0.0])
def test_a_scale_that_is_no_scale_is_found(tmp_path: Path, value: float) -> None:
    """Hostile input 35: the tensor and the index of the first one are named."""
    layout = current_layout()
    layout.scale[3, 0] = value
    source = checkpoint_of(tmp_path / "m", {"a.weight": layout})
    found = verify_checkpoint(source)
    assert not found.ok
    text = str(found.problems[0])
    assert "a.weight" in text
    assert "scale" in text
    assert "3" in text


def test_a_zero_point_out_of_range_is_found(tmp_path: Path) -> None:
    """Hostile input 36: an int64 zero point of an old layout that does not fit."""
    layout = v1_layout()
    layout.zero_point[0] = 1000
    found = verify_checkpoint(checkpoint_of(tmp_path / "m", {"a.weight": layout}))
    assert "zero_point does not fit int8" in str(found.problems[0])


def test_every_broken_tensor_is_found(tmp_path: Path) -> None:
    """Two broken tensors are two problems."""
    layouts = {"a.weight": current_layout(), "b.weight": current_layout(4)}
    for layout in layouts.values():
        layout.scale.fill_(-1)
    found = verify_checkpoint(checkpoint_of(tmp_path / "m", layouts))
    assert [p.fqn for p in found.problems] == ["a.weight", "b.weight"]


def edit_config(directory: Path, **changes: object) -> None:
    """Change the stored config document."""
    data = json.loads((directory / "config.json").read_text())
    data["quantization_config"]["config"].update(changes)
    (directory / "config.json").write_text(json.dumps(data))


def test_a_config_that_skips_a_quantized_tensor_is_found(quantized: Path) -> None:
    """Config and records are checked against each other."""
    document = {
        "type": "FqnToConfig",
        "version": 2,
        "configs": {"w": {"type": "Int8WeightOnlyConfig", "version": 3}},
        "rules": [{"match": "layers.0.up", "use": None}],
        "default": "w",
    }
    data = json.loads((quantized / "config.json").read_text())
    data["quantization_config"]["config"] = document
    (quantized / "config.json").write_text(json.dumps(data))
    found = verify_checkpoint(quantized)
    assert [p.fqn for p in found.problems] == ["layers.0.up.weight"]
    assert "the stored config says otherwise" in str(found.problems[0])
    assert "expected: a plain tensor" in str(found.problems[0])


def test_a_config_that_wants_more_is_found(tmp_path: Path) -> None:
    """The other way round: the config quantizes what lies there as a plain tensor."""
    config = {"type": "Int8WeightOnlyConfig", "version": 3}
    source = checkpoint_of(
        tmp_path / "m",
        {"a.weight": current_layout()},
        {"b.weight": torch.zeros(8, 8)},
        {"quantization_config": {"quant_method": "qconfig", "config": config}},
    )
    found = verify_checkpoint(source)
    assert [p.fqn for p in found.problems] == ["b.weight"]


def test_a_broken_config_is_found(quantized: Path) -> None:
    """Problems of the document have the file and the JSON pointer."""
    edit_config(quantized, grup_size=1)
    problem = verify_checkpoint(quantized).problems[0]
    assert isinstance(problem, UnknownFieldError)
    assert problem.pointer == "/quantization_config/config/grup_size"
    assert problem.file.endswith("config.json")
