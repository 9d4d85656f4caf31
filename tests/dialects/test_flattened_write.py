"""Tensors in torchao's flattened form: what torchao 0.18 itself writes, and what it loads."""

import json

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

import qconfig
from qconfig.checkpoints.contents import ShardContents
from qconfig.checkpoints.open import open_checkpoint
from qconfig.checkpoints.write import write_checkpoint
from qconfig.dialects.torchao.safetensors_forms import to_torchao
from qconfig.dialects.torchao.safetensors_names import part_key
from qconfig.dialects.torchao.safetensors_write import write_torchao_checkpoint
from qconfig.dialects.torchao.tensors.table import read_tensor
from qconfig.versioning import registry
from tests.dialects.flattened_files import (
    flattened,
    named,
    read_files,
    torchao_tensors,
    weight,
)
from tests.tensors.torchao_peer import quiet_torchao

with quiet_torchao():
    from torchao.core.config import config_from_dict
    from torchao.prototype.safetensors.safetensors_support import unflatten_tensor_state_dict

ALL = torchao_tensors()


def raw(tensor: torch.Tensor) -> torch.Tensor:
    """Return the bytes of a tensor."""
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def same(ours: torch.Tensor, theirs: torch.Tensor) -> bool:
    """Return whether dtype, shape and bytes agree."""
    kinds = (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    return kinds and raw(ours).equal(raw(theirs))


def loaded(directory):
    """Return all stored tensors of a directory and the metadata of its last shard."""
    tensors, metadata = {}, {}
    for file in sorted(directory.glob("*.safetensors")):
        tensors |= load_file(file)
        with safe_open(file, "pt") as opened:
            metadata = opened.metadata()
    return tensors, metadata


@pytest.mark.parametrize("name", ALL)
def test_what_torchao_wrote_is_written_again_byte_for_byte(tmp_path, name):
    """Parts, attributes and the JSON text are what torchao made of its own tensor."""
    tensors, metadata = flattened({"a.weight": ALL[name]})
    stored = read_files(tmp_path, {"m.safetensors": (tensors, metadata)}).stored["a.weight"]
    result = to_torchao(read_tensor(stored).layout)
    assert json.dumps(result.description()) == metadata["a.weight"]
    ours = {part_key("a.weight", part): value.load() for part, value in result.fields.items()}
    assert ours.keys() == tensors.keys()
    for key, tensor in tensors.items():
        assert same(ours[key], tensor), key


@pytest.fixture(scope="module")
def converted(tmp_path_factory):
    """All tensors of `torchao_tensors`, a bias and a scalar, written in our form and torchao's."""
    home = tmp_path_factory.mktemp("converted")
    state = named(ALL) | {"model.norm.bias": weight(8), "scale": torch.ones(1)}
    flat = {k: v for k, v in state.items() if k != "scale"}
    found = read_files(home, {"source.safetensors": flattened(flat)})
    layouts = {n: registry.convert(read_tensor(s).layout) for n, s in found.stored.items()}
    names = sorted(layouts)
    shards = {
        f"model-{i + 1:05d}-of-00003.safetensors": ShardContents(
            layouts={n: layouts[n] for n in names[i::3]}
        )
        for i in range(3)
    }
    first = next(iter(shards.values()))
    first.plain.update(found.plain)
    first.plain["scale"] = found.plain["model.norm.bias"].reshape(8)
    write_checkpoint(home / "ours", shards, {"model_type": "llama"})
    write_torchao_checkpoint(open_checkpoint(home / "ours"), home / "theirs")
    return home


def test_torchao_loads_every_tensor_with_its_parts_and_attributes(converted):
    """What torchao makes of our files flattens into what it makes of its own tensors."""
    tensors, metadata = loaded(converted / "theirs")
    state, rest = unflatten_tensor_state_dict(tensors, metadata)
    assert rest.keys() == {"scale"}
    assert state.keys() == {*named(ALL), "model.norm.bias"}
    for name, tensor in named(ALL).items():
        assert type(state[name]) is type(tensor)
        first, second = flattened({"a.b": state[name]}), flattened({"a.b": tensor})
        assert first[1] == second[1]
        assert all(same(first[0][key], second[0][key]) for key in second[0])


@pytest.mark.parametrize("name", [n for n in ALL if not n.startswith("int4")])
def test_torchaos_values_are_those_of_its_own_tensor(converted, name):
    """Loaded from our files, a weight dequantizes to the same bits."""
    state, _ = unflatten_tensor_state_dict(*loaded(converted / "theirs"))
    assert same(state[f"model.{name}.weight"].dequantize(), ALL[name].dequantize())


@pytest.mark.parametrize(
    "name", ["int8_rows", "int8_tensor", "int8_scaled", "intx", "intx_tokens", "float8_rows"]
)
def test_torchaos_outputs_are_those_of_its_own_tensor(converted, name):
    """Loaded from our files, a linear gives the same bits."""
    state, _ = unflatten_tensor_state_dict(*loaded(converted / "theirs"))
    x = weight(4, 64, seed=5)
    with quiet_torchao(), torch.no_grad():
        ours = torch.nn.functional.linear(x, state[f"model.{name}.weight"])
        assert same(ours, torch.nn.functional.linear(x, ALL[name]))


def test_each_shard_has_the_metadata_of_all_and_the_index_names_the_parts(converted):
    """Every shard serves who keeps the metadata of one only, as transformers does."""
    directory = converted / "theirs"
    files = sorted(directory.glob("*.safetensors"))
    assert len(files) == 3
    texts = []
    for file in files:
        with safe_open(file, "pt") as opened:
            texts.append(opened.metadata())
    assert texts[0] == texts[1] == texts[2]
    assert texts[0]["format"] == "pt"
    weight_map = json.loads((directory / "model.safetensors.index.json").read_text())["weight_map"]
    assert weight_map == {key: file.name for file in files for key in load_file(file)}


def test_our_files_come_back_byte_for_byte(converted, tmp_path):
    """From our form to torchao's and back, every layout and every byte is the same."""
    before = open_checkpoint(converted / "ours")
    directory = converted / "theirs"
    files = {
        file.name: (load_file(file), metadata_of(file)) for file in directory.glob("*.safetensors")
    }
    found = read_files(tmp_path, files)
    assert found.stored.keys() == before.layouts.keys()
    assert found.plain.keys() == before.plain.keys()
    for name, stored in found.stored.items():
        first = to_torchao(before.layouts[name])
        second = to_torchao(read_tensor(stored).layout)
        assert first.description() == second.description()
        for part, value in first.fields.items():
            assert same(value.load(), second.fields[part].load())


def metadata_of(file):
    """Return the metadata of a file."""
    with safe_open(file, "pt") as opened:
        return opened.metadata()


CONFIGS = [
    qconfig.Int8WeightOnlyConfig(),
    qconfig.Int8WeightOnlyConfig(granularity=qconfig.PerGroup(32)),
    qconfig.Int8DynamicActivationInt8WeightConfig(),
    qconfig.IntxWeightOnlyConfig(weight_dtype=qconfig.DType.INT4, granularity=qconfig.PerGroup(32)),
    qconfig.Int8DynamicActivationIntxWeightConfig(weight_dtype=qconfig.DType.INT4),
    qconfig.Float8WeightOnlyConfig(),
    qconfig.Float8WeightOnlyConfig(granularity=qconfig.PerTensor()),
]


def model_of(dtype: torch.dtype = torch.bfloat16) -> torch.nn.Sequential:
    """Return a model of two linears with random weights, the same each time."""
    model = torch.nn.Sequential()
    model.add_module("up", torch.nn.Linear(64, 32, dtype=dtype))
    model.add_module("down", torch.nn.Linear(32, 16, bias=False, dtype=dtype))
    for seed, parameter in enumerate(model.parameters()):
        parameter.data.copy_(weight(*parameter.shape, seed=seed, dtype=dtype))
    return model


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: type(c).__name__)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_a_model_that_we_quantize_is_the_one_that_torchao_quantizes(tmp_path, config, dtype):
    """Parts, metadata, config and output are those of torchao's `quantize_`."""
    ours, theirs = model_of(dtype), model_of(dtype)
    qconfig.quantize_(ours, config)
    qconfig.save_checkpoint(ours, tmp_path / "ours", config=config)
    qconfig.convert_checkpoint(tmp_path / "ours", tmp_path / "theirs")
    tensors, metadata = loaded(tmp_path / "theirs")
    written = json.loads((tmp_path / "theirs" / "config.json").read_text())["quantization_config"]
    assert written["quant_method"] == "torchao"
    with quiet_torchao():
        from torchao.quantization import quantize_

        quantize_(theirs, config_from_dict(written["quant_type"]["default"]))
        expected, descriptions = flattened({k: v.detach() for k, v in theirs.state_dict().items()})
        assert {k: metadata[k] for k in descriptions if k != "tensor_names"} == {
            k: v for k, v in descriptions.items() if k != "tensor_names"
        }
        assert tensors.keys() == expected.keys()
        assert all(same(tensors[key], tensor) for key, tensor in expected.items())
        state, rest = unflatten_tensor_state_dict(tensors, metadata)
        assert not rest
        loaded_model = model_of(dtype)
        loaded_model.load_state_dict(state, assign=True)
        x = weight(4, 64, seed=9, dtype=dtype)
        with torch.no_grad():
            assert same(loaded_model(x), theirs(x))
