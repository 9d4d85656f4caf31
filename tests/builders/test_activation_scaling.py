import copy

import pytest
import torch
from torch import nn
from torch.nn import functional

from qconfig import (
    AWQConfig,
    Int8StaticActivationIntxWeightConfig,
    Int8WeightOnlyConfig,
    PerGroup,
    PerRow,
    PerTensor,
    SmoothQuantConfig,
    calibrate,
    quantize_,
)
from qconfig.builders.activation_scaling import scaled_calibration
from qconfig.builders.base import Target, builder_of
from qconfig.builders.layer_calibration import LayerCalibration
from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import TensorSpec
from qconfig.configs.choices import MappingType
from qconfig.errors import BuildError, FieldError
from qconfig.tensors import Int8Tensor
from qconfig.tensors.activation_qparams import choose_activation_qparams
from tests.calibration.models import batches, one_linear
from tests.tensors.torchao_peer import torchao_int8

torchao_int8()  # imports torchao without its notes
from torchao.prototype.awq import AWQConfig as TorchaoAWQ  # noqa: E402
from torchao.prototype.smoothquant import SmoothQuantConfig as TorchaoSmoothQuant  # noqa: E402
from torchao.quantization import Int8WeightOnlyConfig as TorchaoInt8  # noqa: E402
from torchao.quantization import quantize_ as torchao_quantize_  # noqa: E402

BASE = Int8WeightOnlyConfig()
SCHEMES = {"awq": AWQConfig, "smoothquant": SmoothQuantConfig}
by_scheme = pytest.mark.parametrize("scheme", SCHEMES)


def case(seed, dtype, bias=True):
    """Return a model of one linear with uneven inputs, and its batches."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(64, 48, bias=bias)).to(dtype)
    spread = torch.linspace(0.05, 20, 64) ** 2
    return model, [(torch.randn(n, 64) * spread).to(dtype) for n in (17, 23)]


def built(config, model, data):
    """Return the quantized weight of the linear."""
    layer = calibrate(model, data).layer("0")
    return builder_of(config).build(config, model[0].weight, layer)


def torchaos(scheme, model, data):
    """Return the model as torchao quantizes it."""
    peer = copy.deepcopy(model)
    config = {"awq": TorchaoAWQ, "smoothquant": TorchaoSmoothQuant}[scheme]
    torchao_quantize_(peer, config(TorchaoInt8(version=2), step="prepare"))
    for x in data:
        peer(x)
    torchao_quantize_(peer, config(TorchaoInt8(version=2), step="convert"))
    return peer


@by_scheme
@pytest.mark.parametrize("seed", range(4))
def test_scales_are_torchaos(scheme, seed):
    """In float32 the chosen factors agree with torchao 0.18's to rounding, and codes with them."""
    model, data = case(seed, torch.float32, bias=scheme == "awq")
    mine = built(SCHEMES[scheme](BASE), model, data)
    peer = torchaos(scheme, model, data)[0].weight
    assert torch.allclose(mine.act_pre_scale, peer.act_pre_scale, rtol=1e-6, atol=0)
    assert torch.allclose(mine.scale, peer.scale, rtol=1e-5)
    assert (mine.qdata != peer.qdata).float().mean() < 0.01
    assert (mine.qdata.int() - peer.qdata.int()).abs().max() <= 1


def exact_error(tensor, x, weight):
    """Return the mean squared error of a quantized weight's outputs, no product rounded."""
    factor = 1.0 if tensor.act_pre_scale is None else tensor.act_pre_scale.double()
    outputs = (x.double() * factor) @ tensor.dequantize(torch.float32).double().T
    return float((outputs - x.double() @ weight.double().T).square().mean())


