"""Quantization-aware training: prepare, train, convert."""

import copy

import pytest
import torch
from torch import nn

import qconfig
from qconfig.codec.dtypes import DType
from qconfig.configs import PerAxis, PerGroup, PerToken
from qconfig.configs.choices import MappingType, QATStep
from qconfig.configs.int8 import Int8DynamicActivationInt8WeightConfig, Int8WeightOnlyConfig
from qconfig.configs.intx import Int8DynamicActivationIntxWeightConfig, IntxWeightOnlyConfig
from qconfig.configs.qat import IntxFakeQuantizeConfig, QATConfig
from qconfig.errors import BuildError, PlanError
from qconfig.tensors.fake_quantized import FakeQuantizedEmbedding, FakeQuantizedLinear

BASES = [
    Int8WeightOnlyConfig(),
    Int8WeightOnlyConfig(PerGroup(16)),
    Int8DynamicActivationInt8WeightConfig(),
    IntxWeightOnlyConfig(weight_dtype=DType.INT4, granularity=PerGroup(32)),
    Int8DynamicActivationIntxWeightConfig(weight_dtype=DType.INT4),
]
TOKENS = IntxFakeQuantizeConfig(DType.INT8, PerToken(), MappingType.ASYMMETRIC)

GROUPS = PerGroup(32)


def learned(mapping=MappingType.SYMMETRIC, granularity=GROUPS, dtype=DType.INT4):
    """Return a fake quantizer of weights whose scales are learned."""
    return IntxFakeQuantizeConfig(
        dtype, granularity, mapping, is_dynamic=False, range_learning=True
    )


def model_of(dtype=torch.float32, *, bias=True):
    """Return two linears, the same each time."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(64, 32, bias=bias, dtype=dtype), nn.ReLU(), nn.Linear(32, 64, dtype=dtype)
    )


def batch(dtype=torch.float32):
    """Return activations, the same each time."""
    return torch.randn(5, 64, generator=torch.Generator().manual_seed(1)).to(dtype)


def train(model, steps=3):
    """Take a few steps on all parameters."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for _ in range(steps):
        optimizer.zero_grad()
        (model(batch()) - 1).square().mean().backward()
        optimizer.step()


def assert_close(found, expected):
    """Check that two results agree up to another order of summation."""
    assert (found - expected).abs().max() <= 1e-5 * expected.abs().max()


@pytest.mark.parametrize("base", BASES, ids=lambda c: type(c).__name__)
def test_prepared_model_computes_what_the_quantized_one_does(base):
    """Before training, the prepared model gives what quantizing at once would give."""
    prepared, quantized = model_of(), model_of()
    qconfig.quantize_(prepared, QATConfig(base))
    qconfig.quantize_(quantized, base)
    assert isinstance(prepared[0], FakeQuantizedLinear)
    with torch.no_grad():
        assert_close(prepared(batch()), quantized(batch()))


@pytest.mark.parametrize("base", BASES, ids=lambda c: type(c).__name__)
def test_converted_output_equals_the_trained_one(base):
    """After training, the converted model gives what the fake-quantized one gave."""
    model = model_of()
    before = model[0].weight.detach().clone()
    qconfig.quantize_(model, QATConfig(base))
    train(model)
    assert not torch.equal(model[0].weight, before)
    with torch.no_grad():
        expected = model(batch())
        rounded = model[0].fake_quantizer.packed(model[0].weight).dequantize()
    qconfig.quantize_(model, QATConfig(base, step="convert"))
    assert type(model[0]) is nn.Linear
    assert torch.equal(model[0].weight.dequantize(), rounded)
    with torch.no_grad():
        assert_close(model(batch()), expected)


@pytest.mark.parametrize("mapping", [MappingType.SYMMETRIC, MappingType.ASYMMETRIC])
@pytest.mark.parametrize("activation", [None, TOKENS], ids=["float", "int8"])
def test_learned_ranges_reach_the_builder(mapping, activation):
    """Scales and zero points that training moved are those of the converted weight."""
    model = model_of()
    config = QATConfig(activation_config=activation, weight_config=learned(mapping))
    qconfig.quantize_(model, config)
    range_ = model[0].fake_quantizer.learned
    start = range_.scale.detach().clone()
    train(model)
    assert not torch.equal(range_.scale, start)
    with torch.no_grad():
        expected = model(batch())
    scale = range_.scale.detach()
    options = {"weight_dtype": DType.INT4}
    if activation is None:
        base = IntxWeightOnlyConfig(
            granularity=PerGroup(32), mapping_type=mapping, scale_dtype=DType.FLOAT32, **options
        )
    else:
        base = Int8DynamicActivationIntxWeightConfig(
            weight_mapping_type=mapping, weight_scale_dtype=DType.FLOAT32, **options
        )
    qconfig.quantize_(model, QATConfig(base, step=QATStep.CONVERT))
    assert torch.equal(model[0].weight.scale, scale)
    with torch.no_grad():
        assert_close(model(batch()), expected)


