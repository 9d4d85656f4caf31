"""MX codes and scales against torchao 0.18, and where a quantizer may fail."""

import pytest
import torch

from qconfig.configs.choices import ScaleCalculationMode
from qconfig.errors import BuildError
from qconfig.layouts.mx import MXElementType
from qconfig.tensors import block_scaled
from qconfig.tensors.mx_quantize import ELEMENTS, quantize_mx
from tests.tensors.fp4_weights import weights
from tests.tensors.torchao_mx import same_bytes, torchao_mx

FP4 = MXElementType.FLOAT4_E2M1FN_X2
FLOOR = ScaleCalculationMode.FLOOR
WEIGHTS = [
    pytest.param(weight, id=f"{name}-{str(dtype)[6:]}")
    for dtype in (torch.float32, torch.bfloat16)
    for name, weight in weights(dtype)
]


def _dequantized(element, codes, scale, block_size, dtype=torch.float32):
    return block_scaled.dequantize(codes, scale, ELEMENTS[element].small, block_size, dtype)


@pytest.mark.parametrize("mode", ScaleCalculationMode)
@pytest.mark.parametrize("element", MXElementType)
@pytest.mark.parametrize("weight", WEIGHTS)
def test_codes_and_scales_are_torchaos(
    weight: torch.Tensor, element: MXElementType, mode: ScaleCalculationMode
) -> None:
    """For every element type and way to round a scale, bytes equal those of torchao's to_mx."""
    theirs = torchao_mx(weight, element, 32, mode)
    codes, scale = quantize_mx(weight, element, 32, mode)
    assert same_bytes(scale, theirs.scale)
    assert same_bytes(codes, theirs.qdata)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("element", MXElementType)
@pytest.mark.parametrize("weight", WEIGHTS[:6])
def test_values_are_torchaos(
    weight: torch.Tensor, element: MXElementType, dtype: torch.dtype
) -> None:
    """Dequantized values equal torchao's, bit for bit."""
    theirs = torchao_mx(weight, element, 32, FLOOR)
    codes, scale = quantize_mx(weight, element, 32, FLOOR)
    assert torch.equal(_dequantized(element, codes, scale, 32, dtype), theirs.dequantize(dtype))


@pytest.mark.parametrize("block_size", [2, 16, 64])
def test_other_blocks_are_torchaos(block_size: int) -> None:
    """Blocks need not have 32 elements."""
    weight = torch.randn(5, 128, generator=torch.Generator().manual_seed(1))
    theirs = torchao_mx(weight, FP4, block_size, FLOOR)
    codes, scale = quantize_mx(weight, FP4, block_size, FLOOR)
    assert same_bytes(codes, theirs.qdata)
    assert same_bytes(scale, theirs.scale)


@pytest.mark.parametrize("mode", ScaleCalculationMode)
@pytest.mark.parametrize("element", MXElementType)
def test_zeros_stay_zeros(element: MXElementType, mode: ScaleCalculationMode) -> None:
    """A block of zeros gives zeros, not NaN."""
    codes, scale = quantize_mx(torch.zeros(3, 64), element, 32, mode)
    assert not _dequantized(element, codes, scale, 32).any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_types_that_torchao_refuses_are_as_good(dtype: torch.dtype) -> None:
    """float16 and float64 weights get the codes of the same numbers in float32."""
    weight = torch.randn(4, 64, generator=torch.Generator().manual_seed(2)).half()
    expected = quantize_mx(weight.float(), FP4, 32, FLOOR)
    found = quantize_mx(weight.to(dtype), FP4, 32, FLOOR)
    assert all(map(same_bytes, found, expected))


def test_strides_do_not_matter() -> None:
    """A transposed weight, and experts seen through a permutation, are read as they are shown."""
    base = torch.randn(6, 64, 128, generator=torch.Generator().manual_seed(3))
    for weight in (base[0].t(), base.transpose(1, 2), base[:, ::2], base.permute(1, 0, 2)):
        found = quantize_mx(weight, FP4, 32, FLOOR)
        expected = quantize_mx(weight.contiguous(), FP4, 32, FLOOR)
        assert all(map(same_bytes, found, expected))


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_what_is_not_finite_is_refused(bad: float) -> None:
    """The error tells how many values, and where the first is."""
    weight = torch.ones(4, 64)
    weight[2, 5] = weight[3, 0] = bad
    with pytest.raises(BuildError, match=r"2 values that are NaN or infinite.*\[2, 5\]"):
        quantize_mx(weight, FP4, 32, FLOOR)


@pytest.mark.parametrize("element", MXElementType)
def test_an_activation_that_is_not_finite_gives_nan(element: MXElementType) -> None:
    """Unchecked, the block that holds NaN or infinity is NaN and the others are what they were."""
    values = torch.ones(2, 64)
    values[0, 3], values[1, 40] = torch.nan, torch.inf
    codes, scale = quantize_mx(values, element, 32, FLOOR, checked=False)
    found = _dequantized(element, codes, scale, 32)
    assert found[0, :32].isnan().all()
    assert found[1, 32:].isnan().all()
    assert (found[0, 32:] == 1).all()
    assert (found[1, :32] == 1).all()


def test_a_float16_value_below_its_scale_is_right() -> None:
    """Scales that float16 does not hold are multiplied in float32: torchao gives 0 here."""
    weight = torch.full((1, 32), 2.0**-15, dtype=torch.float32)
    codes, scale = quantize_mx(weight, MXElementType.FLOAT8_E5M2, 32, FLOOR)
    found = _dequantized(MXElementType.FLOAT8_E5M2, codes, scale, 32, torch.float16)
    assert (found == 2.0**-15).all()


def test_empty_weights_give_empty_codes() -> None:
    """No rows, no codes."""
    codes, scale = quantize_mx(torch.empty(0, 64), FP4, 32, FLOOR)
    assert codes.shape == (0, 32)
    assert scale.shape == (0, 2)
