"""Products of matrices: metadata as Brevitas', and right where Brevitas' is not."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from qconfig.tensors.quant_tensor import IntQuantTensor
from tests.tensors.quant_tensor.product_samples import ENDS, PAIRS, agrees, at_end, holds, plain
from tests.tensors.quant_tensor.samples import float_tensor, groupwise_int_tensor, int_tensor

CHANNELS = torch.tensor([[0.25], [0.5], [2.0]])
every_pair = pytest.mark.parametrize(("first", "second"), PAIRS, ids=str)
every_bias = pytest.mark.parametrize("shape", [(4,), (2, 4), (2, 5, 4), (2, 1, 5, 4)], ids=str)


def biases():
    """Return biases of three channels: floats, and integers of this and of another scale."""
    return {
        "floats": torch.tensor([0.3, -1.0, 2.5]),
        "integers": int_tensor((3,), scale=0.125, bits=16),
        "integers of another scale": int_tensor((3,), scale=0.3),
        "integers with a zero point": int_tensor((3,), scale=0.125, zero_point=3),
        "unsigned integers": int_tensor((3,), scale=0.125, bits=16, signed=False),
        "small floats": float_tensor((3,)),
    }


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("scale", [0.25, CHANNELS], ids=["tensor", "channel"])
@pytest.mark.parametrize("shape", [(4,), (2, 4), (2, 5, 4)], ids=str)
def test_linear_agrees_with_brevitas(shape, scale, training):
    """Value, scale, zero point, bit width and flags are Brevitas', shapes too."""
    operand = int_tensor(shape, training=training)
    weight = int_tensor((3, 4), bits=4, scale=scale)
    assert agrees(functional.linear, operand, weight)


@pytest.mark.parametrize("bias", ["floats", "integers", "integers of another scale"])
def test_a_bias_of_two_dimensions_agrees_with_brevitas(bias):
    """What is no integer of the scale goes into the zero point, as in Brevitas."""
    assert agrees(
        functional.linear, int_tensor((2, 4)), int_tensor((3, 4), scale=0.25), biases()[bias]
    )


@every_pair
@pytest.mark.parametrize("count", [1, 3, 257])
def test_no_sum_of_products_overflows(first, second, count):
    """The bit width holds the extremes of every pair of formats, mixed signs too."""
    for end in ENDS:
        for other in ENDS:
            x = at_end((2, count), first, end)
            w = at_end((3, count), second, other, scale=CHANNELS)
            assert holds(functional.linear(x, w), functional.linear(x.value, w.value))
            assert holds(x @ w.t(), x.value @ w.value.t())


@every_pair
def test_no_bias_overflows(first, second):
    """An integer bias at its extremes fits as well, whatever its sign."""
    for end in ENDS:
        x, w = at_end((2, 3), first, end), at_end((3, 3), second, end, scale=0.25)
        for form in ((8, True), (8, False), (16, False)):
            b = at_end((3,), form, end, scale=0.125)
            expected = functional.linear(x.value, w.value, b.value)
            assert holds(functional.linear(x, w, b), expected)


@every_bias
@pytest.mark.parametrize("kind", biases())
@pytest.mark.parametrize("scale", [0.25, CHANNELS], ids=["tensor", "channel"])
def test_a_bias_is_aligned_with_the_last_dimension(shape, kind, scale):
    """Integers and zero points stand for the values, in any number of dimensions."""
    x, w = int_tensor(shape), int_tensor((3, 4), bits=4, scale=scale)
    bias = biases()[kind]
    result = functional.linear(x, w, bias)
    plain_bias = bias if type(bias) is torch.Tensor else bias.value
    assert result.is_valid
    assert torch.equal(result.value, functional.linear(x.value, w.value, plain_bias))
    rebuilt = (result.int(float_datatype=True) - result.zero_point) * result.scale
    assert torch.allclose(rebuilt, result.value, rtol=1e-4, atol=1e-4)


def test_a_scale_for_each_row_of_the_input_stays():
    """Scales along dimensions that are left are multiplied: tokens times channels."""
    x = int_tensor((2, 4), scale=torch.tensor([[0.5], [0.25]]))
    w = int_tensor((3, 4), bits=4, scale=CHANNELS)
    result = functional.linear(x, w)
    assert torch.equal(result.scale, x.scale * CHANNELS.t())
    assert torch.equal(result.int() * result.scale, functional.linear(x.value, w.value))


