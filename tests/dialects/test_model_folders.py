"""Model folders of transformers: the upgraded config and the upgraded tensors agree."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torchao.quantization import Int8WeightOnlyConfig, quantize_

from qconfig import upgrade_checkpoint

INT8 = {
    "_type": "Int8WeightOnlyConfig",
    "_version": 2,
    "_data": {"granularity": {"_type": "PerRow", "_version": 1, "_data": {"dim": -1}}},
}
HEAD = "model.embed_out"


def folder(path: Path, plain: tuple[str, ...], **settings: Any) -> Path:
    """Save a model of two linears beside its config; those named are plain."""
    torch.manual_seed(5)
    state = {}
    for name in ("model.layers.0.up", HEAD):
        layer = torch.nn.Sequential(torch.nn.Linear(32, 16, bias=False))
        if name not in plain:
            quantize_(layer, Int8WeightOnlyConfig(version=2))
        state[f"{name}.weight"] = layer[0].weight
    path.mkdir()
    torch.save(state, path / "pytorch_model.bin")
    config = {"quant_method": "torchao", "quant_type": {"default": INT8}} | settings
    (path / "config.json").write_text(json.dumps({"quantization_config": config}))
    return path


def upgraded(path: Path, plain: tuple[str, ...], **settings: Any) -> Any:
    """Upgrade such a folder and return the report."""
    source = folder(path / "old", plain, **settings)
    return upgrade_checkpoint(source, path / "new", dialect="torchao-pickle")


@pytest.mark.parametrize(
    "settings",
    [{}, {"modules_to_not_convert": None, "include_input_output_embeddings": False}],
    ids=["absent", "null"],
)
def test_a_plain_output_embedding_becomes_a_rule(settings: Any, tmp_path: Path) -> None:
    """Transformers leaves it alone without saying so; the new config says so."""
    report = upgraded(tmp_path, (HEAD,), **settings)
    assert report.problems == ()
    config = report.config_after["config"]
    assert [(rule["match"], rule["use"]) for rule in config["rules"]] == [(HEAD, None)]
    assert report.notes == (
        "quantization_config: transformers leaves the output embedding alone, and so do rules: "
        + HEAD,
    )


def test_a_quantized_output_embedding_needs_no_rule(tmp_path: Path) -> None:
    """Where nothing is left alone, the config stays one for all."""
    report = upgraded(tmp_path, ())
    assert report.config_after["config"]["type"] == "Int8WeightOnlyConfig"


@pytest.mark.parametrize(
    "settings",
    [{"include_input_output_embeddings": True}, {"modules_to_not_convert": ["model.norm"]}],
    ids=["embeddings", "listed"],
)
def test_a_plain_head_that_the_settings_reach_is_a_contradiction(
    settings: Any, tmp_path: Path
) -> None:
    """What the file says of its modules is taken at its word."""
    report = upgraded(tmp_path, (HEAD,), **settings)
    assert [problem.fqn for problem in report.problems] == [f"{HEAD}.weight"]


def test_a_plain_layer_in_a_stack_is_a_contradiction(tmp_path: Path) -> None:
    """Only what lies outside the layers can be an output embedding."""
    report = upgraded(tmp_path, ("model.layers.0.up",))
    assert [problem.fqn for problem in report.problems] == ["model.layers.0.up.weight"]


def test_a_head_that_a_map_names_is_a_contradiction(tmp_path: Path) -> None:
    """A map that gives the head a config of its own is not overruled."""
    maps = {"_type": "FqnToConfig", "_version": 1, "_data": {"fqn_to_config": {HEAD: INT8}}}
    report = upgraded(tmp_path, (HEAD,), quant_type={"default": maps})
    assert f"{HEAD}.weight" in [problem.fqn for problem in report.problems]
