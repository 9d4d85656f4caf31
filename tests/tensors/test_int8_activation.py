import pytest
import torch

from qconfig.tensors.int8_activation import (
    dequantize_activation,
    dynamic_qparams,
    quantize_activation,
)
from tests.tensors.samples import FLOATS, float_weight
from tests.tensors.torchao_dynamic import quantized

SHAPES = ((1, 1), (3, 7), (5, 100), (33, 129), (300, 1500))
MODES = [(t, a, r) for t in (True, False) for a in (True, False) for r in (True, False)]


def values(shape, dtype, size):
    """Return activations that are not centered on 0."""
    return (float_weight(*shape) * size + 0.3 * size).to(dtype)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("per_token", "asymmetric", "reduce_range"), MODES)
def test_dynamic_codes_are_torchaos(dtype, shape, per_token, asymmetric, reduce_range):
    """Codes, scales and zero points equal torchao's, bit for bit, whatever the size of values."""
    for size in (1.0, 1e-6, 300.0):
        x = values(shape, dtype, size)
        scale, zero = dynamic_qparams(
            x, per_token=per_token, asymmetric=asymmetric, reduce_range=reduce_range
        )
        codes = quantize_activation(x, scale, zero, reduce_range=reduce_range)
        theirs = quantized(x, per_token, asymmetric, reduce_range)
        assert torch.equal(scale, theirs.scale)
        assert scale.dtype == theirs.scale.dtype
        assert torch.equal(torch.zeros_like(codes[:1, :1]) if zero is None else zero, zeros(theirs))
        assert torch.equal(codes, theirs.qdata)


def zeros(theirs):
    """Return torchao's zero points, one where all are the 0 of symmetric codes."""
    found = theirs.zero_point
    return found if bool(found.any()) or found.shape == (1, 1) else found[:1]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("scale_dtype", FLOATS)
@pytest.mark.parametrize("zero_point", [None, -128, 5, 127])
@pytest.mark.parametrize("reduce_range", [False, True])
def test_static_codes_are_torchaos(dtype, scale_dtype, zero_point, reduce_range):
    """With a given scale the codes equal torchao's in every mix of types."""
    x = values((5, 100), dtype, 1.0)
    scale = torch.tensor([[0.0173]], dtype=scale_dtype)
    zero = None if zero_point is None else torch.tensor([[zero_point]], dtype=torch.int8)
    theirs = quantized(x, False, zero is not None, reduce_range, scale, zero)
    found = quantize_activation(x, scale, zero, reduce_range=reduce_range)
    assert torch.equal(found, theirs.qdata)


def test_one_signed_activations_have_0_in_their_range():
    """Activations above 0 only get the zero point -128, those below 0 only 127."""
    x = torch.tensor([[1.0, 2.0], [-2.0, -1.0]])
    _, zero = dynamic_qparams(x, per_token=True, asymmetric=True, reduce_range=False)
    assert zero is not None
    assert zero.flatten().tolist() == [-128, 127]


@pytest.mark.parametrize("asymmetric", [False, True])
def test_zeros_stay_zeros(asymmetric):
    """A token of zeros comes back as zeros, with the smallest scale there is."""
    x = torch.zeros(2, 8, dtype=torch.bfloat16)
    scale, zero = dynamic_qparams(x, per_token=True, asymmetric=asymmetric, reduce_range=False)
    codes = quantize_activation(x, scale, zero, reduce_range=False)
    assert torch.equal(scale, torch.full((2, 1), 2.0**-23))
    assert not dequantize_activation(codes, scale, zero, torch.float32).any()


def test_a_span_beyond_the_type_has_a_finite_scale():
    """float16 from -60000 to 60000 spans more than float16 holds; torchao's scale is infinite."""
    x = torch.tensor([[-60000.0, 60000.0]], dtype=torch.float16)
    scale, zero = dynamic_qparams(x, per_token=True, asymmetric=True, reduce_range=False)
    codes = quantize_activation(x, scale, zero, reduce_range=False)
    assert quantized(x, True, True, False).scale.isinf().all()
    back = dequantize_activation(codes, scale, zero, torch.float32)
    assert (back - x.float()).abs().max() <= scale.max()


def test_float64_is_quantized_in_float64():
    """float64, which torchao does not take, keeps its own precision in the product."""
    x = float_weight(4, 50).double()
    scale, _ = dynamic_qparams(x, per_token=True, asymmetric=False, reduce_range=False)
    expected = (x * (1 / scale.double())).round().clamp(-128, 127)
    found = quantize_activation(x, scale, None, reduce_range=False)
    assert torch.equal(found.double(), expected)


def test_a_scale_for_each_channel():
    """One scale for each input channel is taken along the last dimension."""
    x, scale = float_weight(6, 16), torch.rand(1, 16) + 0.01
    zero = torch.arange(-8, 8, dtype=torch.int8).view(1, 16)
    found = quantize_activation(x, scale, zero, reduce_range=False)
    expected = ((x * (1 / scale)).round() + zero).clamp(-128, 127)
    assert torch.equal(found.float(), expected)


def test_a_small_float16_scale_has_a_reciprocal():
    """Of a scale under 2**-16 the codes are right, though 1 / scale is infinite in float16."""
    scale = torch.full((1, 1), 2.0**-20, dtype=torch.float16)
    x = torch.tensor([[0.0, 3 * 2.0**-20, -7 * 2.0**-20, 1.0]], dtype=torch.float16)
    codes = quantize_activation(x, scale, None, reduce_range=False)
    assert codes.tolist() == [[0, 3, -7, 127]]