@by_scheme
@pytest.mark.parametrize("seed", range(6))
def test_bfloat16_is_no_worse_than_torchaos(scheme, seed):
    """Where factors are rounded, the weight is divided by what the activation is multiplied by."""
    model, data = case(seed, torch.bfloat16, bias=scheme == "awq")
    x, weight = torch.cat(data), model[0].weight.detach()
    mine = built(SCHEMES[scheme](BASE), model, data)
    peer = torchaos(scheme, model, data)[0].weight
    assert exact_error(mine, x, weight) <= exact_error(peer, x, weight)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    "granularity", [PerRow(), PerGroup(16), PerTensor()], ids=["row", "group", "tensor"]
)
def test_awq_helps_where_salient_channels_have_small_weights(granularity, dtype):
    """With a few large inputs and large weights elsewhere, the error falls to less than half."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 48, bias=False))
    model[0].weight.data[:, 8::16] *= 10
    x = torch.randn(40, 64)
    x[:, :3] *= 30
    model, x = model.to(dtype), x.to(dtype)
    base = Int8WeightOnlyConfig(granularity)
    weight = model[0].weight.detach()
    plain = exact_error(builder_of(base).build(base, weight), x, weight)
    assert exact_error(built(AWQConfig(base), model, [x]), x, weight) < 0.5 * plain


@by_scheme
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_the_result_is_one_tensor_as_announced(scheme, dtype):
    """Class and layout are the base config's, with a factor that was announced."""
    model, data = case(0, dtype)
    config = SCHEMES[scheme](BASE)
    tensor = built(config, model, data)
    target = Target("0.weight", (48, 64), DType.parse(dtype), ("Linear",))
    announced = builder_of(config).layout(config, target)
    assert type(tensor) is Int8Tensor
    assert announced.act_pre_scale == TensorSpec(DType.parse(dtype), (64,))
    assert tensor.act_pre_scale.dtype == dtype
    assert tensor.act_pre_scale.shape == (64,)


@by_scheme
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("spoil", ["dead inputs", "dead columns", "both", "all dead", "huge"])
def test_dead_channels_stay_finite(scheme, dtype, spoil):
    """Channels without signal and columns of zeros have finite factors, and so have outputs."""
    model, data = case(0, dtype)
    x = torch.cat(data) / 16
    if spoil in ("dead inputs", "both"):
        x[:, :5] = 0
    if spoil in ("dead columns", "both"):
        model[0].weight.data[:, 3:9] = 0
    if spoil == "all dead":
        x[:] = 0
    if spoil == "huge":
        x[:, 7] *= 1000
    tensor = built(SCHEMES[scheme](BASE), model, [x])
    assert tensor.act_pre_scale.isfinite().all()
    assert (tensor.act_pre_scale > 0).all()
    with torch.no_grad():
        wanted = model[0](x)
        found = functional.linear(x, tensor, model[0].bias)
    assert found.isfinite().all()
    assert (found - wanted).abs().max() <= 0.05 * wanted.abs().max()


def test_smoothquant_is_its_formula():
    """The factor is max|w| ** (1 - a) / max|x| ** a."""
    model, data = case(0, torch.float32)
    for alpha in (0.0, 0.3, 1.0):
        tensor = built(SmoothQuantConfig(BASE, alpha=alpha), model, data)
        peak, largest = torch.cat(data).abs().amax(0), model[0].weight.detach().abs().amax(0)
        expected = largest ** (1 - alpha) / peak**alpha
        assert torch.allclose(tensor.act_pre_scale, expected, rtol=1e-4)


def test_smoothquant_without_alpha_is_the_base():
    """With alpha null nothing is scaled, and nothing needs to be observed."""
    config, weight = SmoothQuantConfig(BASE, alpha=None), one_linear()[0].weight
    builder = builder_of(config)
    assert not builder.needs_calibration(config)
    tensor = builder.build(config, weight)
    assert tensor.act_pre_scale is None
    assert torch.equal(tensor.qdata, builder_of(BASE).build(BASE, weight).qdata)
    target = Target("0.weight", (8, 24), DType.FLOAT32, ("Linear",))
    assert builder.layout(config, target).act_pre_scale is None


@by_scheme
@pytest.mark.parametrize(
    ("shape", "module", "reason"),
    [
        ((3, 32, 64), "Experts", "rank 3 is not 2"),
        ((32, 64), "Embedding", "module class Embedding has no calibrated product"),
        ((32,), "Linear", "rank 1 is not 2"),
    ],
)
def test_only_linears_are_served(scheme, shape, module, reason):
    """What has no activations that were observed is left alone, with the reason."""
    config = SCHEMES[scheme](BASE)
    target = Target("m.weight", shape, DType.FLOAT32, (module,))
    assert builder_of(config).refusal(config, target) == reason


@by_scheme
def test_a_base_without_factor_is_refused_by_name(scheme):
    """A base config whose tensors cannot scale activations is an error of the plan."""
    config = SCHEMES[scheme](Int8StaticActivationIntxWeightConfig())
    with pytest.raises(
        BuildError, match="tensors of Int8StaticActivationIntxWeightConfig"
    ) as caught:
        builder_of(config).layout(config, Target("m.weight", (32, 64), DType.FLOAT32, ("Linear",)))
    assert caught.value.pointer == "/base_config"
    assert caught.value.found == "'IntxStaticActivationTensorLayout'"


