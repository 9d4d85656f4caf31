"""Fake-quantized modules compared with those of torchao 0.18."""

import pytest
import torch
from torch import nn

import qconfig
from qconfig.codec.dtypes import DType
from qconfig.configs import PerAxis, PerGroup, PerToken
from qconfig.configs.choices import MappingType
from qconfig.configs.intx import Int8DynamicActivationIntxWeightConfig, IntxWeightOnlyConfig
from qconfig.configs.qat import IntxFakeQuantizeConfig, QATConfig
from tests.tensors.torchao_peer import quiet_torchao

WEIGHT_INT4 = IntxFakeQuantizeConfig(DType.INT4, PerGroup(32))
TOKENS = IntxFakeQuantizeConfig(DType.INT8, PerToken(), MappingType.ASYMMETRIC)


def model_of():
    """Return two linears, the same each time."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 64))


def peer_config(name):
    """Return torchao's config of that name."""
    with quiet_torchao():
        from torchao.quantization import Int8DynamicActivationIntxWeightConfig as Dynamic
        from torchao.quantization import IntxWeightOnlyConfig as WeightOnly
        from torchao.quantization.granularity import PerAxis as Axis
        from torchao.quantization.granularity import PerGroup as Group
        from torchao.quantization.qat import IntxFakeQuantizeConfig as Fake
        from torchao.quantization.qat import QATConfig as Training
    return {
        "base": lambda: Training(Dynamic(torch.int4, Group(32)), step="prepare"),
        "weight only": lambda: Training(WeightOnly(torch.int4, Axis(0)), step="prepare"),
        "fake quantizers": lambda: Training(
            activation_config=Fake(torch.int8, "per_token", is_symmetric=False),
            weight_config=Fake(torch.int4, group_size=32),
            step="prepare",
        ),
    }[name]()


OURS = {
    "base": QATConfig(Int8DynamicActivationIntxWeightConfig(DType.INT4)),
    "weight only": QATConfig(IntxWeightOnlyConfig(DType.INT4, PerAxis(0))),
    "fake quantizers": QATConfig(activation_config=TOKENS, weight_config=WEIGHT_INT4),
}


@pytest.mark.parametrize("name", OURS)
def test_prepared_models_compute_the_same(name):
    """The forward of a prepared model has torchao's bits."""
    ours, theirs = model_of(), model_of()
    qconfig.quantize_(ours, OURS[name])
    with quiet_torchao():
        from torchao.quantization import quantize_

        quantize_(theirs, peer_config(name))
    x = torch.randn(5, 64, generator=torch.Generator().manual_seed(1))
    assert torch.equal(ours(x), theirs(x))


def test_gradients_differ_where_codes_are_clamped():
    """Gradients are torchao's but for clamped codes, where it has none and ours pass through."""
    ours, theirs = model_of()[:1], model_of()[:1]
    qconfig.quantize_(ours, OURS["weight only"])
    with quiet_torchao():
        from torchao.quantization import quantize_

        quantize_(theirs, peer_config("weight only"))
    weight = ours[0].weight.detach()
    packed = ours[0].fake_quantizer.packed(weight)
    codes = (weight * (1 / packed.scale)).round()
    clamped = (codes > 7) | (codes < -8)
    for model in (ours, theirs):
        model(torch.ones(1, 64)).sum().backward()
    assert clamped.any()
    assert torch.equal(ours[0].weight.grad, torch.ones(32, 64))
    assert torch.allclose(theirs[0].weight.grad, torch.where(clamped, 0.0, 1.0))
