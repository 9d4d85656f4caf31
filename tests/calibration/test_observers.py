import numpy as np
import pytest
import torch

from qconfig import CalibrationConfig, Observer, PerAxis, PerTensor, calibrate
from qconfig.calibration.histogram import CHANNEL_BINS, TENSOR_BINS
from qconfig.codec.dtypes import DType
from qconfig.configs.choices import MappingType
from qconfig.tensors.activation_qparams import choose_activation_qparams, kept
from tests.calibration.models import batches, one_linear

CHANNELS = PerAxis(-1)
GRANULARITIES = {"tensor": (PerTensor(), (0, 1)), "channel": (CHANNELS, (0,))}
by_granularity = pytest.mark.parametrize("granularity", GRANULARITIES)
by_mapping = pytest.mark.parametrize("mapping", MappingType)


def observed(granularity, mapping=MappingType.SYMMETRIC, data=None, **settings):
    """Return what is seen of a linear's input and output, its batches and its outputs."""
    model, data = one_linear(), batches() if data is None else data
    config = CalibrationConfig(
        granularity=GRANULARITIES[granularity][0],
        mapping_type=mapping,
        output_granularity=GRANULARITIES[granularity][0],
        output_mapping_type=mapping,
        **settings,
    )
    with torch.no_grad():
        outputs = [model(x) for x in data]
    return calibrate(model, data, config).layer("0"), data, outputs


def assert_qparams(found, zero, low, high, mapping, dtype=DType.INT8):
    """Compare scale and zero point with those of a range, bit for bit."""
    scale, zero_point = choose_activation_qparams(low, high, mapping, dtype)
    assert torch.equal(found, scale)
    assert (zero is None) == (zero_point is None)
    assert zero is None or torch.equal(zero, zero_point)


@by_granularity
@by_mapping
def test_min_max_is_that_of_all_batches(granularity, mapping):
    """Scales of inputs and outputs are exactly those of the batches in one piece."""
    layer, data, outputs = observed(granularity, mapping)
    dims = GRANULARITIES[granularity][1]
    for parts, scale, zero in (
        (data, layer.act_scale, layer.act_zero_point),
        (outputs, layer.output_scale, layer.output_zero_point),
    ):
        everything = torch.cat(parts)
        assert_qparams(scale, zero, everything.amin(dims), everything.amax(dims), mapping)


def test_statistics_of_channels():
    """Extremes are exact; the mean of |x| is that of all rows."""
    layer, data, _ = observed("tensor", observer=Observer.RUNNING)
    everything = torch.cat(data)
    assert torch.equal(layer.act_min, everything.amin(0))
    assert torch.equal(layer.act_max, everything.amax(0))
    assert torch.equal(layer.act_absmax, everything.abs().amax(0))
    mean = everything.double().abs().mean(0)
    assert torch.allclose(layer.act_absmean.double(), mean, rtol=1e-6, atol=0)
    assert layer.rows == everything.shape[0]


@by_granularity
@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9, 1.0])
def test_running_is_the_moving_average(granularity, momentum):
    """Each call pulls the range by 1 - momentum, from the first call on."""
    layer, data, _ = observed(
        granularity, MappingType.ASYMMETRIC, observer=Observer.RUNNING, momentum=momentum
    )
    dims = GRANULARITIES[granularity][1]
    low, high = data[0].amin(dims), data[0].amax(dims)
    for x in data[1:]:
        low = low + (1 - momentum) * (x.amin(dims) - low)
        high = high + (1 - momentum) * (x.amax(dims) - high)
    assert_qparams(layer.act_scale, layer.act_zero_point, low, high, MappingType.ASYMMETRIC)


@by_granularity
@pytest.mark.parametrize("percentile", [90.0, 99.0, 99.9])
def test_percentile_is_within_one_bin(granularity, percentile):
    """The range lies within the documented error of numpy's percentiles over all batches."""
    layer, data, _ = observed(
        granularity, MappingType.ASYMMETRIC, observer=Observer.PERCENTILE, percentile=percentile
    )
    everything = torch.cat(data).double().numpy()
    axis, bins = (None, TENSOR_BINS) if granularity == "tensor" else (0, CHANNEL_BINS)
    high = np.percentile(everything, percentile, axis=axis, method="inverted_cdf")
    low = np.percentile(everything, 100 - percentile, axis=axis, method="inverted_cdf")
    bound = 2 * 4 / bins * np.abs(everything).max(axis=axis)
    span = np.maximum(high, 0) - np.minimum(low, 0)
    assert (np.abs(layer.act_scale.double().numpy() * 255 - span) <= bound + 1e-5).all()


