"""Gradients reach value and scale, in eager mode and through the border of compiled regions."""

import gc
import math
import weakref

import pytest
import torch
from torch import nn

from qconfig.tensors.quant_tensor import GroupwiseIntQuantTensor, IntQuantTensor

# torch says so of every tensor with a graph that a compiled region takes, and takes it.
pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")

FUNCTIONS = {
    "value": lambda q: q.value,
    "sum of two": lambda q: (q + q).value,
    "returned": lambda q: q + q,
    "product": lambda q: (q * q).value,
    "negated": lambda q: -q,
    "integers": lambda q: q.int(float_datatype=True),
    "scale of a result": lambda q: (q + q).scale * q.value,
    "bit width of a result": lambda q: (q + q).bit_width * q.value,
    "on values": lambda q: torch.exp2(q * 1.0),
}


def _leaves():
    value = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    return value, torch.tensor(0.5, requires_grad=True)


def _gradients(function, value, scale):
    result = function(IntQuantTensor(value, scale, 0, 8, signed=True, training=True))
    if isinstance(result, IntQuantTensor):
        result = result.value * result.scale
    result.sum().backward()
    return value.grad, scale.grad if scale.grad is not None else torch.zeros(())


EXPECTED = {
    "value": (1.0, 0.0),
    "sum of two": (2.0, 0.0),
    "returned": (1.0, 20.0),
    "product": ([[2.0, 4.0], [6.0, 8.0]], 0.0),
    "negated": (-0.5, -10.0),
    "integers": (2.0, -40.0),
    "scale of a result": (0.5, 10.0),
    "bit width of a result": (9.0, 0.0),
    "on values": ((2.0 ** torch.tensor([[1.0, 2.0], [3.0, 4.0]]) * math.log(2)).tolist(), 0.0),
}
"""Worked out by hand: d/dv and d/ds of the sum of each result; `int` is v / s straight through."""


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_are_those_of_the_formula(name):
    """Value and scale get the gradients of the arithmetic, straight through roundings."""
    value, scale = _gradients(FUNCTIONS[name], *_leaves())
    expected_value, expected_scale = EXPECTED[name]
    assert torch.equal(value, torch.zeros(2, 2) + torch.tensor(expected_value))
    assert scale == expected_scale


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_compiled_region_passes_gradients_in_and_out(name):
    """Compiled whole, a function of a quant tensor gives the same gradients."""
    compiled = torch.compile(FUNCTIONS[name], fullgraph=True, backend="aot_eager")
    eager = _gradients(FUNCTIONS[name], *_leaves())
    traced = _gradients(compiled, *_leaves())
    assert all(torch.equal(a, b) for a, b in zip(eager, traced, strict=True))


def test_a_tensor_made_inside_a_compiled_region_passes_gradients():
    """Made inside, returned and used outside: value and scale get all their gradients."""

    def function(value, scale):
        tensor = IntQuantTensor(value, scale, 0, 8, signed=True, training=True)
        total = tensor + tensor
        return total, total.value.sum(), tensor.int(float_datatype=True)

    found = []
    for run in (function, torch.compile(function, fullgraph=True, backend="aot_eager")):
        value, scale = _leaves()
        total, first, integers = run(value, scale)
        ((total.value * total.scale).sum() + first + integers.sum()).backward()
        found.append((value.grad, scale.grad))
    assert torch.equal(found[0][0], found[1][0])
    assert found[0][1] == found[1][1] == -20.0


def test_gradients_pass_through_two_compiled_regions():
    """What one region returns, the next takes."""
    value, scale = _leaves()
    double = torch.compile(lambda q: q + q, fullgraph=True, backend="aot_eager")
    result = double(double(IntQuantTensor(value, scale, 0, 8, signed=True)))
    (result.value * result.scale).sum().backward()
    assert result.bit_width == 10
    assert torch.equal(value.grad, torch.full((2, 2), 2.0))
    assert scale.grad == 40.0


def test_a_parameter_gets_the_gradient_of_its_values():
    """The gradient of a quant parameter is a plain tensor, and a second pass adds to it."""
    weight = nn.Parameter(IntQuantTensor(torch.ones(2, 3), 0.5, 0, 8, signed=True))
    x = torch.arange(6.0).reshape(2, 3)
    for _ in range(2):
        nn.functional.linear(x, weight).sum().backward()
    assert type(weight.grad) is torch.Tensor
    assert torch.equal(weight.grad, 2 * x.sum(0).expand(2, 3))


