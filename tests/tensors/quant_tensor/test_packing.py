"""A fake-quantized weight becomes a packed one and comes back, bit for bit."""

import pytest
import torch

from qconfig.errors import QuantTensorError
from qconfig.tensors.int8 import Int8Tensor
from qconfig.tensors.intx import IntxUnpackedToInt8Tensor
from qconfig.tensors.quant_tensor.packing import from_packed, to_packed
from tests.tensors.quant_tensor.samples import float_tensor, groupwise_int_tensor, int_tensor

ROWS = torch.tensor([[0.5], [0.125], [0.3], [0.7]])


@pytest.mark.parametrize(
    ("bits", "signed"), [(b, s) for b in range(1, 9) for s in (True, False) if (b, s) != (1, True)]
)
@pytest.mark.parametrize("zero_point", [0, 1])
@pytest.mark.parametrize("scale", [0.3, ROWS], ids=["per tensor", "per row"])
def test_a_weight_keeps_every_bit(bits, signed, zero_point, scale):
    """Packed, it dequantizes to the same values; unpacked, it has value and scale again."""
    tensor = int_tensor(bits=bits, signed=signed, zero_point=zero_point, scale=scale)
    result = to_packed(tensor)
    assert type(result) is (Int8Tensor if bits == 8 else IntxUnpackedToInt8Tensor)
    assert torch.equal(result.dequantize(), tensor.value)
    back = from_packed(result)
    assert torch.equal(back.value, tensor.value)
    assert torch.equal(back.scale.expand(4, 6), tensor.scale.expand(4, 6))
    assert back.bit_width == bits


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_types_of_values_are_kept(dtype):
    """The packed weight shows the type of the fake-quantized one."""
    tensor = int_tensor(dtype=dtype)
    assert to_packed(tensor).dtype is dtype
    assert torch.equal(to_packed(tensor).dequantize(), tensor.value)


def test_groups_of_rows_keep_every_bit():
    """Groups along the last dimension become the blocks of a packed tensor."""
    tensor = groupwise_int_tensor((4, 8), 4, -1, zero_point=True)
    result = to_packed(tensor)
    assert result.block_size == (1, 4)
    assert torch.equal(result.dequantize(), tensor.value)
    assert torch.equal(from_packed(result).value, tensor.value)


def test_products_are_those_of_the_packed_family():
    """What trains with fake integers computes with packed ones."""
    tensor = int_tensor(scale=ROWS)
    x = torch.randn(3, 6, generator=torch.Generator().manual_seed(0))
    found = torch.nn.functional.linear(x, to_packed(tensor))
    expected = x.double() @ tensor.value.double().T
    assert torch.allclose(found.double(), expected, rtol=0, atol=1e-6 * expected.abs().max())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (float_tensor, "only integers become packed integers"),
        (lambda: int_tensor((4,)), "a packed weight is a matrix"),
        (lambda: int_tensor(bits=9), "not of 1 to 8 bits"),
        (lambda: int_tensor(scale=torch.ones(1, 6)), "no scale for each of its columns"),
        (lambda: groupwise_int_tensor((4, 6), 4, 1), "are full"),
        (lambda: groupwise_int_tensor((4, 6), 2, 0), "along the last dimension"),
        (lambda: int_tensor(zero_point=0.5), "zero point is no code"),
        (lambda: int_tensor(zero_point=300), "zero point is no code"),
        (lambda: int_tensor().set(scale=torch.tensor(0.50001)), "not exactly their integers"),
    ],
    ids=[
        "float",
        "rank",
        "bits",
        "columns",
        "filled-up",
        "group-dim",
        "fraction",
        "range",
        "inexact",
    ],
)
def test_what_a_packed_tensor_cannot_hold_is_refused(make, message):
    """Each refusal says why."""
    with pytest.raises(QuantTensorError, match=message):
        to_packed(make())


def test_quantized_activations_do_not_unpack():
    """A fake-quantized weight would lose how activations are quantized."""
    weight = to_packed(int_tensor()).with_fields(act_pre_scale=torch.ones(1, 6))
    with pytest.raises(QuantTensorError, match="says nothing of activations"):
        from_packed(weight)
