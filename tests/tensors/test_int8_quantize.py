import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.profiler import ProfilerActivity

from qconfig.configs import PerAxis, PerGroup, PerRow, PerTensor
from qconfig.errors import BuildError
from qconfig.tensors.int8_quantize import quantize_int8
from tests.tensors.samples import FLOATS, GRANULARITIES, float_weight
from tests.tensors.torchao_peer import torchao_int8


def theirs(weight, granularity):
    """Return torchao's tensor for one of our granularities."""
    tensor_class, module = torchao_int8()
    peer = {
        PerRow: lambda g: module.PerRow(g.dim),
        PerTensor: lambda _: module.PerTensor(),
        PerGroup: lambda g: module.PerGroup(g.group_size),
        PerAxis: lambda g: module.PerAxis(g.axis),
    }[type(granularity)](granularity)
    return tensor_class.from_hp(weight, peer)


def assert_equal_to_torchao(weight, granularity):
    """Compare codes and scales bit for bit."""
    codes, scale = quantize_int8(weight, granularity.block_of(tuple(weight.shape)))
    peer = theirs(weight.contiguous(), granularity)
    assert torch.equal(codes, peer.qdata)
    assert torch.equal(scale, peer.scale)
    assert not peer.zero_point.any()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(24, 64), (3, 8, 64)])
@pytest.mark.parametrize("name", GRANULARITIES)
@pytest.mark.parametrize("magnitude", [1, 300, 1e-5, 1e-9])
def test_codes_and_scales_are_torchaos(dtype, shape, name, magnitude):
    """Every granularity, type and rank gives torchao's bits, with rows of zeros among them."""
    weight = (float_weight(*shape) * magnitude).to(dtype)
    weight[..., 0, :] = 0
    assert_equal_to_torchao(weight, GRANULARITIES[name])


def test_a_second_axis_is_torchaos():
    """PerAxis(1) of a 3-D weight, whose blocks lie scattered, gives torchao's bits."""
    assert_equal_to_torchao(float_weight(3, 8, 64), PerAxis(1))


@pytest.mark.parametrize("name", GRANULARITIES)
@pytest.mark.parametrize("shape", [(24, 64), (3, 8, 64)])
def test_small_buffers_change_nothing(monkeypatch, name, shape):
    """However few rows the buffer holds, the bits are the same."""
    size_of = "qconfig.tensors.int8_quantize.slab_elements"
    for elements in (1, 64, 200):
        monkeypatch.setattr(size_of, lambda *_, size=elements, **__: size)
        assert_equal_to_torchao(float_weight(*shape, dtype=torch.bfloat16), GRANULARITIES[name])


@pytest.mark.parametrize("name", GRANULARITIES)
def test_strided_weights(name):
    """A transposed or sliced weight gives the bits of its contiguous copy."""
    assert_equal_to_torchao(float_weight(64, 24).t(), GRANULARITIES[name])
    assert_equal_to_torchao(float_weight(48, 128)[::2, 32:96], GRANULARITIES[name])


@given(
    st.lists(st.floats(width=16, allow_nan=False, allow_infinity=False), min_size=8, max_size=8),
    st.sampled_from(FLOATS),
)
def test_any_finite_values(values, dtype):
    """Any finite values, halves and subnormal ones too, give torchao's bits."""
    weight = torch.tensor(values).view(2, 4).to(dtype)
    assert_equal_to_torchao(weight, PerRow())


def test_float64_follows_the_formula():
    """float64, which torchao refuses, is rounded from the product in float64."""
    weight = float_weight(dtype=torch.float64)
    codes, scale = quantize_int8(weight, (1, 64))
    expected = (weight.abs().amax(1, keepdim=True) / 127.5).float()
    assert torch.equal(scale, expected)
    exact = weight * (1.0 / expected)
    assert torch.equal(codes, exact.round().clamp(-128, 127).to(torch.int8))


def test_error_is_half_a_step():
    """No value is further than half a step from its code, but the largest, which clamps."""
    weight = float_weight()
    codes, scale = quantize_int8(weight, (1, 64))
    error = (codes * scale - weight).abs() / scale
    assert error[codes < 127].max() <= 0.5 + 1e-5
    assert error.max() <= 0.5 + 1e-5


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("name", GRANULARITIES)
def test_values_that_are_not_finite_are_named(value, name):
    """NaN and infinity are refused with count and first index."""
    weight = float_weight(dtype=torch.bfloat16)
    weight[3, 17] = value
    weight[9, 0] = value
    with pytest.raises(BuildError) as caught:
        quantize_int8(weight, GRANULARITIES[name].block_of((32, 64)))
    assert caught.value.message == (
        "the weight holds 2 values that are NaN or infinite, the first at [3, 17]"
    )


@pytest.mark.parametrize("shape", [(0, 64), (0, 8, 64), (3, 0, 64)])
def test_empty_weights(shape):
    """A weight without rows has no scales."""
    codes, scale = quantize_int8(torch.empty(shape), (*(1 for _ in shape[:-1]), 64))
    assert codes.shape == shape
    assert scale.numel() == 0


def test_the_weight_is_left_alone():
    """Neither values nor a pending gradient of the weight are touched."""
    weight = float_weight().requires_grad_()
    before = weight.detach().clone()
    codes, scale = quantize_int8(weight, (1, 64))
    assert torch.equal(weight, before)
    assert not codes.requires_grad
    assert not scale.requires_grad


def test_scales_beyond_float32_are_refused():
    """A float64 weight whose scale float32 cannot hold is refused as such."""
    weight = torch.full((2, 4), 1e300, dtype=torch.float64)
    with pytest.raises(BuildError, match="too large for scales in float32"):
        quantize_int8(weight, (1, 4))


@pytest.mark.parametrize("name", GRANULARITIES)
def test_temporaries_are_small(name):
    """Beside codes and scales, less than a quarter of the weight's bytes are alive at any time."""
    weight = float_weight(1024, 1024, dtype=torch.bfloat16)
    block = GRANULARITIES[name].block_of((1024, 1024))
    with torch.profiler.profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profile:
        codes, scale = quantize_int8(weight, block)
    live = peak = 0
    events = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
    for event in sorted(events, key=lambda e: e.start_ns()):
        live += event.nbytes()
        peak = max(peak, live)
    assert peak - codes.nbytes - scale.nbytes < weight.nbytes / 4