@by_scheme
def test_problems_of_the_base_are_its_own(scheme):
    """A group size that does not divide K is told with the pointer into the base config."""
    config = SCHEMES[scheme](Int8WeightOnlyConfig(PerGroup(48)))
    with pytest.raises(FieldError) as caught:
        builder_of(config).layout(config, Target("m.weight", (32, 64), DType.FLOAT32, ("Linear",)))
    assert caught.value.pointer == "/base_config/group_size"


@by_scheme
@pytest.mark.parametrize(
    ("calibration", "message"),
    [
        (None, "activations of the layer were not observed"),
        (LayerCalibration(act_scale=torch.ones(())), "activations of the layer were not observed"),
        (
            LayerCalibration(
                act_absmax=torch.ones(3), act_absmean=torch.ones(3), act_sample=torch.ones(1, 3)
            ),
            "the calibration is of another layer",
        ),
    ],
)
def test_what_was_not_observed_is_said(scheme, calibration, message):
    """Without what the search needs, or with that of another layer, nothing is built."""
    config = SCHEMES[scheme](BASE)
    with pytest.raises(BuildError, match=message):
        builder_of(config).build(config, one_linear()[0].weight, calibration)


@by_scheme
def test_weights_that_are_not_finite_are_refused(scheme):
    """NaN in a weight is refused with its count and place."""
    model = one_linear()
    layer = calibrate(model, batches()).layer("0")
    model[0].weight.data[2, 3] = float("nan")
    config = SCHEMES[scheme](BASE)
    with pytest.raises(BuildError, match=r"1 values that are NaN or infinite.*\[2, 3\]"):
        builder_of(config).build(config, model[0].weight, layer)


@by_scheme
def test_building_is_deterministic_and_leaves_the_weight(scheme):
    """Twice the same bits, and the float weight as it was."""
    model, data = case(0, torch.bfloat16)
    before = model[0].weight.detach().clone()
    first, second = (built(SCHEMES[scheme](BASE), model, data) for _ in range(2))
    assert torch.equal(first.qdata, second.qdata)
    assert torch.equal(first.act_pre_scale, second.act_pre_scale)
    assert torch.equal(model[0].weight, before)


@pytest.mark.parametrize("mapping", [MappingType.SYMMETRIC, MappingType.ASYMMETRIC])
def test_scaled_calibration_is_that_of_scaled_inputs(mapping):
    """What is carried over equals what would have been observed of scaled activations."""
    from qconfig import CalibrationConfig, PerAxis

    data = batches()
    factor = torch.exp2(torch.arange(24) % 5 - 2.0)
    for granularity in (PerTensor(), PerAxis(-1)):
        config = CalibrationConfig(granularity=granularity, mapping_type=mapping)
        found = scaled_calibration(calibrate(one_linear(), data, config).layer("0"), factor)
        wanted = calibrate(one_linear(), [x * factor for x in data], config).layer("0")
        for name in ("act_scale", "act_min", "act_max", "act_absmax", "act_absmean", "act_sample"):
            assert torch.equal(getattr(found, name), getattr(wanted, name)), name
        if mapping is MappingType.ASYMMETRIC:
            assert torch.equal(found.act_zero_point, wanted.act_zero_point)


def test_scaled_calibration_without_extremes():
    """From max|x| alone the scale is that of the symmetric range; from nothing it is an error."""
    factor = torch.tensor([2.0, 0.5])
    known = LayerCalibration(act_scale=torch.ones(()), act_absmax=torch.tensor([3.0, 4.0]))
    low, high = torch.tensor(-6.0), torch.tensor(6.0)
    expected, _ = choose_activation_qparams(low, high, MappingType.SYMMETRIC)
    assert scaled_calibration(known, factor).act_scale == expected
    with pytest.raises(BuildError, match="cannot be carried over"):
        scaled_calibration(LayerCalibration(act_scale=torch.ones(())), factor)


@by_scheme
def test_two_lines(scheme):
    """Calibrate, quantize: the model's outputs are close to what they were."""
    model, data = case(0, torch.float32)
    with torch.no_grad():
        wanted = model(data[0])
    calibration = calibrate(model, data)
    quantize_(model, SCHEMES[scheme](BASE), calibration=calibration)
    assert (model(data[0]) - wanted).abs().max() < 0.02 * wanted.abs().max()
    assert model[0].weight.act_pre_scale is not None