@pytest.mark.parametrize(
    ("x", "w"),
    [
        (int_tensor((2, 4), scale=torch.tensor([0.5, 1.0, 0.25, 2.0])), int_tensor((4, 4))),
        (int_tensor((2, 4)), int_tensor((4, 4), scale=torch.tensor([0.5, 1.0, 0.25, 2.0]))),
        (int_tensor((2, 4), zero_point=2), int_tensor((4, 4))),
        (int_tensor((2, 4)), int_tensor((4, 4), zero_point=1)),
        (int_tensor((2, 4)), int_tensor((4, 4)).value),
        (int_tensor((2, 4)).value, int_tensor((4, 4))),
        (int_tensor((2, 4)), float_tensor((4, 4))),
        (groupwise_int_tensor((2, 4)), int_tensor((4, 4))),
        (float_tensor((2, 4)), float_tensor((4, 4))),
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "operation", [functional.linear, torch.matmul, torch.mm], ids=["linear", "matmul", "mm"]
)
def test_what_has_no_common_grid_is_plain(operation, x, w):
    """Scales along what is summed up, zero points, and other classes give plain tensors."""
    x, w = x.clone(), w.clone()
    if operation is not functional.linear:
        w = w.t()
    values = [getattr(t, "value", t) for t in (x, w)]
    assert plain(operation(x, w), operation(*values))


@pytest.mark.parametrize(
    "shapes",
    [
        ((2, 4), (4, 3)),
        ((4,), (4, 3)),
        ((2, 4), (4,)),
        ((4,), (4,)),
        ((5, 2, 4), (4, 3)),
        ((2, 4), (5, 4, 3)),
        ((5, 1, 2, 4), (6, 4, 3)),
    ],
    ids=str,
)
def test_matmul_of_every_rank(shapes):
    """Every form of matmul gives integers on the product of the scales."""
    first, second = int_tensor(shapes[0]), int_tensor(shapes[1], bits=4, seed=1)
    result = first @ second
    assert torch.equal(result.value, first.value @ second.value)
    assert torch.equal(result.int() * result.scale, result.value)
    assert result.scale.dim() == result.dim()


def test_matmul_keeps_scales_of_rows_and_columns():
    """A scale for each row times one for each column."""
    first = int_tensor((2, 4), scale=torch.tensor([[0.5], [0.25]]))
    second = int_tensor((4, 3), scale=torch.tensor([0.5, 1.0, 2.0]))
    result = first @ second
    assert torch.equal(result.scale, first.scale * second.scale)
    assert torch.equal(result.int() * result.scale, first.value @ second.value)


def test_all_ways_to_call_give_the_same():
    """By position, by name, as operator, method or function."""
    x, w = int_tensor((2, 4)), int_tensor((4, 3), seed=1)
    expected = x @ w
    called = [
        torch.matmul(x, w),
        torch.matmul(input=x, other=w),
        torch.matmul(x, other=w),
        torch.mm(x, mat2=w),
        x.mm(w),
        x.matmul(w),
        functional.linear(input=x, weight=w.t()),
        functional.linear(x, w.t(), None),
        functional.linear(x, bias=None, weight=w.t()),
    ]
    for result in called:
        assert torch.equal(result.int(), expected.int())
        assert repr(result) == repr(expected)


@pytest.mark.parametrize("bias", [True, False])
def test_a_linear_module_takes_a_quantized_weight(bias):
    """nn.Linear with a quant tensor as its parameter gives a quant tensor for a quant tensor."""
    module = nn.Linear(4, 3, bias=bias)
    module.weight = nn.Parameter(int_tensor((3, 4), bits=4, scale=CHANNELS))
    x = int_tensor((2, 5, 4))
    result = module(x)
    assert isinstance(result, IntQuantTensor)
    assert result.is_valid
    assert torch.equal(result.value, functional.linear(x.value, module.weight.value, module.bias))
    assert type(module(x.value)) is torch.Tensor


def test_gradients_are_those_of_the_values():
    """Input, weight, bias and scale get the gradients of the plain product."""
    leaves = [torch.randn(2, 4), torch.randn(3, 4), torch.randn(3)]
    x, w, b = (t.requires_grad_() for t in leaves)
    scale = torch.tensor(0.5, requires_grad=True)
    product = functional.linear(
        IntQuantTensor(x, scale, 0, 8, signed=True), IntQuantTensor(w, 0.25, 0, 8, signed=True), b
    )
    found = torch.autograd.grad(
        product.value.square().sum() + product.scale.sum(), [x, w, b, scale]
    )
    expected = torch.autograd.grad(functional.linear(x, w, b).square().sum(), [x, w, b])
    for gradient, wanted in zip(found, [*expected, torch.tensor(0.25)], strict=True):
        assert torch.allclose(gradient, wanted)


def test_a_learned_bit_width_gets_gradients():
    """The bit width of a product follows those of its operands."""
    bits = torch.tensor(4.5, requires_grad=True)
    x = int_tensor((2, 4), bits=4).set(bit_width=bits)
    result = functional.linear(x, int_tensor((3, 4), bits=4), int_tensor((3,), scale=0.25))
    assert result.is_valid
    assert torch.autograd.grad(result.bit_width, bits)[0] > 0
