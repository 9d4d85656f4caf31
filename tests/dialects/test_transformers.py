"""transformers loads what we convert, and we read what it saves. Skipped where it is absent."""

import json
import warnings

import pytest
import torch

import qconfig
from qconfig.codec.safetensors_header import read_header
from qconfig.codec.safetensors_reader import lazy_tensors
from qconfig.configs import FqnToConfig, Rule
from qconfig.dialects.torchao.safetensors_read import read_flattened
from tests.tensors.torchao_peer import quiet_torchao

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")

pytestmark = pytest.mark.filterwarnings("ignore")

CONFIGS = {
    "int8": qconfig.Int8WeightOnlyConfig(),
    "int8_dynamic": qconfig.Int8DynamicActivationInt8WeightConfig(),
    "int4": qconfig.IntxWeightOnlyConfig(
        weight_dtype=qconfig.DType.INT4, granularity=qconfig.PerGroup(32)
    ),
    "int4_dynamic": qconfig.Int8DynamicActivationIntxWeightConfig(weight_dtype=qconfig.DType.INT4),
    "float8": qconfig.Float8WeightOnlyConfig(),
}


def llama(*, tied: bool):
    """Return a small Llama with random weights."""
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=64,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        tie_word_embeddings=tied,
    )
    return transformers.LlamaForCausalLM(config).to(torch.bfloat16).eval()


def loaded(directory):
    """Return the model of a directory, all of whose weights were found in it."""
    with quiet_torchao():
        model, found = transformers.AutoModelForCausalLM.from_pretrained(
            directory, dtype=torch.bfloat16, output_loading_info=True
        )
    assert not any(found.values())
    return model


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("name", CONFIGS)
def test_transformers_loads_what_we_write(tmp_path, name, tied):
    """Every weight is torchao's tensor with our values, and logits agree to bfloat16."""
    model = llama(tied=tied)
    model.save_pretrained(tmp_path / "float")
    rules = (Rule("lm_head", None),)
    config = FqnToConfig(configs={"c": CONFIGS[name]}, rules=rules, default="c")
    qconfig.quantize_(model, config)
    config_json = json.loads((tmp_path / "float" / "config.json").read_text())
    qconfig.save_checkpoint(
        model,
        tmp_path / "ours",
        config=config,
        config_json=config_json,
        max_shard_bytes=60_000,
    )
    qconfig.convert_checkpoint(tmp_path / "ours", tmp_path / "theirs")
    assert len(list((tmp_path / "theirs").glob("*.safetensors"))) > 1
    theirs = loaded(tmp_path / "theirs")
    for (fqn, ours), (other, weight) in zip(
        model.named_parameters(), theirs.named_parameters(), strict=True
    ):
        assert fqn == other
        values = [w.dequantize() if hasattr(w, "dequantize") else w for w in (ours, weight)]
        assert torch.equal(*values), fqn
    ids = torch.arange(12)[None]
    with torch.no_grad():
        torch.testing.assert_close(
            theirs(ids).logits, model(ids).logits, atol=0.02, rtol=0.02, check_dtype=True
        )


def test_we_read_what_transformers_saves(tmp_path):
    """Metadata of all tensors in each shard, and a tied weight that is listed and not stored."""
    from torchao.quantization import Int8WeightOnlyConfig

    llama(tied=True).save_pretrained(tmp_path / "float")
    with quiet_torchao():
        model = transformers.AutoModelForCausalLM.from_pretrained(
            tmp_path / "float",
            dtype=torch.bfloat16,
            quantization_config=transformers.TorchAoConfig(Int8WeightOnlyConfig(version=2)),
        )
        model.save_pretrained(tmp_path / "theirs", max_shard_size="40KB")
    headers = {f.name: read_header(f) for f in (tmp_path / "theirs").glob("*.safetensors")}
    assert len(headers) > 1
    tensors = {k: t for header in headers.values() for k, t in lazy_tensors(header).items()}
    found = read_flattened(headers, tensors)
    assert len(found.stored) == 14
    assert {s.name for s in found.stored.values()} == {"Int8Tensor"}
    assert found.notes == (
        "lm_head.weight is listed by torchao's metadata and not stored; is it tied?",
    )
