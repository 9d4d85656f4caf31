"""Int4 weights with int8 and with float8 activations, against torchao."""

from importlib import import_module

import pytest
import torch
from safetensors.torch import load_file

from qconfig import (
    Float8DynamicActivationInt4WeightConfig,
    Int8DynamicActivationInt4WeightConfig,
    MappingType,
)
from qconfig.builders.base import builder_of
from qconfig.errors import BuildError, FieldError
from tests.torchao_files import CORPUS, DATA

LAYERS = ("model.layers.0.self_attn.q_proj", "model.layers.0.mlp.down_proj")


def build(config, weight):
    """Return the tensor that a config's builder makes of a weight."""
    return builder_of(config).build(config, weight)


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("field", ["qdata", "scale", "zero_point"])
def test_int4_weights_of_float8_activations_are_torchaos(layer, field):
    """Codes, scales and zero points are those that torchao 0.18 stored, bit for bit."""
    stored = load_file(DATA / "0.18.0" / "float8_dynact_int4_weight_plain__bf16.safetensors")
    weight = load_file(DATA / "float" / "linear_bf16.safetensors")[f"{layer}.weight"]
    tensor = build(Float8DynamicActivationInt4WeightConfig(), weight)
    assert torch.equal(getattr(tensor, field), stored[f"{layer}._weight_{field}"])
    assert tensor.activation_dtype == "float8_e4m3fn"


def test_preshuffled_codes_are_not_built():
    """The order of torchao's CUDA kernel is read and written, and refused by the builder."""
    with pytest.raises(FieldError, match="only the packing format PLAIN is built"):
        build(Float8DynamicActivationInt4WeightConfig("PRESHUFFLED"), torch.ones(8, 128))


def test_columns_that_groups_of_128_do_not_divide():
    """A K above 128 has to be divided by it; below, a row is one group."""
    with pytest.raises(FieldError):
        build(Float8DynamicActivationInt4WeightConfig(), torch.ones(8, 192))
    assert build(Float8DynamicActivationInt4WeightConfig(), torch.ones(8, 96)).scale.shape == (1, 8)


def test_stacked_experts_are_quantized_one_by_one():
    """A matrix of rank 3 has the codes of its matrices."""
    weight = torch.randn(3, 8, 256, generator=torch.Generator().manual_seed(0))
    whole = build(Float8DynamicActivationInt4WeightConfig(), weight)
    parts = [build(Float8DynamicActivationInt4WeightConfig(), w) for w in weight]
    assert torch.equal(whole.qdata, torch.stack([p.qdata for p in parts]))


def test_infinite_weights_are_refused():
    """A weight that is not finite has no scale."""
    with pytest.raises(BuildError):
        build(Float8DynamicActivationInt4WeightConfig(), torch.full((2, 128), torch.inf))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("mapping", ["SYMMETRIC", "ASYMMETRIC", "SYMMETRIC_NO_CLIPPING_ERR"])
def test_codes_are_those_of_torchaos_primitives(dtype, mapping):
    """The same as torchao up to 0.16: choose_qparams_affine and quantize_affine, -8 to 7."""
    primitives = import_module("torchao.quantization.quant_primitives")
    weight = torch.randn(32, 128, generator=torch.Generator().manual_seed(1)).to(dtype)
    block = (1, 32)
    kind = primitives.MappingType[mapping]
    scale, zero = primitives.choose_qparams_affine(weight, kind, block, torch.int8, -8, 7)
    codes = primitives.quantize_affine(weight, block, scale, zero, torch.int8, -8, 7)
    tensor = build(Int8DynamicActivationInt4WeightConfig(mapping_type=mapping), weight)
    assert torch.equal(tensor.qdata, codes)
    assert torch.equal(tensor.scale, scale)
    if mapping == MappingType.ASYMMETRIC:
        assert torch.equal(tensor.zero_point.to(zero.dtype), zero)


STORED = sorted(CORPUS.glob("torchao/*/int8_dynact_int4_weight_g32_*.inner.safetensors"))


@pytest.mark.skipif(not STORED, reason="the collection of real files is not beside the repository")
@pytest.mark.parametrize("path", STORED, ids=lambda p: f"{p.parent.name}-{p.name}")
@pytest.mark.parametrize("layer", LAYERS)
def test_codes_are_those_of_stored_files(path, layer):
    """Files of torchao 0.4 to 0.16 have our codes; but 0.9 and later raised tiny scales to eps."""
    stored = load_file(path)
    name = path.name.partition(".")[0].rpartition("__")[2]
    weight = load_file(DATA / "float" / f"linear_{name}.safetensors")[f"{layer}.weight"]
    mapping = "ASYMMETRIC" if "asym" in path.name else "SYMMETRIC"
    tensor = build(Int8DynamicActivationInt4WeightConfig(mapping_type=mapping), weight)
    (found,) = [key for key in stored if key.startswith(layer) and key.endswith("int_data")]
    scale = stored[found.replace("int_data", "scale")]
    normal = scale != torch.finfo(scale.dtype).eps
    codes = stored[found].view(*scale.shape, -1)
    assert torch.equal(tensor.scale[normal], scale[normal])
    assert torch.equal(tensor.qdata.view(codes.shape)[normal], codes[normal])
    assert normal.float().mean() > 0.9
