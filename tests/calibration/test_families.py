import copy

import pytest
import torch
from torch import nn

from qconfig import (
    AWQConfig,
    CalibrationConfig,
    Float8StaticActivationFloat8WeightConfig,
    Int4ChooseQParamsAlgorithm,
    Int4WeightOnlyConfig,
    Int8DynamicActivationInt8WeightConfig,
    Int8StaticActivationInt8WeightConfig,
    Int8StaticActivationIntxWeightConfig,
    Int8WeightOnlyConfig,
    MappingType,
    PerGroup,
    PerRow,
    PerTensor,
    SmoothQuantConfig,
    calibrate,
    quantize_,
)
from qconfig.builders.base import builder_of
from tests.tensors.torchao_peer import torchao_int8

_, peer_granularity = torchao_int8()
from torchao.prototype.smoothquant import SmoothQuantConfig as TorchaoSmoothQuant  # noqa: E402
from torchao.quantization import (  # noqa: E402
    Int8DynamicActivationInt8WeightConfig as TorchaoDynamic,
)
from torchao.quantization import quantize_ as torchao_quantize_  # noqa: E402
from torchao.quantization.quant_api import (  # noqa: E402
    Int8StaticActivationInt8WeightConfig as TorchaoStatic,
)

ASYMMETRIC = MappingType.ASYMMETRIC
HQQ = Int4ChooseQParamsAlgorithm.HQQ
BASES = {
    "int8": Int8WeightOnlyConfig(),
    "int8 groups": Int8WeightOnlyConfig(PerGroup(32)),
    "int4": Int4WeightOnlyConfig(group_size=32),
    "int4 hqq": Int4WeightOnlyConfig(group_size=32, int4_choose_qparams_algorithm=HQQ),
    "int8 dynamic": Int8DynamicActivationInt8WeightConfig(),
    "int8 static": Int8StaticActivationInt8WeightConfig(),
}
# Config, how it is calibrated, and the largest relative error of the outputs.
STATIC = {
    "int8": (Int8StaticActivationInt8WeightConfig(), CalibrationConfig(), 0.1),
    "int8 asymmetric": (
        Int8StaticActivationInt8WeightConfig(act_mapping_type=ASYMMETRIC),
        CalibrationConfig(mapping_type=ASYMMETRIC),
        0.1,
    ),
    "int8 of 7 bits": (
        Int8StaticActivationInt8WeightConfig(reduce_range=True),
        CalibrationConfig(reduce_range=True),
        0.2,
    ),
    "smoothed asymmetric": (
        SmoothQuantConfig(Int8StaticActivationInt8WeightConfig(act_mapping_type=ASYMMETRIC)),
        CalibrationConfig(mapping_type=ASYMMETRIC),
        0.02,
    ),
    "intx": (Int8StaticActivationIntxWeightConfig(), CalibrationConfig(), 0.1),
    "intx with output": (
        Int8StaticActivationIntxWeightConfig(quantize_and_dequantize_output=True),
        CalibrationConfig(output_granularity=PerTensor()),
        0.1,
    ),
    "float8": (
        Float8StaticActivationFloat8WeightConfig(),
        CalibrationConfig(quant_dtype="float8_e4m3fn"),
        0.08,
    ),
}


def case(dtype):
    """Return a model with a few large inputs and large weights elsewhere, and its batches."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(256, 128), nn.GELU(), nn.Linear(128, 64))
    model[0].weight.data[:, 8::16] *= 8
    x = torch.randn(64, 256)
    x[:, :4] *= 20
    return model.to(dtype), list(x.to(dtype).split(32))


def relative_error(config, calibration, model, batches):
    """Return how far outputs are from those of the float model."""
    quantized = copy.deepcopy(model)
    quantize_(quantized, config, calibration=calibration)
    x = torch.cat(batches)
    with torch.no_grad():
        wanted, found = model(x).double(), quantized(x).double()
    return float((found - wanted).norm() / wanted.norm())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("scheme", [AWQConfig, SmoothQuantConfig])
@pytest.mark.parametrize("base", BASES)
def test_scaling_activations_halves_the_error(base, scheme, dtype):
    """With every base config the outputs come closer to the float ones than without scaling."""
    model, batches = case(dtype)
    calibration = calibrate(model, batches)
    plain, scaled = (
        relative_error(config, calibration, model, batches)
        for config in (BASES[base], scheme(BASES[base]))
    )
    assert scaled < 0.6 * plain


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", STATIC)
def test_static_scales_come_from_calibration(name, dtype):
    """A config without scales takes those that were observed, and the model keeps its meaning."""
    config, settings, bound = STATIC[name]
    model, batches = case(dtype)
    calibration = calibrate(model, batches, settings)
    assert relative_error(config, calibration, model, batches) < bound


@pytest.mark.parametrize("static", [False, True])
def test_smoothed_int8_products_are_torchaos(static):
    """With quantized activations codes, factors and static scales equal torchao's in every bit."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 48, bias=False))
    x = torch.randn(40, 64) * torch.linspace(0.05, 20, 64) ** 2
    base, peer_base = Int8DynamicActivationInt8WeightConfig(), TorchaoDynamic(version=2)
    if static:
        base = Int8StaticActivationInt8WeightConfig(granularity=(PerTensor(), PerRow()))
        pair = [peer_granularity.PerTensor(), peer_granularity.PerRow()]
        peer_base = TorchaoStatic(granularity=pair)
    config = SmoothQuantConfig(base)
    mine = builder_of(config).build(config, model[0].weight, calibrate(model, [x]).layer("0"))
    torchao_quantize_(model, TorchaoSmoothQuant(peer_base, step="prepare"))
    model(x)
    torchao_quantize_(model, TorchaoSmoothQuant(peer_base, step="convert"))
    peer = model[0].weight
    for field in ("qdata", "scale", "act_pre_scale", "act_quant_scale"):
        found, expected = getattr(mine, field), getattr(peer, field)
        assert (found is None) == (expected is None), field
        assert found is None or torch.equal(found, expected), field
