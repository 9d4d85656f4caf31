import pytest
import torch
from torch.profiler import ProfilerActivity

from qconfig.errors import BuildError
from qconfig.tensors import int4_hqq, int4_quantize
from qconfig.tensors.int4_codes import dequantize, dequantize_whole, pack, unpack
from qconfig.tensors.int4_hqq import quantize_hqq
from qconfig.tensors.int4_quantize import quantize_tinygemm, quantize_with
from tests.tensors.int4_samples import FLOATS
from tests.tensors.samples import float_weight
from tests.tensors.torchao_peer import quiet_torchao

ALGORITHMS = {"tinygemm": quantize_tinygemm, "hqq": quantize_hqq}
SHAPES = [(24, 64, 32), (5, 40, 8), (16, 256, 128), (8, 64, 64)]


def peers():
    """Return torchao's primitives."""
    with quiet_torchao():
        from torchao.quantization import quant_primitives
    return quant_primitives


def theirs_hqq(weight, group):
    """Return codes from 0 to 15, scales and zero points of torchao's HQQ."""
    make = peers()._choose_qparams_and_quantize_affine_hqq
    codes, scale, zero, _ = make(
        weight, nbits=4, group_size=group, compute_dtype=weight.dtype, device="cpu"
    )
    return codes, scale.view(weight.shape[0], -1), zero.view(weight.shape[0], -1)


def by_formula(weight, group):
    """Return codes from -8 to 7, scales and zero points as Int4Tensor.from_hp is documented."""
    groups = weight.float().view(weight.shape[0], -1, group)
    low, high = groups.amin(-1, keepdim=True), groups.amax(-1, keepdim=True)
    scale = (high - low).clamp(min=1e-6) / 15
    codes = ((groups - low) / scale).round().clamp(0, 15) - 8
    zero = low + 8 * scale
    to = weight.dtype
    return codes.flatten(1).to(torch.int8), scale.squeeze(-1).to(to), zero.squeeze(-1).to(to)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("magnitude", [1, 300, 1e-3, 1e-9])
def test_tinygemm_is_what_torchao_stores(dtype, shape, magnitude):
    """Codes, scales and zero points are those of the formula, groups of zeros among them."""
    rows, columns, group = shape
    weight = (float_weight(rows, columns) * magnitude).to(dtype)
    weight[0] = 0
    qdata, scale, zero_point = quantize_tinygemm(weight, group)
    codes, their_scale, their_zero = by_formula(weight, group)
    assert torch.equal(unpack(qdata), codes)
    assert torch.equal(scale, their_scale)
    assert torch.equal(zero_point, their_zero)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("magnitude", [1, 300, 1e-3])
def test_float32_scales_are_those_of_torchaos_tinygemm(shape, magnitude):
    """Scales and zero points of float32 weights are those of _choose_qparams_affine_tinygemm."""
    rows, columns, group = shape
    weight, peer = float_weight(rows, columns) * magnitude, peers()
    scale, zero = peer._choose_qparams_affine_tinygemm(
        weight, peer.MappingType.ASYMMETRIC, (1, group), torch.int32, 0, 15, 1e-6
    )
    found = quantize_tinygemm(weight, group)
    assert torch.equal(found[1], scale.view(rows, -1))
    assert torch.equal(found[2], zero.view(rows, -1))


