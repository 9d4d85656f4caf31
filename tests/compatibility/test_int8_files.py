"""Int8 weight-only tensors that real torchao releases stored: upgraded, they give their values."""

import json
import warnings

import pytest
import torch
from safetensors.torch import load_file

from qconfig import (
    Int8Tensor,
    Int8WeightOnlyConfig,
    PerGroup,
    PerRow,
    PerTensor,
    config_from_dict,
    config_to_dict,
    load_checkpoint,
    upgrade_checkpoint,
)
from qconfig.builders.base import builder_of
from qconfig.configs import Granularity
from tests.checkpoints.builders import checkpoint_of
from tests.torchao_files import DATA, Sample, samples

SAMPLES = [pytest.param(s, id=s.id) for s in samples("int8_weight_only")]
OTHERS = [
    pytest.param(sample, id=sample.id)
    for prefix in ("embedding_int8_weight_only", "FqnToConfig_default", "ModuleFqnToConfig_default")
    for sample in samples(prefix)
]
DOCUMENTS = [
    pytest.param(document, id=f"{release}-{name}")
    for release, documents in json.loads((DATA / "configs.json").read_text()).items()
    for name, document in documents.items()
]


@pytest.mark.parametrize("sample", SAMPLES + OTHERS)
def test_dequantized_weights_are_the_writers(sample: Sample, tmp_path) -> None:
    """Stored in the release's form, upgraded and loaded, a weight is the writer's bit for bit."""
    truth = load_file(sample.truth)
    layouts = sample.layouts()
    assert layouts
    upgrade_checkpoint(checkpoint_of(tmp_path / "old", layouts), tmp_path / "new")
    source = tmp_path / "new" if (tmp_path / "new").exists() else tmp_path / "old"
    for parameter, tensor in load_checkpoint(source).items():
        assert isinstance(tensor, Int8Tensor)
        expected = truth[f"{parameter}.dequant"]
        assert tensor.dtype == expected.dtype
        assert torch.equal(tensor.dequantize(), expected)


@pytest.mark.parametrize("sample", SAMPLES)
def test_linear_outputs_are_the_writers_up_to_rounding(sample: Sample) -> None:
    """The output differs from the writer's by no more than its type's rounding of the sum."""
    truth, inputs = load_file(sample.truth), load_file(sample.inputs)
    biases = load_file(sample.weights)
    for parameter, layout in sample.layouts().items():
        module = parameter.removesuffix(".weight")
        bias = biases.get(f"{module}.bias")
        x, expected = inputs[module], truth.get(f"{module}.out")
        if expected is None:  # torchao 0.15 stored weights in groups but could not use them
            assert "v2_g32" in sample.id
            continue
        result = torch.nn.functional.linear(x, Int8Tensor.from_layout(layout), bias)
        scale = expected.abs().max().double()
        error = (result.double() - expected.double()).abs().max() / scale
        assert error <= 8 * torch.finfo(expected.dtype).eps


@pytest.mark.parametrize("sample", [s for s in SAMPLES if s.values[0].release == "0.18.0"])
def test_our_builder_gives_the_codes_of_torchao_0_18(sample: Sample) -> None:
    """From the same float weight, codes and scales are those that torchao stored."""
    weights = load_file(sample.weights)
    for parameter, layout in sample.layouts().items():
        rows, columns = layout.block_size
        granularity: Granularity = PerRow()
        if rows != 1:
            granularity = PerTensor()
        elif columns != layout.qdata.shape[1]:
            granularity = PerGroup(columns)
        config = Int8WeightOnlyConfig(granularity=granularity)
        built = builder_of(config).build(config, weights[parameter])
        assert torch.equal(built.qdata, layout.qdata)
        assert torch.equal(built.scale, layout.scale)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_config_documents_of_old_releases_load(document: dict) -> None:
    """What releases from 0.11 to 0.18 wrote is read, and written again it is the same config."""
    config = config_from_dict(document)
    assert config_from_dict(config_to_dict(config)) == config


@pytest.mark.parametrize("document", DOCUMENTS)
def test_config_documents_go_back_to_torchao(document: dict) -> None:
    """Our form of an old document, written for torchao, is accepted by torchao 0.18 itself."""
    written = config_to_dict(config_from_dict(document), dialect="torchao")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torchao announces the end of _default
        from torchao.core.config import config_from_dict as torchao_config

        theirs = torchao_config(written)
    assert type(theirs).__name__ == written["_type"]
