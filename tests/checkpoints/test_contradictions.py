"""What of a stored tensor its config decides, and what it does not."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from qconfig import FqnToConfig, Rule, config_to_dict, verify_checkpoint
from qconfig.configs import Int4WeightOnlyConfig, Int8DynamicActivationInt8WeightConfig
from qconfig.configs.choices import Int4PackingFormat
from qconfig.configs.granularity import PerRow, PerTensor
from qconfig.layouts import Int4TensorLayout, Int8TensorLayout
from qconfig.layouts.activation import Int8Arithmetic, Int8Product, QuantizeTensorToInt8Kwargs
from tests.checkpoints.builders import checkpoint_of


def problems(tmp_path: Path, layout: Any, config: Any) -> list[tuple[str | None, ...]]:
    """Store a tensor beside a config, and return what verify finds in them."""
    source = checkpoint_of(tmp_path / "m", {"layers.0.up.weight": layout})
    stored = {"quant_method": "qconfig", "config": config_to_dict(config)}
    (source / "config.json").write_text(json.dumps({"quantization_config": stored}))
    return [(p.found, p.expected) for p in verify_checkpoint(source).problems]


def int4(columns: int, group: int) -> Int4TensorLayout:
    """Return an int4 weight in groups."""
    scale = torch.ones(max(1, columns // group), 16, dtype=torch.bfloat16)
    codes = torch.zeros(16, columns // 2, dtype=torch.int8)
    zeros = torch.zeros_like(scale)
    return Int4TensorLayout(codes, scale, zeros, (1, group), (16, columns), torch.bfloat16)


def int8(granularity: Any, arithmetic: Int8Arithmetic | None = None) -> Int8TensorLayout:
    """Return an int8 weight that quantizes activations."""
    return Int8TensorLayout(
        torch.zeros(16, 32, dtype=torch.int8),
        torch.ones(16, 1),
        (1, 32),
        torch.float32,
        act_quant_kwargs=QuantizeTensorToInt8Kwargs(granularity),
        arithmetic=arithmetic,
    )


def test_a_packing_for_kernels_is_no_contradiction(tmp_path: Path) -> None:
    """Checkpoints hold the plain order, whatever order of a kernel a config names."""
    config = Int4WeightOnlyConfig(
        group_size=32, int4_packing_format=Int4PackingFormat.TILE_PACKED_TO_4D
    )
    assert problems(tmp_path, int4(64, 32), config) == []


def test_a_block_that_is_larger_than_the_tensor_is_the_whole_of_it(tmp_path: Path) -> None:
    """A block of 128 and one of 64 are the same where there are 64 columns."""
    config = Int4WeightOnlyConfig(group_size=64)
    assert problems(tmp_path, int4(64, 128), config) == []


def test_an_arithmetic_of_the_writer_is_no_contradiction(tmp_path: Path) -> None:
    """How an older release computed stands in the layout alone."""
    layout = int8(PerRow(), Int8Arithmetic(Int8Product.SCALE_TYPE))
    assert problems(tmp_path, layout, Int8DynamicActivationInt8WeightConfig()) == []


def test_other_activations_are_a_contradiction(tmp_path: Path) -> None:
    """One scale for all activations is not one for each row."""
    (found, expected), *rest = problems(
        tmp_path, int8(PerTensor()), Int8DynamicActivationInt8WeightConfig()
    )
    assert not rest
    assert "PerTensor" in str(found)
    assert "PerRow" in str(expected)


def _many(tmp_path: Path, odd: str, config: Any) -> list[str | None]:
    """Store four equal tensors and one of another group size; return those that verify names."""
    layouts = {f"layers.{i}.up.weight": int4(64, 32) for i in range(4)}
    source = checkpoint_of(tmp_path / "m", layouts | {odd: int4(64, 64)})
    stored = {"quant_method": "qconfig", "config": config_to_dict(config)}
    (source / "config.json").write_text(json.dumps({"quantization_config": stored}))
    return [p.fqn for p in verify_checkpoint(source).problems]


@pytest.mark.parametrize("odd", ["layers.9.up.weight", "layers.9.down.weight", "a.weight"])
def test_one_tensor_among_equal_ones_that_contradicts_is_found(tmp_path: Path, odd: str) -> None:
    """That tensors of one form are looked at once, hides none of another form."""
    assert _many(tmp_path, odd, Int4WeightOnlyConfig(group_size=32)) == [odd]


def test_rules_tell_tensors_of_one_form_apart(tmp_path: Path) -> None:
    """Where names decide, each tensor is looked at."""
    base, other = Int4WeightOnlyConfig(group_size=32), Int4WeightOnlyConfig(group_size=64)
    config = FqnToConfig(
        configs={"base": base, "other": other},
        rules=(Rule("layers.2.up", "other"), Rule("layers.9.up", "other")),
        default="base",
    )
    assert _many(tmp_path, "layers.9.up.weight", config) == ["layers.2.up.weight"]