@pytest.mark.parametrize("shape", SHAPES)
def test_codes_of_given_scales_are_torchaos(shape):
    """float32 weights get the codes of _quantize_affine_tinygemm for scales that are given."""
    rows, columns, group = shape
    weight = float_weight(rows, columns)
    scale = torch.rand(rows, columns // group) * 0.2 + 0.01
    zero = torch.randn(rows, columns // group) * 0.1
    peer = peers()._quantize_affine_tinygemm(weight, (1, group), scale, zero, torch.int32, 0, 15)
    assert torch.equal(unpack(quantize_with(weight, scale, zero)), (peer - 8).to(torch.int8))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("magnitude", [0.02, 1, 50])
def test_hqq_is_torchaos(dtype, shape, magnitude):
    """Codes, scales and zero points are torchao's, with errors that shrink and that do not."""
    rows, columns, group = shape
    weight = (float_weight(rows, columns) * magnitude).to(dtype)
    weight[0, :group] = 0.5
    qdata, scale, zero_point = quantize_hqq(weight, group)
    codes, their_scale, their_zero = theirs_hqq(weight, group)
    assert torch.equal(unpack(qdata), codes.to(torch.int8) - 8)
    assert torch.equal(scale, their_scale)
    assert torch.equal(zero_point, their_zero)


def test_hqq_is_closer_than_tinygemm():
    """HQQ finds zero points with a smaller mean error."""
    weight = float_weight(64, 256) * 0.02
    errors = {
        name: (dequantize(*quantize(weight, 64), torch.float32) - weight).abs().mean()
        for name, quantize in ALGORITHMS.items()
    }
    assert errors["hqq"] < errors["tinygemm"]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_small_slabs_change_nothing(monkeypatch, name):
    """However few rows a slab has, the bits are the same."""
    weight = float_weight(24, 64, dtype=torch.bfloat16)
    expected = ALGORITHMS[name](weight, 32)
    for elements in (1, 200):
        monkeypatch.setattr(int4_quantize, "slab_elements", lambda *_, size=elements, **__: size)
        found = ALGORITHMS[name](weight, 32)
        assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("name", ALGORITHMS)
def test_experts_are_quantized_one_by_one(name):
    """A weight of rank 3 gives what its matrices give, strided or not."""
    weight = float_weight(3, 8, 128)[..., ::2]
    found = ALGORITHMS[name](weight, 16)
    for i in range(3):
        alone = ALGORITHMS[name](weight[i].contiguous(), 16)
        assert all(torch.equal(a[i], b) for a, b in zip(found, alone, strict=True))


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("shape", [(0, 64), (8, 0), (0, 8, 64)])
def test_empty_weights(name, shape):
    """A weight without elements gives codes and scales without elements."""
    qdata, scale, _ = ALGORITHMS[name](torch.empty(shape), 32)
    assert qdata.shape == (*shape[:-1], shape[-1] // 2)
    assert scale.shape == (*shape[:-1], shape[-1] // 32)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_float64_keeps_its_type(name):
    """float64 weights, which torchao does not take, get float64 scales."""
    weight = float_weight(8, 64, dtype=torch.float64)
    qdata, scale, zero_point = ALGORITHMS[name](weight, 32)
    assert scale.dtype == zero_point.dtype == torch.float64
    error = (dequantize(qdata, scale, zero_point, torch.float64) - weight).abs()
    assert (error <= scale.repeat_interleave(32, 1)).all()


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_values_that_are_not_finite_are_refused(name, value):
    """NaN and infinity are counted, and the first is located."""
    weight = float_weight(8, 64)
    weight[3, 5] = weight[4, 6] = value
    with pytest.raises(BuildError, match=r"2 values that are NaN or infinite, the first at \[3, 5"):
        ALGORITHMS[name](weight, 32)


def test_given_scales_do_not_hide_values_that_are_not_finite():
    """Codes of NaN are refused as well where the scales are given."""
    weight = float_weight(8, 64)
    weight[3, 5] = float("nan")
    with pytest.raises(BuildError, match=r"1 values that are NaN or infinite, the first at \[3, 5"):
        quantize_with(weight, torch.ones(8, 2), torch.zeros(8, 2))


def test_a_range_beyond_its_type_is_refused():
    """Finite values whose range is not finite have no scale."""
    weight = torch.tensor([[3e38, -3e38]])
    with pytest.raises(BuildError, match=r"too large for scales in float32"):
        quantize_tinygemm(weight, 2)


def test_even_columns_lie_in_the_low_half():
    """Bytes hold two codes in two's complement, the even column first."""
    codes = torch.tensor([[1, -1, -8, 7]], dtype=torch.int8)
    assert pack(codes).tolist() == [[0xF1 - 256, 0x78]]
    assert torch.equal(unpack(pack(codes)), codes)


@pytest.mark.parametrize("dtype", FLOATS)
def test_slabs_give_the_bits_of_the_whole_expression(dtype):
    """Values made a few rows at a time, of strided codes too, are those of one expression."""
    qdata = torch.randint(-128, 128, (700, 2048), dtype=torch.int8).t()
    scale, zero = torch.rand(2048, 28).to(dtype), torch.randn(2048, 28).to(dtype)
    found = dequantize(qdata, scale, zero, dtype)
    assert torch.equal(found, dequantize_whole(qdata, scale, zero, dtype))


@pytest.mark.parametrize("name", ALGORITHMS)
def test_temporaries_are_small(monkeypatch, name):
    """No temporary is larger than an eighth of the weight."""
    weight = float_weight(1024, 1024, dtype=torch.bfloat16)
    monkeypatch.setattr(int4_hqq, "_ROUNDS", 2)
    with torch.profiler.profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profile:
        results = ALGORITHMS[name](weight, 64)
    events = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
    sizes = [e.nbytes() for e in events if e.nbytes() > 0]
    for tensor in results:
        sizes.remove(tensor.nbytes)
    assert max(sizes) <= weight.nbytes / 8
