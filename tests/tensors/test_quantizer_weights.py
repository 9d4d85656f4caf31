import attrs
import pytest
import torch

from qconfig.configs.granularity import PerAxis
from qconfig.configs.groupwise_quant import GroupwiseIntQuantConfig
from qconfig.configs.int_quant import IntQuantConfig
from qconfig.configs.quant_choices import RoundingMode, ScaleKind, ScaleStatistic
from qconfig.tensors.quantizers import first_threshold, first_zero_point, quantize_weight
from tests.brevitas_peer import layer_with, quantized_weight, stored_parts
from tests.tensors.quantizer_pairs import WEIGHTS, mx, scaled_int
from tests.tensors.quantizer_samples import WEIGHTS_OF, same_bits

IDS = [pair.name for pair in WEIGHTS]
# In float16, zeros and tiny weights make Brevitas divide by 0, and it adds 2**-14 before log2.
EXACT = [
    (dtype, case)
    for dtype in (torch.float32, torch.bfloat16)
    for case in ("mixed", "zeros", "small", "negative", "nan")
]
HALF = [pair for pair in WEIGHTS if pair.format != "FINITE_E5M2"]  # float16 does not hold it
CASES = [(pair, *case) for pair in WEIGHTS for case in EXACT]
CASES += [(pair, torch.float16, "ordinary") for pair in HALF]


@pytest.mark.parametrize(("pair", "dtype", "case"), CASES, ids=str)
def test_weights_are_those_of_brevitas(pair, dtype, case):
    """Value, scale and zero point of a weight agree in every bit, but for the sign of 0 in FNUZ."""
    weight = WEIGHTS_OF[case].to(dtype)
    expected = stored_parts(quantized_weight(pair.quantizer, weight, **pair.settings))
    found = quantize_weight(weight, pair.config)
    ignore_sign = (pair.format or "").startswith("FNUZ")
    for ours, theirs in zip(found, expected, strict=True):
        assert same_bits(ours, theirs, zeros_alike=ignore_sign)


@pytest.mark.parametrize("rounding", RoundingMode)
@pytest.mark.parametrize("bits", [1, 2, 3, 8, 16])
def test_roundings_are_those_of_brevitas(rounding, bits):
    """Every rounding mode, at widths from 1 to 16 bits."""
    weight = WEIGHTS_OF["halves"]
    settings = {"bit_width": bits, "float_to_int_impl_type": rounding.lower()}
    settings["narrow_range"] = False
    expected = quantized_weight(scaled_int.Int8WeightPerChannelFloat, weight, **settings)
    config = IntQuantConfig(bits, rounding=rounding, granularity=PerAxis(0))
    assert same_bits(quantize_weight(weight, config)[0], expected.value.detach())


@pytest.mark.parametrize(
    ("statistic", "low", "high"),
    [("percentile", None, 90.0), ("percentile_interval", 5.0, 95.0), ("min_max", None, None)],
)
@pytest.mark.parametrize("per", ["Tensor", "Channel"])
def test_statistics_are_those_of_brevitas(statistic, low, high, per):
    """Percentiles and ranges, of a weight and of its channels."""
    weight = WEIGHTS_OF["mixed"]
    quantizer = {
        "Tensor": scaled_int.Int8WeightPerTensorFloat,
        "Channel": scaled_int.Int8WeightPerChannelFloat,
    }[per]
    given = {"low_percentile": low, "high_percentile": high}
    given = {name: value for name, value in given.items() if value is not None}
    settings = {f"{name}_q": value for name, value in given.items()}
    expected = quantized_weight(quantizer, weight, scaling_stats_op=statistic, **settings)
    config = IntQuantConfig(
        narrow_range=True, scale_statistic=ScaleStatistic[statistic.upper()], **given
    )
    if per == "Channel":
        config = attrs.evolve(config, granularity=PerAxis(0))
    assert same_bits(quantize_weight(weight, config)[1], expected.scale.detach())


@pytest.mark.parametrize(
    ("kind", "shape"), [("Conv2d", (6, 4, 3, 3)), ("Conv1d", (5, 3, 7)), ("Linear", (7, 5))]
)
def test_weights_of_modules(kind, shape):
    """Kernels of any rank have a scale for each output channel, the first dimension."""
    weight = torch.randn(shape, generator=torch.Generator().manual_seed(3))
    expected = quantized_weight(scaled_int.Int8WeightPerChannelFloat, weight, kind)
    found = quantize_weight(weight, IntQuantConfig(narrow_range=True, granularity=PerAxis(0)))
    assert all(same_bits(a, b) for a, b in zip(found, stored_parts(expected), strict=True))