def test_autograd_grad_gives_plain_tensors():
    """torch.autograd.grad with a quant tensor as input gives the gradient of its values."""
    tensor = nn.Parameter(IntQuantTensor(torch.ones(2), 0.5, 0, 8, signed=True))
    (found,) = torch.autograd.grad((tensor * 3.0).sum(), tensor)
    assert type(found) is torch.Tensor
    assert torch.equal(found, torch.full((2,), 3.0))


def test_second_derivatives_exist():
    """Gradients can be differentiated again."""
    value = torch.ones(2, requires_grad=True)
    tensor = IntQuantTensor(value, 0.5, 0, 8, signed=True)
    (first,) = torch.autograd.grad((tensor * tensor).value.pow(2).sum(), value, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), value)
    assert torch.equal(second, torch.full((2,), 12.0))


def test_detach_cuts_the_graph_and_keeps_the_metadata():
    """A detached tensor asks for no gradient and has the same scale."""
    value, scale = _leaves()
    tensor = IntQuantTensor(value, scale, 0, 8, signed=True)
    detached = tensor.detach()
    assert tensor.requires_grad
    assert not detached.requires_grad
    assert not detached.value.requires_grad
    assert torch.equal(detached.scale, tensor.scale)


def test_groups_pass_gradients_to_stored_values_and_scales():
    """The gradient of the logical value arrives at what is stored."""
    value = torch.ones(1, 2, 4, requires_grad=True)
    scale = torch.ones(1, 2, 1, requires_grad=True)
    tensor = GroupwiseIntQuantTensor(value, scale, 0, 4, 1, 8, signed=True, dequant_shape=(1, 7))
    (tensor.value * tensor.scale).sum().backward()
    assert torch.equal(value.grad.flatten(), torch.tensor([1.0] * 7 + [0.0]))
    assert torch.equal(scale.grad.flatten(), torch.tensor([4.0, 3.0]))


def test_a_gradient_penalty_has_the_derivatives_of_plain_arithmetic():
    """With a scale that learns too, the gradient of a gradient is whole."""
    plain = torch.tensor([2.0, 3.0], requires_grad=True)
    value, scale = plain.detach().clone().requires_grad_(), torch.tensor(0.5, requires_grad=True)
    found = []
    for leaf, make in (
        (plain, lambda: plain * plain),
        (value, lambda: IntQuantTensor(value, scale, 0, 8, signed=True).value ** 2),
    ):
        loss = make().sum()
        (gradient,) = torch.autograd.grad(loss, leaf, create_graph=True)
        (loss + (gradient**2).sum()).backward()
        found.append(leaf.grad)
    assert torch.equal(found[0], torch.tensor([20.0, 30.0]))
    assert torch.equal(found[1], found[0])


def test_products_of_quant_tensors_have_second_derivatives():
    """A product of quant tensors, differentiated twice, is that of values."""
    value, scale = torch.tensor([2.0, 3.0], requires_grad=True), torch.ones((), requires_grad=True)
    tensor = IntQuantTensor(value, scale, 0, 8, signed=True)
    loss = (tensor * tensor).value.sum()
    (gradient,) = torch.autograd.grad(loss, value, create_graph=True)
    (loss + (gradient**2).sum()).backward()
    assert torch.equal(value.grad, torch.tensor([20.0, 30.0]))


class _Triples(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return IntQuantTensor(x, 0.5, 0, 8, signed=True)

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 3.0


def test_a_function_that_returns_a_quant_tensor_gets_its_gradient():
    """What an autograd function makes is differentiable through its value."""
    x = torch.ones(3, requires_grad=True)
    _Triples.apply(x).value.sum().backward()
    assert torch.equal(x.grad, torch.full((3,), 3.0))


def test_asking_by_attribute_is_asking_for_the_value():
    """`requires_grad = True` records gradients as `requires_grad_()` does."""
    tensor = IntQuantTensor(torch.ones(2), 0.5, 0, 8, signed=True)
    tensor.requires_grad = True
    (tensor * 3.0).sum().backward()
    assert torch.equal(tensor.grad, torch.full((2,), 3.0))


def test_a_leaf_whose_value_was_read_is_freed():
    """Reading the value of a parameter makes no cycle that keeps it alive."""
    weight = nn.Parameter(IntQuantTensor(torch.ones(2), 0.5, 0, 8, signed=True))
    weight.value.sum().backward()
    alive = weakref.ref(weight)
    del weight
    gc.collect()
    assert alive() is None
