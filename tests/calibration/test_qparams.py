import pytest
import torch

from qconfig.codec.dtypes import DType
from qconfig.configs.choices import MappingType
from qconfig.errors import FieldError
from qconfig.tensors.activation_qparams import (
    LEAST_INT8_SCALE,
    choose_activation_qparams,
    code_range,
    kept,
)
from tests.tensors.torchao_peer import torchao_int8

torchao_int8()  # imports torchao without its notes
from torchao.quantization.quant_primitives import (  # noqa: E402
    MappingType as TorchaoMapping,
)
from torchao.quantization.quant_primitives import (  # noqa: E402
    _choose_scale_float8,
    choose_qparams_affine,
    dequantize_affine,
    quantize_affine,
)

INPUTS = {
    "normal": lambda g: torch.randn(64, 48, generator=g),
    "shifted": lambda g: torch.randn(64, 48, generator=g) + 5,
    "negative": lambda g: -torch.rand(64, 48, generator=g) - 1,
    "tiny": lambda g: torch.randn(64, 48, generator=g) * 1e-12,
    "huge": lambda g: torch.randn(64, 48, generator=g) * 1e30,
    "zeros": lambda _: torch.zeros(64, 48),
}


def values(name):
    """Return a sample of values."""
    return INPUTS[name](torch.Generator().manual_seed(3))


@pytest.mark.parametrize("mapping", MappingType)
@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("reduce_range", [False, True])
def test_int8_qparams_are_torchaos(mapping, name, per_channel, reduce_range):
    """Scale and zero point equal those of choose_qparams_affine in every bit."""
    x = values(name)
    qmin, qmax = code_range(reduce_range=reduce_range)
    scale, zero_point = choose_qparams_affine(
        x,
        TorchaoMapping[mapping.name],
        (64, 1) if per_channel else (64, 48),
        torch.int8,
        qmin,
        qmax,
        eps=LEAST_INT8_SCALE,
        zero_point_dtype=torch.int8,
    )
    dims = (0,) if per_channel else (0, 1)
    found, zero = choose_activation_qparams(
        x.amin(dims), x.amax(dims), mapping, reduce_range=reduce_range
    )
    assert torch.equal(found.reshape(-1), scale.reshape(-1))
    assert found.dtype == torch.float32
    if mapping is MappingType.ASYMMETRIC:
        assert torch.equal(zero.reshape(-1), zero_point.reshape(-1))
        assert zero.dtype == torch.int8
    else:
        assert zero is None
        assert not zero_point.any()


@pytest.mark.parametrize("name", ["normal", "shifted", "negative", "tiny", "huge"])
@pytest.mark.parametrize("dtype", [DType.FLOAT8_E4M3FN, DType.FLOAT8_E5M2])
def test_float8_scales_are_torchaos(name, dtype):
    """A float8 scale equals torchao's in every bit."""
    x = values(name)
    expected = _choose_scale_float8(x, list(x.shape), dtype.to_torch())
    found, zero = choose_activation_qparams(x.amin(), x.amax(), MappingType.SYMMETRIC, dtype)
    assert torch.equal(found, expected.reshape(()))
    assert zero is None


def test_float8_scale_of_zeros_is_one():
    """Where only zeros were seen, torchao's scale of 0 would make NaN; here it is 1."""
    zero = torch.zeros(())
    for dtype in (DType.FLOAT8_E4M3FN, DType.FLOAT8_E5M2):
        scale, _ = choose_activation_qparams(zero, zero, MappingType.SYMMETRIC, dtype)
        assert scale == 1
        assert kept(torch.zeros(3), scale, None, dtype).eq(0).all()


@pytest.mark.parametrize("mapping", MappingType)
@pytest.mark.parametrize("name", ["normal", "shifted", "negative"])
def test_what_int8_codes_keep_is_torchaos(mapping, name):
    """Quantizing and dequantizing gives torchao's values."""
    x = values(name)
    scale, zero = choose_activation_qparams(x.amin(), x.amax(), mapping)
    block = tuple(x.shape)
    zeros = torch.zeros((), dtype=torch.int8) if zero is None else zero
    codes = quantize_affine(x, block, scale, zeros, torch.int8)
    assert torch.equal(
        kept(x, scale, zero), dequantize_affine(codes, block, scale, zeros, torch.int8)
    )


def test_float8_beyond_the_largest_code_stays_finite():
    """Values outside of the range become the largest code, not NaN."""
    x = torch.tensor([1e6, -1e6, 1.0])
    left = kept(x, torch.tensor(1.0), None, DType.FLOAT8_E4M3FN)
    assert left.tolist() == [448.0, -448.0, 1.0]


@pytest.mark.parametrize(
    ("dtype", "mapping", "message"),
    [
        (DType.UINT8, MappingType.SYMMETRIC, "activations have no such codes"),
        (DType.FLOAT8_E5M2, MappingType.ASYMMETRIC, "float8 codes are symmetric"),
    ],
)
def test_other_codes_are_refused(dtype, mapping, message):
    """A dtype without static scales, and asymmetric float8, are errors."""
    one = torch.ones(())
    with pytest.raises(FieldError, match=message):
        choose_activation_qparams(-one, one, mapping, dtype)