def test_gradients_of_learned_ranges_are_those_of_lsq():
    """The gradient of a scale is sum(g * (q - w / s)) inside the range and sum(g * q) outside."""
    layer = nn.Sequential(nn.Linear(64, 4, bias=False))
    qconfig.quantize_(layer, QATConfig(weight_config=learned(granularity=PerAxis(0))))
    range_ = layer[0].fake_quantizer.learned
    with torch.no_grad():
        range_.scale.mul_(0.7)
    upstream = torch.randn(4, 64)
    weight = layer[0].weight.detach()
    range_.values(weight).backward(upstream)
    ratio = weight / range_.scale.detach()
    codes = ratio.round().clamp(-8, 7)
    inside = (ratio.round() >= -8) & (ratio.round() <= 7)
    expected = (upstream * torch.where(inside, codes - ratio, codes)).sum(1, keepdim=True)
    assert_close(range_.scale.grad, expected)


def test_gradients_pass_straight_through_the_weight():
    """The gradient of a weight is that of its rounded values."""
    model, plain = model_of(bias=False), model_of(bias=False)
    qconfig.quantize_(model, QATConfig(Int8WeightOnlyConfig()))
    rounded = model[0].fake_quantizer.packed(model[0].weight).dequantize()
    with torch.no_grad():
        plain[0].weight.copy_(rounded)
    model[0](batch()).square().sum().backward()
    plain[0](batch()).square().sum().backward()
    assert_close(model[0].weight.grad, plain[0].weight.grad)


def test_embeddings_are_trained_too():
    """A base config that serves embeddings trains and converts them."""
    model = nn.Sequential(nn.Embedding(8, 64, padding_idx=0))
    rules = {"0": QATConfig(IntxWeightOnlyConfig(DType.INT4, PerGroup(32)))}
    document = {"type": "FqnToConfig", "version": 2}
    configs = {n: qconfig.config_to_dict(c) for n, c in rules.items()}
    prepare = qconfig.config_from_dict(
        {**document, "configs": configs, "rules": [{"match": "0", "use": "0"}]}
    )
    qconfig.quantize_(model, prepare)
    assert isinstance(model[0], FakeQuantizedEmbedding)
    model(torch.tensor([0, 1])).sum().backward()
    assert not model[0].weight.grad[0].any()
    assert model[0].weight.grad[1].all()
    expected = model(torch.tensor([3, 1])).detach()
    configs["0"]["step"] = "CONVERT"
    convert = qconfig.config_from_dict(
        {**document, "configs": configs, "rules": [{"match": "0", "use": "0"}]}
    )
    qconfig.quantize_(model, convert)
    assert type(model[0]) is nn.Embedding
    assert model[0].padding_idx == 0
    assert torch.equal(model(torch.tensor([3, 1])), expected)


def test_prepared_models_copy_save_and_load():
    """A prepared model can be copied, and its state loads into another, learned ranges too."""
    model = model_of()
    qconfig.quantize_(model, QATConfig(weight_config=learned(MappingType.ASYMMETRIC)))
    train(model)
    twin = copy.deepcopy(model)
    assert torch.equal(twin(batch()), model(batch()))
    other = model_of()
    qconfig.quantize_(other, QATConfig(weight_config=learned(MappingType.ASYMMETRIC)))
    other.load_state_dict(model.state_dict())
    assert torch.equal(other(batch()), model(batch()))


def test_another_base_than_trained_is_refused():
    """A base that rounds otherwise than what was trained is refused, and the model stays."""
    model = model_of()
    qconfig.quantize_(model, QATConfig(Int8WeightOnlyConfig()))
    with pytest.raises(BuildError, match="rounds the weight otherwise than the module") as caught:
        qconfig.quantize_(model, QATConfig(IntxWeightOnlyConfig(DType.INT4), step="convert"))
    assert caught.value.fqn == "0.weight"
    assert isinstance(model[0], FakeQuantizedLinear)


def test_only_prepared_modules_convert():
    """CONVERT leaves modules alone that are not fake-quantized, and the plan says why."""
    plan = qconfig.plan(model_of(), QATConfig(Int8WeightOnlyConfig(), step="convert"))
    assert plan.entries[0].reason == "the module is not prepared for training"


def test_the_plan_says_that_weights_stay_floats():
    """The plan of PREPARE says that its bytes are those of the end."""
    plan = qconfig.plan(model_of(), QATConfig(Int8WeightOnlyConfig()))
    assert any("weights stay floats while they are trained" in note for note in plan.notes)
    converted = qconfig.plan(model_of(), QATConfig(Int8WeightOnlyConfig(), step="convert"))
    assert not any("weights stay floats" in note for note in converted.notes)


def test_fake_quantizers_without_a_counterpart_are_refused():
    """Fake quantizers that no config could build are refused before anything is trained."""
    config = QATConfig(weight_config=IntxFakeQuantizeConfig(DType.UINT4, PerGroup(32)))
    with pytest.raises((BuildError, PlanError), match="no config builds what these fake quant"):
        qconfig.quantize_(model_of(), config)


def test_the_model_itself_cannot_be_exchanged():
    """A model that is one Linear has no place to put another module in."""
    with pytest.raises(BuildError, match="changes the module, which is the model itself"):
        qconfig.quantize_(nn.Linear(64, 32), QATConfig(Int8WeightOnlyConfig()))


def test_checkpoints_cannot_be_trained():
    """A weight without a module is refused, with the config to use instead."""
    builder = qconfig.builders.base.builder_of(QATConfig(Int8WeightOnlyConfig()))
    with pytest.raises(BuildError, match="training needs the modules of a live model") as caught:
        builder.build(QATConfig(Int8WeightOnlyConfig()), torch.ones(2, 2))
    assert caught.value.hint == "quantize the checkpoint with Int8WeightOnlyConfig"
