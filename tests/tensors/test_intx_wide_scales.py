"""Activations of int4 and uint8 with scales in float32, as torchao's old functions made them."""

import warnings

import pytest
import torch
from torch.nn.functional import linear

from qconfig.codec.dtypes import DType
from qconfig.layouts.intx import ActivationQuantization, IntxUnpackedToInt8TensorLayout
from qconfig.tensors.intx import IntxUnpackedToInt8Tensor
from qconfig.tensors.intx_linear import quantize_tokens

FLOATS = [torch.float32, torch.bfloat16, torch.float16]
INT4 = ActivationQuantization.INT4_SYM_PER_TOKEN
UINT8 = ActivationQuantization.UINT8_ASYM_PER_TOKEN
BOUNDS = {INT4: (torch.int8, -8, 7), UINT8: (torch.uint8, 0, 255)}
by_kind = pytest.mark.parametrize("how", BOUNDS, ids=[kind.value for kind in BOUNDS])


def tokens(rows, dtype, columns=64):
    """Return tokens of many magnitudes, one of them all positive."""
    x = torch.randn(rows, columns, generator=torch.Generator().manual_seed(5))
    x[-1].abs_()
    return (x * torch.logspace(-2, 1, rows).unsqueeze(1)).to(dtype)


def theirs(x, how):
    """Return codes less zero points, and scales, by torchao's primitives and the old settings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torchao.quantization.quant_primitives import (
            MappingType,
            choose_qparams_affine,
            quantize_affine,
        )
    mapping = MappingType.SYMMETRIC if how is INT4 else MappingType.ASYMMETRIC
    dtype, low, high = BOUNDS[how]
    block = (1, x.shape[1])
    scale, zero = choose_qparams_affine(
        x,
        mapping,
        block,
        dtype,
        low,
        high,
        eps=torch.finfo(torch.float32).eps,
        scale_dtype=torch.float32,
        zero_point_dtype=torch.int32,
    )
    codes = quantize_affine(x, block, scale, zero, dtype, low, high)
    return codes.to(torch.int32) - zero.view(-1, 1), scale.view(-1, 1)


def packed(how, dtype):
    """Return an int4 weight that quantizes its activation."""
    generator = torch.Generator().manual_seed(6)
    codes = torch.randint(-8, 8, (32, 64), generator=generator, dtype=torch.int8)
    scale = torch.rand(32, 2, generator=generator).to(dtype)
    return IntxUnpackedToInt8Tensor.from_layout(
        IntxUnpackedToInt8TensorLayout(
            codes,
            scale,
            DType.INT4,
            (1, 32),
            DType.parse(dtype),
            activation_quantization=how,
        )
    )


@by_kind
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("rows", [1, 2, 7])
def test_tokens_are_quantized_as_by_the_old_functions(how, dtype, rows):
    """Codes less zero points, and scales, are torchao's bit for bit."""
    x = tokens(rows, dtype)
    values, scale = quantize_tokens(x, how.value)
    expected, expected_scale = theirs(x, how)
    assert torch.equal(values.to(torch.int32), expected)
    assert torch.equal(scale, expected_scale)


@by_kind
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("rows", [1, 5, 64])
def test_the_product_is_that_of_the_quantized_activation(how, dtype, rows):
    """`linear` multiplies what `activation_seen` says, up to rounding."""
    weight, x = packed(how, dtype), tokens(rows, dtype)
    exact = weight.activation_seen(x).double() @ weight.dequantize(torch.float64).t()
    found = linear(x, weight)
    assert found.dtype == dtype
    error = (found.double() - exact).abs() / exact.abs().amax(1, keepdim=True)
    assert error.max() <= 4 * torch.finfo(dtype).eps


@by_kind
def test_tokens_of_zeros_give_zeros(how):
    """A token of zeros has a scale, and codes of 0."""
    values, scale = quantize_tokens(torch.zeros(2, 8), how.value)
    assert not values.any()
    assert scale.isfinite().all()


@by_kind
def test_a_token_that_is_not_finite_spoils_itself_only(how):
    """A token with NaN leaves the others alone."""
    weight, x = packed(how, torch.float32), tokens(3, torch.float32)
    expected = linear(x, weight)
    x[1, 5] = float("nan")
    found = linear(x, weight)
    assert not found[1].isfinite().any()
    assert torch.equal(found[[0, 2]], expected[[0, 2]])
