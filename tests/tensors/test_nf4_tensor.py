import pytest
import torch
from torch.nn.functional import linear

from qconfig.errors import LayoutError, UnsupportedOperationError
from qconfig.layouts.nf4 import NF4TensorLayout
from qconfig.tensors import NF4Tensor
from tests.tensors.torchao_peer import quiet_torchao

FLOATS = (torch.float16, torch.bfloat16, torch.float32)
FIELDS = ("quantized_data", "quantized_scalers", "quantization_factor", "scaler_mean", "nf4")


def both(dtype=torch.float32, shape=(64, 128), block=64, group=32):
    """Return a tensor that torchao made, and ours of the same fields."""
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(shape, generator=generator).to(dtype)
    with quiet_torchao():
        from torchao.quantization.quantize_.workflows.nf4.nf4_tensor import to_nf4

        theirs = to_nf4(weight, block, group)
    fields = [getattr(theirs, name) for name in FIELDS]
    return theirs, NF4Tensor(*fields, block, group, shape, dtype)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("block", "group"), [(64, 32), (32, 256), (16, 8)])
def test_dequantize_equals_torchao(block, group, dtype):
    """Values are those of get_original_weight, to the bit."""
    theirs, ours = both(dtype, block=block, group=group)
    assert torch.equal(ours.dequantize(), theirs.get_original_weight())
    for other in FLOATS:
        assert torch.equal(ours.dequantize(other), theirs.get_original_weight().to(other))


@pytest.mark.parametrize("dtype", FLOATS)
def test_linear_equals_torchao(dtype):
    """Outputs are torchao's to the bit: the bias is added to the rounded product."""
    theirs, ours = both(dtype)
    activation, bias = torch.randn(5, 128).to(dtype), torch.randn(64).to(dtype)
    with quiet_torchao():
        expected = linear(activation, theirs, bias)
    assert torch.equal(linear(activation, ours, bias), expected)


def test_the_first_code_of_a_byte_is_the_high_one():
    """Byte 0x0F: the least value of the table, then the largest."""
    table = torch.linspace(-1, 1, 16)
    data = torch.tensor([0x0F] * 4, dtype=torch.uint8)
    one = torch.ones(1)
    tensor = NF4Tensor(
        data, torch.zeros(1, dtype=torch.int8), one, one[0], table, 8, 1, (2, 4), torch.float32
    )
    assert tensor.dequantize().tolist() == [[-1, 1, -1, 1]] * 2


def test_equal_scales_leave_an_infinite_divisor():
    """Where all scales of a group are equal, torchao stores infinity; it is lawful."""
    weight = torch.ones(8, 64)
    with quiet_torchao():
        from torchao.quantization.quantize_.workflows.nf4.nf4_tensor import to_nf4

        theirs = to_nf4(weight, 64, 8)
    fields = [getattr(theirs, name) for name in FIELDS]
    assert theirs.quantization_factor.isinf().all()
    assert torch.equal(NF4Tensor(*fields, 64, 8, (8, 64), torch.float32).dequantize(), weight)


def test_views_are_refused_with_the_reason():
    """Blocks run across rows, so that a part of the rows cannot be taken."""
    _, ours = both()
    for operation in (lambda t: t.t(), lambda t: t[:8], lambda t: torch.cat([t, t])):
        with pytest.raises(UnsupportedOperationError, match="run over all elements in one row"):
            operation(ours)


def test_gradients_reach_the_activation():
    """The gradient is that of the product with the plain weight."""
    _, ours = both()
    activation = torch.randn(3, 128, requires_grad=True)
    linear(activation, ours).sum().backward()
    expected = ours.dequantize().sum(0).expand(3, -1)
    assert torch.allclose(activation.grad, expected, rtol=1e-5, atol=1e-5)


def test_too_few_scales_are_named():
    """The shape says how many scales there are."""
    _, ours = both()
    fields = [getattr(ours, name) for name in FIELDS]
    fields[1] = fields[1][:-1]
    with pytest.raises(LayoutError, match="quantized_scalers has a wrong size") as caught:
        NF4TensorLayout(*fields, 64, 32, (64, 128), "float32")
    assert caught.value.pointer == "/quantized_scalers"


def test_a_zero_divisor_is_refused():
    """Scales are divided by the factor."""
    _, ours = both()
    factor = ours.quantization_factor.clone()
    factor[1] = 0
    layout = ours.with_fields(quantization_factor=factor).to_layout()
    with pytest.raises(LayoutError, match="quantization_factor is 0 or NaN: 1 of 4"):
        NF4Tensor.from_layout(layout, check=True)
