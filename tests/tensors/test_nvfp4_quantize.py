"""NVFP4 codes and scales against torchao 0.18, and where torchao has NaN."""

import pytest
import torch

from qconfig.errors import BuildError
from qconfig.tensors import block_scaled
from qconfig.tensors.nvfp4_quantize import per_tensor_scale_of, quantize_nvfp4
from qconfig.tensors.small_floats import E2M1
from tests.tensors.fp4_weights import weights
from tests.tensors.torchao_mx import same_bytes, torchao_nvfp4

WEIGHTS = [
    pytest.param(weight, id=f"{name}-{str(dtype)[6:]}")
    for dtype in (torch.float32, torch.bfloat16)
    for name, weight in weights(dtype)
    if weight.any()
]


def _dequantized(codes, scale, second=None, dtype=torch.float32):
    return block_scaled.dequantize(codes, scale, E2M1, 16, dtype, second=second)


@pytest.mark.parametrize("second", [False, True], ids=["one_scale", "two_scales"])
@pytest.mark.parametrize("weight", WEIGHTS)
def test_codes_and_scales_are_torchaos(weight: torch.Tensor, second: bool) -> None:
    """With and without a second scale, bytes and values equal those of torchao's to_nvfp4."""
    theirs = torchao_nvfp4(weight, second=second)
    scale_of_all = per_tensor_scale_of(weight) if second else None
    codes, scale = quantize_nvfp4(weight, scale_of_all)
    assert same_bytes(codes, theirs.qdata)
    assert same_bytes(scale, theirs.scale)
    if second:
        assert torch.equal(scale_of_all, theirs.per_tensor_scale)
    found = _dequantized(codes, scale, scale_of_all, weight.dtype)
    assert torch.equal(found, theirs.dequantize())


def test_experts_have_a_second_scale_each() -> None:
    """Of stacked matrices each gets its own, as torchao's (B, 1, 1)."""
    weight = torch.randn(3, 16, 64, generator=torch.Generator().manual_seed(4))
    weight[1] *= 100
    theirs = torchao_nvfp4(weight, second=True)
    second = per_tensor_scale_of(weight)
    codes, scale = quantize_nvfp4(weight, second)
    assert torch.equal(second, theirs.per_tensor_scale)
    assert same_bytes(codes, theirs.qdata)
    assert same_bytes(scale, theirs.scale)
    assert torch.equal(_dequantized(codes, scale, second), theirs.dequantize())


def test_zeros_stay_zeros() -> None:
    """A weight of zeros gives zeros, where torchao's second scale of 0 gives NaN."""
    weight = torch.zeros(3, 32)
    assert torchao_nvfp4(weight, second=True).dequantize().isnan().any()
    second = per_tensor_scale_of(weight)
    codes, scale = quantize_nvfp4(weight, second)
    assert second == 1
    assert not _dequantized(codes, scale, second).any()


def test_tiny_weights_are_near() -> None:
    """Where 1 / p leaves float32, zeros stay zeros and the rest is near, unlike in torchao."""
    weight = torch.full((1, 16), 2.0**-126)
    weight[0, 0] = 0
    second = per_tensor_scale_of(weight)
    found = _dequantized(*quantize_nvfp4(weight, second), second)
    assert torchao_nvfp4(weight, second=True).dequantize()[0, 0] != 0
    assert found[0, 0] == 0
    assert ((found - weight).abs() <= 2.0**-127).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_types_that_torchao_refuses_are_as_good(dtype: torch.dtype) -> None:
    """float16 and float64 weights get the codes of the same numbers in float32."""
    weight = torch.randn(4, 64, generator=torch.Generator().manual_seed(2)).half()
    expected = quantize_nvfp4(weight.float(), per_tensor_scale_of(weight.float()))
    found = quantize_nvfp4(weight.to(dtype), per_tensor_scale_of(weight.to(dtype)))
    assert all(map(same_bytes, found, expected))


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
@pytest.mark.parametrize("second", [False, True])
def test_what_is_not_finite_is_refused(bad: float, second: bool) -> None:
    """The error tells how many values, and where the first is."""
    weight = torch.ones(4, 64)
    weight[2, 5] = bad
    with pytest.raises(BuildError, match=r"1 values that are NaN or infinite.*\[2, 5\]"):
        quantize_nvfp4(weight, per_tensor_scale_of(weight) if second else None)


def test_a_large_weight_takes_little_memory() -> None:
    """Working copies of a slab are a small part of the weight, whatever its size."""
    from qconfig.tensors.row_slabs import row_slabs

    weight = torch.zeros(1024, 1024, dtype=torch.bfloat16)
    largest = max(values.nbytes + work.nbytes for _, values, work in row_slabs(weight))
    assert 2 * largest <= weight.nbytes // 8
