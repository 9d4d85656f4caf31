"""Model folders of transformers: the upgraded config and the upgraded tensors agree."""

import json
from pathlib import Path
from shutil import copyfile
from typing import Any

import pytest
import torch
from torchao.quantization import Int8WeightOnlyConfig, quantize_

from qconfig import upgrade_checkpoint, verify_checkpoint
from tests.torchao_files import CORPUS

INT8 = {
    "_type": "Int8WeightOnlyConfig",
    "_version": 2,
    "_data": {"granularity": {"_type": "PerRow", "_version": 1, "_data": {"dim": -1}}},
}
HEAD = "model.embed_out"


def folder(
    path: Path, plain: tuple[str, ...], *, more: tuple[str, ...] = (), **settings: Any
) -> Path:
    """Save a model of two linears and more beside its config; those named are plain."""
    torch.manual_seed(5)
    state = {}
    for name in dict.fromkeys(("model.layers.0.up", HEAD, *more)):
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


def rules(report: Any) -> list[tuple[str, str | None]]:
    """Return the rules of the config that was written."""
    return [(rule["match"], rule["use"]) for rule in report.config_after["config"]["rules"]]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"modules_to_not_convert": None, "include_input_output_embeddings": False},
        {"modules_to_not_convert": ["model.norm"]},
    ],
    ids=["absent", "null", "others listed"],
)
def test_a_plain_output_embedding_becomes_a_rule(settings: Any, tmp_path: Path) -> None:
    """Transformers leaves it alone without saying so; the new config says so."""
    report = upgraded(tmp_path, (HEAD,), **settings)
    assert report.problems == ()
    assert rules(report)[0] == (f"{HEAD}.weight", None)
    assert report.notes[-1] == (
        "quantization_config: rules name tensors of which the config says otherwise: "
        f"{HEAD}.weight plain"
    )
    assert not [note for note in report.notes if note.endswith("say so in a rule")]


def test_a_quantized_output_embedding_needs_no_rule(tmp_path: Path) -> None:
    """Where nothing is left alone, the config stays one for all."""
    report = upgraded(tmp_path, ())
    assert report.config_after["config"]["type"] == "Int8WeightOnlyConfig"
    assert report.notes == ()


def test_a_plain_layer_in_a_stack_becomes_a_rule(tmp_path: Path) -> None:
    """A filter of quantize_ may have left it, and no file of torchao's holds the filter."""
    report = upgraded(tmp_path, ("model.layers.0.up",))
    assert report.problems == ()
    assert rules(report) == [("model.layers.0.up.weight", None)]


def test_a_plain_head_that_a_map_names_is_overruled(tmp_path: Path) -> None:
    """The map's own rule stays, behind the one that says what is there."""
    maps = {"_type": "FqnToConfig", "_version": 1, "_data": {"fqn_to_config": {HEAD: INT8}}}
    report = upgraded(tmp_path, (HEAD, "model.layers.0.up"), quant_type={"default": maps})
    assert report.problems == ()
    assert [match for match, _ in rules(report)] == [f"{HEAD}.weight", HEAD]


def test_a_rule_for_the_parameter_itself_is_replaced(tmp_path: Path) -> None:
    """Two rules of one name would contradict each other; a config without a use goes."""
    name = f"{HEAD}.weight"
    maps = {"_type": "FqnToConfig", "_version": 1, "_data": {"fqn_to_config": {name: INT8}}}
    report = upgraded(tmp_path, (HEAD, "model.layers.0.up"), quant_type={"default": maps})
    assert report.problems == ()
    assert rules(report) == [(name, None)]
    assert report.config_after["config"]["configs"] == {}


def test_a_tensor_that_no_config_of_the_document_makes_is_a_contradiction(tmp_path: Path) -> None:
    """The config is of another model, or the tensor: nothing is made up for it."""
    int4 = {"_type": "Int4WeightOnlyConfig", "_version": 2, "_data": {"group_size": 32}}
    report = upgraded(tmp_path, (), quant_type={"default": int4})
    names = [problem.fqn for problem in report.problems]
    assert names == ["model.layers.0.up.weight", f"{HEAD}.weight"]


def test_many_exceptions_are_a_number(tmp_path: Path) -> None:
    """A note names a few; the rules stand in the config."""
    names = tuple(f"model.layers.{i}.up" for i in range(12))
    report = upgraded(tmp_path, names, more=names)
    assert report.problems == ()
    assert len(rules(report)) == 12
    assert report.notes[-1].endswith("model.layers.7.up.weight plain, and 4 more")


@pytest.mark.parametrize(
    "name", ["embedding_intx_int8_axis0", "embedding_int4_dyn_weight_g32", "smoothquant_old_static"]
)
def test_folders_of_real_releases_agree(name: str, tmp_path: Path) -> None:
    """What a document of torchao's cannot say is a note, and the new folder is sound."""
    release = CORPUS / "torchao" / "0.13.0"
    if not release.is_dir():
        pytest.skip("the collection of torchao's files is not here")
    (tmp_path / "old").mkdir()
    copyfile(release / f"{name}__bf16.pt", tmp_path / "old" / "pytorch_model.bin")
    document = json.loads((release / "configs.json").read_text())[name]
    settings = {"quant_method": "torchao", "quant_type": {"default": document}}
    (tmp_path / "old" / "config.json").write_text(json.dumps({"quantization_config": settings}))
    report = upgrade_checkpoint(tmp_path / "old", tmp_path / "new", dialect="torchao-pickle")
    assert report.problems == ()
    assert [note for note in report.notes if note.startswith("quantization_config: ")]
    assert verify_checkpoint(tmp_path / "new").ok
