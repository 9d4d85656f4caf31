"""Conversion of whole checkpoints, from Python."""

import json

import attrs
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

import qconfig
from qconfig.checkpoints.contents import ShardContents
from qconfig.checkpoints.write import write_checkpoint
from qconfig.codec.layout_values import wrapped
from qconfig.codec.tensor_values import LazyTensor
from qconfig.dialects.convert import ConversionReport, convert_checkpoint
from qconfig.errors import MigrationError, UsageError
from tests.checkpoints.builders import current_layout
from tests.tensors.int4_samples import packed_int4

CONFIG = qconfig.Int8WeightOnlyConfig()


def model() -> torch.nn.Module:
    """Return a model of one linear and an embedding."""
    torch.manual_seed(0)
    layers = {"embed": torch.nn.Embedding(8, 32), "up": torch.nn.Linear(32, 16)}
    return torch.nn.ModuleDict(layers)


@pytest.fixture
def quantized(tmp_path):
    """A checkpoint with a config, a tokenizer and several shards."""
    made = model()
    qconfig.quantize_(made, CONFIG)
    source = tmp_path / "ours"
    qconfig.save_checkpoint(
        made, source, config=CONFIG, config_json={"model_type": "tiny"}, max_shard_bytes=600
    )
    (source / "tokenizer.txt").write_text("a b c")
    return source


def test_the_config_is_as_transformers_writes_it(quantized, tmp_path):
    """config.json keeps what it had, and has the fields of transformers' TorchAoConfig."""
    convert_checkpoint(quantized, tmp_path / "new")
    assert json.loads((tmp_path / "new" / "config.json").read_text()) == {
        "model_type": "tiny",
        "quantization_config": {
            "quant_method": "torchao",
            "quant_type": {
                "default": {
                    "_type": "Int8WeightOnlyConfig",
                    "_version": 2,
                    "_data": {
                        "group_size": None,
                        "granularity": {"_type": "PerRow", "_version": 1, "_data": {"dim": -1}},
                        "set_inductor_config": True,
                    },
                }
            },
            "modules_to_not_convert": None,
            "include_input_output_embeddings": False,
            "untie_embedding_weights": False,
        },
    }


def test_other_files_are_carried_and_shards_keep_their_names(quantized, tmp_path):
    """The directory is whole: tokenizer, index and as many shards as before."""
    convert_checkpoint(quantized, tmp_path / "new")
    names = sorted(path.name for path in quantized.iterdir())
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == names
    assert len(names) == 6
    assert (tmp_path / "new" / "tokenizer.txt").read_text() == "a b c"


def test_bytes_are_copied_and_the_report_counts_them(quantized, tmp_path):
    """Only zero points, which torchao stores and we do not, are computed."""
    report = convert_checkpoint(quantized, tmp_path / "new")
    assert isinstance(report, ConversionReport)
    assert [(t.fqn, t.type, t.lossless) for t in report.tensors] == [
        ("up.weight", "Int8Tensor", True)
    ]
    assert report.copied_bytes > 32 * 16
    assert report.computed_bytes in {0, 16}


def test_progress_is_told_of_every_stored_tensor(quantized, tmp_path):
    """The sizes add up to the whole."""
    seen = []
    convert_checkpoint(quantized, tmp_path / "new", progress=lambda *call: seen.append(call))
    assert sum(size for _, size, _ in seen) == seen[0][2]
    assert {name for name, *_ in seen} >= {"up._weight_qdata", "up.bias", "embed.weight"}


def test_a_tied_weight_is_stored_under_each_name(tmp_path):
    """Torchao has no ties; transformers makes them again by itself."""
    contents = ShardContents(
        plain={"embed.weight": LazyTensor.of(torch.ones(8, 4))},
        layouts={"up.weight": wrapped(current_layout())},
        ties={"head.weight": "embed.weight", "down.weight": "up.weight"},
    )
    write_checkpoint(tmp_path / "ours", {"model.safetensors": contents}, {})
    report = convert_checkpoint(tmp_path / "ours", tmp_path / "new")
    tensors = load_file(tmp_path / "new" / "model.safetensors")
    assert tensors["head.weight"].equal(tensors["embed.weight"])
    assert tensors["down._weight_qdata"].equal(tensors["up._weight_qdata"])
    with safe_open(tmp_path / "new" / "model.safetensors", "pt") as file:
        names = json.loads(file.metadata()["tensor_names"])
    assert names == ["down.weight", "embed.weight", "head.weight", "up.weight"]
    assert "head.weight is tied to embed.weight and stored again" in report.notes


def test_a_checkpoint_without_a_config_is_written_with_a_note(tmp_path):
    """Torchao needs none; transformers does."""
    contents = ShardContents(layouts={"up.weight": wrapped(current_layout())})
    write_checkpoint(tmp_path / "ours", {"model.safetensors": contents}, {})
    report = convert_checkpoint(tmp_path / "ours", tmp_path / "new")
    assert json.loads((tmp_path / "new" / "config.json").read_text()) == {}
    assert report.notes[-1].startswith("no quantization_config in config.json")


def test_values_that_torchao_rounds_otherwise_are_noted(tmp_path):
    """What no stored value holds is lost, and the report says of which tensor."""
    weight = packed_int4(dtype=torch.bfloat16, rounds_products=True)
    contents = ShardContents(layouts={"up.weight": wrapped(weight.to_layout())})
    write_checkpoint(tmp_path / "ours", {"model.safetensors": contents}, {})
    report = convert_checkpoint(tmp_path / "ours", tmp_path / "new")
    assert report.notes[-1].startswith("up.weight: its values are rounded once by torchao 0.18")


def test_a_config_that_torchao_cannot_say_stops_everything(tmp_path):
    """The error names config.json, and there is no target."""
    contents = ShardContents(layouts={"up.weight": wrapped(current_layout())})
    config = qconfig.Int8StaticActivationIntxWeightConfig()
    document = {"quant_method": "qconfig", "config": qconfig.config_to_dict(config)}
    write_checkpoint(
        tmp_path / "ours", {"model.safetensors": contents}, {"quantization_config": document}
    )
    with pytest.raises(MigrationError) as caught:
        convert_checkpoint(tmp_path / "ours", tmp_path / "new")
    assert caught.value.file == str(tmp_path / "ours" / "config.json")
    assert not (tmp_path / "new").exists()


def test_a_dry_run_finds_what_a_real_one_would(tmp_path):
    """What cannot be converted is an error in a dry run, too."""
    layout = attrs.evolve(current_layout(), act_pre_scale=torch.ones(16, dtype=torch.float64))
    contents = ShardContents(layouts={"up.weight": wrapped(layout)})
    write_checkpoint(tmp_path / "ours", {"model.safetensors": contents}, {})
    with pytest.raises(MigrationError, match="act_pre_scale"):
        convert_checkpoint(tmp_path / "ours", None, dry_run=True)


@pytest.mark.parametrize("to", ["gguf", "torchaoo"])
def test_an_unknown_form_is_a_usage_error(tmp_path, to):
    """The error lists the forms."""
    with pytest.raises(UsageError, match="torchao or qconfig"):
        convert_checkpoint(tmp_path, tmp_path / "new", to=to)


def test_a_target_is_needed(tmp_path):
    """Only a dry run has none."""
    with pytest.raises(UsageError, match="no target"):
        convert_checkpoint(tmp_path, None)


def test_to_our_own_form_is_an_upgrade(quantized):
    """What is up to date already needs nothing."""
    report = convert_checkpoint(quantized, None, to="qconfig", dry_run=True)
    assert report.needed is False
