"""A factor for activations of intx weights, as AWQ around torchao's intx weights needs it."""

import pytest
import torch

from qconfig.codec.dtypes import DType
from qconfig.layouts.intx import ActivationQuantization, IntxUnpackedToInt8TensorLayout
from qconfig.tensors.intx import IntxUnpackedToInt8Tensor

KINDS = [None, *ActivationQuantization]


def weight(factor, kind, dtype=torch.bfloat16):
    """Return an int4 weight of (16, 64) with groups of 32."""
    generator = torch.Generator().manual_seed(1)
    return IntxUnpackedToInt8Tensor.from_layout(
        IntxUnpackedToInt8TensorLayout(
            torch.randint(-8, 8, (16, 64), generator=generator, dtype=torch.int8),
            torch.rand(16, 2, generator=generator).to(dtype) + 0.01,
            DType.INT4,
            (1, 32),
            DType.parse(dtype),
            act_pre_scale=factor,
            activation_quantization=kind,
        )
    )


@pytest.mark.parametrize("kind", KINDS)
def test_the_activation_is_scaled_first(kind):
    """Linear gives what it gives for an activation that was multiplied and rounded before."""
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(5, 64, generator=generator).to(torch.bfloat16)
    factor = torch.rand(64, generator=generator) + 0.5
    scaled = (x * factor).to(torch.bfloat16)
    linear = torch.nn.functional.linear
    assert torch.equal(linear(x, weight(factor, kind)), linear(scaled, weight(None, kind)))


@pytest.mark.parametrize("kind", KINDS)
def test_the_activation_that_is_seen_is_scaled_too(kind):
    """What linear multiplies with has the factor in it."""
    x = torch.randn(5, 64, generator=torch.Generator().manual_seed(3)).to(torch.bfloat16)
    factor = torch.full((64,), 2.0)
    seen = weight(factor, kind).activation_seen(x)
    assert torch.equal(seen, weight(None, kind).activation_seen(x * 2))


def test_a_factor_can_be_put_in_place_of_another():
    """AWQ and SmoothQuant set it on any tensor that has one."""
    tensor = weight(None, None).with_activation_scale(torch.full((64,), 0.5))
    x = torch.ones(1, 64, dtype=torch.bfloat16)
    plain = torch.nn.functional.linear(x / 2, weight(None, None))
    assert torch.equal(torch.nn.functional.linear(x, tensor), plain)