def test_percentile_100_is_min_max():
    """Nothing is left out at 100 percent."""
    whole, _, _ = observed("channel", observer=Observer.PERCENTILE, percentile=100.0)
    exact, _, _ = observed("channel", observer=Observer.MIN_MAX)
    assert torch.equal(whole.act_scale, exact.act_scale)


def squared_error(values, low, high, mapping, dtype=DType.INT8):
    """Return the mean squared error of quantizing values with the range."""
    scale, zero = choose_activation_qparams(low, high, mapping, dtype)
    return float((kept(values, scale, zero, dtype) - values).double().square().mean())


@pytest.mark.parametrize("mapping", [MappingType.SYMMETRIC, MappingType.ASYMMETRIC])
def test_mse_finds_the_best_range(mapping):
    """Its error on the data itself is within 1 % of the best of all ranges that are tried."""
    generator = torch.Generator().manual_seed(5)
    data = [torch.randn(400, 24, generator=generator) for _ in range(3)]
    data[1][7, 3], data[2][11, 5] = 40.0, -25.0
    layer, _, _ = observed("tensor", mapping, data=data, observer=Observer.MSE)
    everything = torch.cat(data)
    low, high = everything.amin(), everything.amax()
    grid = [1 - i / 100 for i in range(81)]
    best = min(squared_error(everything, low * t, high * t, mapping) for t in grid)
    zero = layer.act_zero_point
    found = kept(everything, layer.act_scale, zero)
    assert float((found - everything).double().square().mean()) <= 1.01 * best
    assert best < squared_error(everything, low, high, mapping)


def test_mse_of_channels_is_each_channels_own():
    """An outlier in one channel shrinks the range of that channel only."""
    generator = torch.Generator().manual_seed(5)
    data = [torch.rand(40000, 24, generator=generator) - 0.5]
    data[0][7, 3] = 4.0
    layer, _, _ = observed("channel", data=data, observer=Observer.MSE)
    widest = data[0].abs().amax(0) / 127.5
    assert layer.act_scale[3] < 0.9 * widest[3]
    others = torch.arange(24) != 3
    assert (layer.act_scale[others] > 0.9 * widest[others]).all()


@pytest.mark.parametrize("observer", Observer)
@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_float8_scales(observer, dtype):
    """Every observer gives float8 scales; min-max gives the largest |x| over the largest code."""
    layer, data, _ = observed("tensor", observer=observer, quant_dtype=dtype)
    assert layer.quant_dtype == dtype
    peak = torch.cat(data).abs().amax()
    largest = torch.finfo(DType(dtype).to_torch()).max
    assert 0 < layer.act_scale <= peak / largest
    if observer is Observer.MIN_MAX:
        assert layer.act_scale == peak / largest


@pytest.mark.parametrize("observer", Observer)
@by_granularity
def test_channels_without_signal(observer, granularity):
    """Zeros alone give positive, finite scales in every observer."""
    data = [torch.zeros(5, 24), torch.zeros(3, 24)]
    layer, _, _ = observed(granularity, observer=observer, data=data)
    assert (layer.act_scale > 0).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("observer", Observer)
def test_other_types_are_observed_in_float32(dtype, observer):
    """Scales of half and double precision are those of the same values in float32."""
    data = [x.to(dtype) for x in batches()]
    config = CalibrationConfig(observer=observer, granularity=CHANNELS)
    found = calibrate(one_linear(dtype=dtype), data, config).layer("0")
    same = calibrate(one_linear(), [x.float() for x in data], config).layer("0")
    assert torch.equal(found.act_scale, same.act_scale)
    assert found.act_sample.dtype == dtype


def test_large_inputs_are_seen_whole():
    """Inputs of more elements than are worked on at a time are counted to the last row."""
    data = [torch.randn(3, 20000, 24) for _ in range(2)]
    layer, _, _ = observed("tensor", data=data, observer=Observer.PERCENTILE, percentile=100.0)
    everything = torch.cat(data).reshape(-1, 24)
    assert torch.allclose(layer.act_absmean, everything.abs().mean(0), rtol=1e-5)
    assert layer.act_scale == everything.abs().amax() / 127.5