def test_weights_of_transposed_convolutions():
    """Their output channels are the second dimension, and their groups lie along the first."""
    weight = torch.randn(4, 6, 3, 3, generator=torch.Generator().manual_seed(3))
    quantizer = scaled_int.Int8WeightPerChannelFloat
    channels = quantized_weight(quantizer, weight, "ConvTranspose2d")
    groups = stored_parts(
        quantized_weight(mx.MXInt8Weight, weight, "ConvTranspose2d", group_size=3)
    )
    ours = quantize_weight(weight, IntQuantConfig(narrow_range=True, granularity=PerAxis(1)))
    grouped = quantize_weight(weight, GroupwiseIntQuantConfig(group_size=3, group_dim=0))
    assert all(same_bits(a, b) for a, b in zip(ours, stored_parts(channels), strict=True))
    assert all(same_bits(a, b) for a, b in zip(grouped, groups, strict=True))


@pytest.mark.parametrize("pair", WEIGHTS, ids=IDS)
def test_gradients_are_those_of_brevitas(pair):
    """Gradients of weight and learned threshold are Brevitas', at extremes and ties too."""
    weight = WEIGHTS_OF["ties"]
    layer = layer_with(pair.quantizer, weight, **pair.settings).train()
    layer.quant_weight()  # a learned scale begins
    _backward(layer.quant_weight())
    theirs = {n: p.grad for n, p in layer.named_parameters() if n.endswith("scaling_impl.value")}
    ours = weight.clone().requires_grad_()
    threshold = None
    if pair.config.scale_kind is ScaleKind.PARAMETER_FROM_STATS:
        threshold = torch.nn.Parameter(first_threshold(weight, pair.config))
    _differentiate(quantize_weight(ours, pair.config, threshold=threshold)[0])
    assert torch.equal(_gradient(ours), _gradient(layer.weight))
    if threshold is not None:
        assert torch.equal(_gradient(threshold), next(iter(theirs.values())))


def _backward(tensor):
    _differentiate(tensor.value_ if "group_size" in tensor._fields else tensor.value)


def _differentiate(value):
    factors = torch.arange(value.numel()).reshape(value.shape).cos()
    if value.requires_grad:
        (value * factors).sum().backward()


def _gradient(tensor):
    return torch.zeros_like(tensor) if tensor.grad is None else tensor.grad


@pytest.mark.parametrize("pair", WEIGHTS, ids=IDS)
def test_one_full_graph(pair):
    """A weight is quantized in one graph, forwards and backwards, with the same bits."""
    torch._dynamo.reset()
    compiled = torch.compile(quantize_weight, fullgraph=True, backend="aot_eager")
    weight = WEIGHTS_OF["ties"].clone().requires_grad_()
    expected = quantize_weight(weight, pair.config)
    found = compiled(weight, pair.config)
    assert all(same_bits(a.detach(), b.detach()) for a, b in zip(found, expected, strict=True))
    _differentiate(found[0])
    torch._dynamo.reset()


def test_fake_tensors():
    """Shapes and types come out without elements."""
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        weight = torch.empty(7, 37, dtype=torch.bfloat16)
        for pair in WEIGHTS:
            value, scale, _ = quantize_weight(weight, pair.config)
            assert value.dtype == scale.dtype == torch.bfloat16


def test_learned_zero_points_begin_with_statistics():
    """A threshold and a zero point that are learned give what the statistics give."""
    weight = WEIGHTS_OF["mixed"]
    fields = {"signed": False, "scale_statistic": "MIN_MAX", "granularity": PerAxis(0)}
    stats = IntQuantConfig(zero_point_kind="STATS", **fields)
    learned = IntQuantConfig(
        zero_point_kind="PARAMETER_FROM_STATS", scale_kind="PARAMETER_FROM_STATS", **fields
    )
    found = quantize_weight(
        weight,
        learned,
        threshold=first_threshold(weight, learned),
        zero_point=first_zero_point(weight, learned),
    )
    expected = quantize_weight(weight, stats)
    assert all(same_bits(a, b) for a, b in zip(found, expected, strict=True))


def test_learned_bit_widths_have_gradients():
    """The bounds of codes, and the levels of the scale, follow a bit width."""
    bits = torch.tensor(4.0, requires_grad=True)
    config = IntQuantConfig(4, learned_bit_width=True)
    quantize_weight(WEIGHTS_OF["ties"], config, bit_width=bits)[0].square().sum().backward()
    assert bits.grad is not None
    assert bits.grad != 0


@pytest.mark.parametrize("case", ["zeros", "tiny"])
@pytest.mark.parametrize("pair", HALF, ids=[pair.name for pair in HALF])
def test_scales_in_float16_are_never_zero(pair, case):
    """Zeros become zeros, and what is too small for a scale in float16 stays finite."""
    value, scale, zero_point = quantize_weight(WEIGHTS_OF[case].half(), pair.config)
    assert scale.isfinite().all()
    assert (scale > 0).all()
    assert value.isfinite().all()
    assert zero_point.isfinite().all()
