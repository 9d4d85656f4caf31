import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.profiler import ProfilerActivity

from qconfig.configs import PerBlock, PerRow
from qconfig.errors import BuildError
from qconfig.tensors.float8_quantize import quantize_float8
from tests.tensors.float8_samples import E4M3, E5M2, GRANULARITIES, bits, theirs
from tests.tensors.samples import FLOATS, float_weight


def assert_equal_to_torchao(weight, granularity, dtype=E4M3):
    """Compare codes and scales bit for bit."""
    codes, scale = quantize_float8(weight, granularity.block_of(tuple(weight.shape)), dtype)
    peer = theirs(weight.contiguous(), granularity, dtype)
    assert torch.equal(bits(codes), bits(peer.qdata))
    assert torch.equal(scale, peer.scale)


@pytest.mark.parametrize("codes", [E4M3, E5M2])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(48, 64), (3, 16, 64)])
@pytest.mark.parametrize("name", GRANULARITIES)
@pytest.mark.parametrize("magnitude", [1, 300, 0.1])
def test_codes_and_scales_are_torchaos(codes, dtype, shape, name, magnitude):
    """Every granularity, type and rank gives torchao's bits."""
    weight = (float_weight(*shape) * magnitude).to(dtype)
    assert_equal_to_torchao(weight, GRANULARITIES[name], codes)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_tiny_weights_are_torchaos(dtype):
    """Far below 1 the bits are torchao's as well."""
    assert_equal_to_torchao((float_weight() * 1e-20).to(dtype), PerRow())


def test_tiles_of_128_are_torchaos():
    """PerBlock((128, 128)) gives torchao's bits."""
    weight = float_weight(256, 384, dtype=torch.bfloat16)
    assert_equal_to_torchao(weight, PerBlock((128, 128)))


@pytest.mark.parametrize("name", GRANULARITIES)
@pytest.mark.parametrize("shape", [(48, 64), (3, 16, 64)])
@pytest.mark.parametrize("elements", [1, 64, 200, 2000])
def test_small_buffers_change_nothing(monkeypatch, name, shape, elements):
    """However few rows the buffer holds, the bits are the same."""
    size_of = "qconfig.tensors.float8_quantize.slab_elements"
    monkeypatch.setattr(size_of, lambda *_, **__: elements)
    assert_equal_to_torchao(float_weight(*shape, dtype=torch.bfloat16), GRANULARITIES[name])


@pytest.mark.parametrize("name", GRANULARITIES)
def test_strided_weights(name):
    """A transposed or sliced weight gives the bits of its contiguous copy."""
    assert_equal_to_torchao(float_weight(64, 48).t(), GRANULARITIES[name])
    assert_equal_to_torchao(float_weight(96, 128)[::2, 32:96], GRANULARITIES[name])


@given(
    st.lists(
        st.floats(2**-10, 8192, width=16) | st.floats(-8192, -(2**-10), width=16),
        min_size=8,
        max_size=8,
    ),
    st.sampled_from(FLOATS),
    st.sampled_from([E4M3, E5M2]),
)
def test_any_values(values, dtype, codes):
    """Any finite values, halves between codes too, give torchao's bits."""
    assert_equal_to_torchao(torch.tensor(values).view(2, 4).to(dtype), PerRow(), codes)


@pytest.mark.parametrize("codes", [E4M3, E5M2])
@pytest.mark.parametrize("dtype", [*FLOATS, torch.float64])
@pytest.mark.parametrize("name", GRANULARITIES)
def test_blocks_of_zeros_stay_zeros(codes, dtype, name):
    """A block of zeros has codes 0 and scale 1, where torchao has NaN and 0."""
    weight = float_weight(48, 64, dtype=dtype)
    weight[:16] = 0
    weight[:, :32] = 0
    qdata, scale = quantize_float8(weight, GRANULARITIES[name].block_of((48, 64)), codes)
    assert not bits(qdata[:16]).bitwise_and(0x7F).any()
    assert qdata.float().isfinite().all()
    assert scale.isfinite().all()
    largest = qdata.float().abs().amax()
    assert largest == torch.finfo(codes).max
    if name != "tensor":
        assert scale[0, 0] == 1


def test_what_float16_cannot_divide():
    """A float16 block whose scale float16 rounds to zero keeps its values all the same."""
    weight = torch.full((2, 4), 2e-6, dtype=torch.float16)
    codes, scale = quantize_float8(weight, (1, 4))
    assert not theirs(weight, PerRow()).scale.any()
    assert torch.equal((codes.float() * scale).half(), weight)


def test_scales_are_normal_numbers():
    """No scale is below the smallest normal float32, on which processors are slow."""
    weight = torch.full((2, 4), 1e-40)
    codes, scale = quantize_float8(weight, (1, 4))
    assert (scale == torch.finfo(torch.float32).tiny).all()
    assert codes.float().isfinite().all()


def test_error_is_half_a_step():
    """No value is further from its code than half of the distance between neighbouring codes."""
    weight = float_weight()
    codes, scale = quantize_float8(weight, (1, 64))
    error = (codes.float() * scale - weight).abs()
    assert (error <= weight.abs() * 2**-4 + scale * 2**-10).all()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("name", GRANULARITIES)
def test_values_that_are_not_finite_are_named(value, name):
    """NaN and infinity are refused with count and first index."""
    weight = float_weight(dtype=torch.bfloat16)
    weight[3, 17] = value
    weight[9, 0] = value
    with pytest.raises(BuildError) as caught:
        quantize_float8(weight, GRANULARITIES[name].block_of((32, 64)))
    assert caught.value.message == (
        "the weight holds 2 values that are NaN or infinite, the first at [3, 17]"
    )


@pytest.mark.parametrize("shape", [(0, 64), (0, 8, 64), (3, 0, 64)])
def test_empty_weights(shape):
    """A weight without rows has no scales."""
    codes, scale = quantize_float8(torch.empty(shape), (*(1 for _ in shape[:-1]), 64))
    assert codes.shape == shape
    assert scale.numel() == 0


def test_the_weight_is_left_alone():
    """Neither values nor a pending gradient of the weight are touched."""
    weight = float_weight().requires_grad_()
    before = weight.detach().clone()
    codes, scale = quantize_float8(weight, (1, 64))
    assert torch.equal(weight, before)
    assert not codes.requires_grad
    assert not scale.requires_grad


def test_scales_beyond_float32_are_refused():
    """A float64 weight whose scale float32 cannot hold is refused as such."""
    weight = torch.full((2, 4), 1e300, dtype=torch.float64)
    with pytest.raises(BuildError, match="too large for scales in float32"):
        quantize_float8(weight, (1, 4))


@pytest.mark.parametrize("name", GRANULARITIES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_temporaries_are_small(name, dtype):
    """Beside codes and scales, no more than an eighth of the weight is alive at any time."""
    weight = float_weight(2048, 1024, dtype=dtype)
    block = GRANULARITIES[name].block_of((2048, 1024))
    with torch.profiler.profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profile:
        codes, scale = quantize_float8(weight, block)
    live = peak = 0
    events = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
    for event in sorted(events, key=lambda e: e.start_ns()):
        live += event.nbytes()
        peak = max(peak, live)
    assert peak - codes.nbytes - scale.nbytes <= weight.nbytes / 8 + 4 * scale.nbytes
