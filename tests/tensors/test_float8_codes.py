import pytest
import torch

from qconfig.tensors.float8_codes import RowWriter, code_step, dequantize, dequantize_whole
from tests.tensors.float8_samples import E4M3, E5M2, GRANULARITIES, exact, packed, theirs
from tests.tensors.samples import FLOATS, float_weight

ALL_FLOATS = [*FLOATS, torch.float64]


def every_code(dtype):
    """Return all 256 codes, (16, 16)."""
    return torch.arange(256, dtype=torch.uint8).view(16, 16).view(dtype)


def same(left, right):
    """Say if two tensors hold the same numbers, NaN at the same places, zeros of the same sign."""
    values = torch.equal(left.nan_to_num(1e4, 2e4, 3e4), right.nan_to_num(1e4, 2e4, 3e4))
    return (
        values
        and torch.equal(left.isnan(), right.isnan())
        and torch.equal(left.signbit() & ~left.isnan(), right.signbit() & ~right.isnan())
    )


@pytest.mark.parametrize("codes", [E4M3, E5M2])
@pytest.mark.parametrize("dtype", ALL_FLOATS)
@pytest.mark.parametrize("transposed", [False, True])
def test_every_code_has_torchs_value(codes, dtype, transposed):
    """All 256 codes, subnormal, NaN and infinite ones too, mean what torch says they mean."""
    qdata = every_code(codes)
    qdata = qdata.t() if transposed else qdata
    assert same(dequantize(qdata, torch.ones(16, 1), dtype), qdata.to(dtype))


@pytest.mark.parametrize("codes", [E4M3, E5M2])
def test_finite_codes_have_torchs_value(codes):
    """Without NaN, where bits are moved, finite codes mean what torch says."""
    qdata = every_code(codes).flatten()
    qdata = qdata[qdata.float().isfinite()].view(2, -1)
    assert same(dequantize(qdata, torch.ones(2, 1), torch.float32), qdata.to(torch.float32))


def test_subnormal_codes_survive_a_flushing_processor():
    """Where the processor takes subnormal float32 for zero, subnormal codes are still there."""
    qdata = torch.arange(1, 8, dtype=torch.uint8).view(1, 7).view(E4M3)
    assert torch.set_flush_denormal(True)
    try:
        found = dequantize(qdata, torch.ones(1, 1), torch.float32)
    finally:
        torch.set_flush_denormal(False)
    assert torch.equal(found, torch.arange(1, 8).view(1, 7) * 2.0**-9)


@pytest.mark.parametrize("codes", [E4M3, E5M2])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", GRANULARITIES)
@pytest.mark.parametrize("shape", [(48, 64), (3, 16, 64)])
def test_values_are_torchaos(codes, dtype, name, shape):
    """Dequantized values have torchao's bits in every type."""
    weight = float_weight(*shape, dtype=dtype)
    peer = theirs(weight, GRANULARITIES[name], codes)
    for target in FLOATS:
        assert torch.equal(dequantize(peer.qdata, peer.scale, target), peer.dequantize(target))


@pytest.mark.parametrize("dtype", ALL_FLOATS)
@pytest.mark.parametrize("name", GRANULARITIES)
def test_few_rows_at_a_time_are_the_whole(monkeypatch, dtype, name):
    """However few rows the buffer holds, values are those of one expression."""
    weight = packed(48, 64, granularity=GRANULARITIES[name])
    whole = dequantize_whole(weight.qdata, weight.scale, dtype)
    monkeypatch.setattr("qconfig.tensors.blockwise._BUFFER_BYTES", 4 * 64 * 5)
    assert torch.equal(dequantize(weight.qdata, weight.scale, dtype), whole)
    flipped = dequantize(weight.qdata.t(), weight.scale.t(), dtype)
    assert torch.equal(flipped, whole.t())


@pytest.mark.parametrize("scale", FLOATS)
def test_scales_of_any_type_are_taken_as_float32(scale):
    """A scale of 16 bits gives the float32 product, rounded once."""
    weight = packed()
    rounded = weight.scale.to(scale)
    expected = weight.qdata.float() * rounded.float()
    assert torch.equal(dequantize(weight.qdata, rounded, torch.float32), expected)


def test_values_are_right():
    """Against float64, values are right to the rounding of float32."""
    weight = packed(48, 64, granularity=GRANULARITIES["tile"])
    assert torch.equal(dequantize(weight.qdata, weight.scale, torch.float64), exact(weight).float())


@pytest.mark.parametrize("codes", [E4M3, E5M2])
def test_bare_codes_are_exact_in_bfloat16(codes):
    """Every finite code, divided by the step, is a bfloat16."""
    qdata = every_code(codes).flatten()
    qdata = qdata[qdata.float().isfinite()].view(2, -1)
    writer = RowWriter(qdata, None)
    buffer = writer.buffer(torch.bfloat16)
    writer.write(buffer, 0)
    assert torch.equal(buffer.float() * code_step(codes), qdata.float())
