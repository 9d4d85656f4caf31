"""Views of quant tensors: gradients, and graphs that are traced."""

import pytest
import torch
from torch._subclasses import FakeTensorMode

from qconfig.tensors.quant_tensor import (
    FloatQuantTensor,
    GroupwiseIntQuantTensor,
    IntQuantTensor,
)
from tests.tensors.quant_tensor.groupwise_samples import groupwise_int

# Dynamo asks inputs for `.grad` and hides the warning, but not where warnings are errors.
pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")

VIEWS = {
    "view": lambda x: x.view(4, 2, 3),
    "flatten": lambda x: x.unflatten(1, (2, 3)).flatten(1),
    "transpose": lambda x: x.transpose(0, 1),
    "T": lambda x: x.T,
    "permute": lambda x: x.permute(1, 0),
    "squeeze": lambda x: x.unsqueeze(1).squeeze(),
    "slice": lambda x: x[1:3, ::2],
    "row": lambda x: x[1],
    "rows": lambda x: x[[0, 2, 2]],
    "new dimension": lambda x: x[..., None],
    "select": lambda x: x.select(0, -1),
    "narrow": lambda x: x.narrow(0, 1, 2),
    "split": lambda x: torch.split(x, 2)[1],
    "unbind": lambda x: x.unbind()[3],
    "iteration": lambda x: list(x)[2],
    "expand": lambda x: x.expand(2, 4, 6),
    "repeat": lambda x: x.repeat(2, 1),
    "flip": lambda x: x.flip(0),
    "index_select": lambda x: x.index_select(0, torch.tensor([1, 1])),
    "gather": lambda x: x.gather(0, torch.zeros(2, 6, dtype=torch.long)),
}


def operands():
    """Return values on a grid, and a scale for each row, both with gradients."""
    scale = torch.tensor([[0.5], [0.25], [1.0], [2.0]])
    value = (torch.arange(24.0).reshape(4, 6) - 12) * scale
    return value.requires_grad_(), scale.requires_grad_()


def gradients(function):
    """Return what a function of value and scale gives, and its gradients."""
    value, scale = operands()
    result = function(value, scale)
    (result * torch.arange(1.0, 1 + result.numel()).reshape(result.shape)).sum().backward()
    return result, value.grad, scale.grad


def on_quant(view):
    """Return a function that views a quant tensor of value and scale, and uses both."""

    def function(value, scale):
        result = view(IntQuantTensor(value, scale, 0, 6, True))
        return result.value + result.scale * 2 + result.int(float_datatype=True)

    return function


def on_plain(view):
    """Return a function that does the same with plain tensors: a scale for each value."""

    def function(value, scale):
        full = scale.expand(value.shape)
        exact = view(value) / view(full)
        integers = exact + (exact.round() - exact).detach()
        return view(value) + view(full) * 2 + integers

    return function


def same(first, second):
    """Return whether results and gradients are the same."""
    return all(torch.allclose(a, b, rtol=1e-6) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("name", VIEWS)
def test_gradients_are_those_of_plain_tensors(name):
    """Gradients reach value and scale as they do in the same views of plain tensors."""
    assert same(gradients(on_quant(VIEWS[name])), gradients(on_plain(VIEWS[name])))


@pytest.mark.parametrize("name", VIEWS)
def test_gradients_in_a_compiled_graph(name):
    """A compiled graph gives what plain tensors give, gradients too."""
    torch._dynamo.reset()
    view = VIEWS[name]

    def used(tensor):
        result = view(tensor)
        return result.value + result.scale * 2 + result.value / result.scale

    compiled = torch.compile(used, fullgraph=True, backend="aot_eager")
    found = gradients(lambda v, s: compiled(IntQuantTensor(v, s, 0, 6, True)))
    expected = gradients(lambda v, s: view(v) + view(s.expand(4, 6)) * 2 + view(v / s))
    assert same(found, expected)


@pytest.mark.parametrize("name", VIEWS)
def test_a_compiled_graph_gives_quant_tensors(name):
    """What leaves a compiled graph is what the operation gives outside of it."""
    torch._dynamo.reset()
    view = VIEWS[name]
    tensor = IntQuantTensor(*[t.detach() for t in operands()], 0, 6, True)
    compiled = torch.compile(view, fullgraph=True, backend="aot_eager")(tensor)
    expected = view(tensor)
    assert type(compiled) is type(expected) is IntQuantTensor
    assert torch.equal(compiled.int(), expected.int())
    assert torch.equal(compiled.scale, expected.scale)
    assert (compiled.bit_width, compiled.signed) == (expected.bit_width, expected.signed)


@pytest.mark.parametrize("name", ["transpose", "slice", "flatten", "T", "rows"])
def test_gradients_of_what_leaves_a_compiled_graph(name):
    """Gradients go through a quant tensor that leaves a compiled graph, to value and scale."""
    torch._dynamo.reset()
    view = VIEWS[name]
    compiled = torch.compile(view, fullgraph=True, backend="aot_eager")

    def used(value, scale):
        result = compiled(IntQuantTensor(value, scale, 0, 6, True))
        return result.value + result.scale * 2 + result.int(float_datatype=True)

    assert same(gradients(used), gradients(on_plain(view)))


@pytest.mark.parametrize("name", ["slice", "row", "select", "narrow", "split", "unbind"])
def test_groups_in_a_compiled_graph(name):
    """Slices of tensors in groups keep their class in a compiled graph."""
    torch._dynamo.reset()
    tensor, view = groupwise_int((4, 12), 4, -1), VIEWS[name]
    operation = (lambda x: x[1:3, :8]) if name == "slice" else view
    compiled = torch.compile(operation, fullgraph=True, backend="aot_eager")(tensor)
    assert type(compiled) is GroupwiseIntQuantTensor
    assert (compiled.group_dim, compiled.dequant_shape) == (-1, operation(tensor).dequant_shape)
    assert torch.equal(compiled.value, operation(tensor).value)


def test_gradients_of_a_slice_of_groups():
    """Gradients reach the stored values and the scales of the groups that are left."""
    value = torch.ones(3, 2, 4, requires_grad=True)
    scale = torch.ones(3, 2, 1, requires_grad=True)
    part = GroupwiseIntQuantTensor(value, scale, 0, 4, 1, 8, True)[1, 4:]
    (part.value + 3 * part.scale).sum().backward()
    expected = torch.zeros(3, 2, 4)
    expected[1, 1] = 1
    assert torch.equal(value.grad, expected)
    assert torch.equal(scale.grad, 12 * expected[..., :1])


def test_sizes_of_a_batch_may_be_dynamic():
    """A graph serves batches of other sizes without being compiled anew."""
    torch._dynamo.reset()
    scale = torch.tensor([[[0.5]], [[0.25]], [[1.0]]])

    def flat(tensor):
        return tensor.flatten(2).transpose(1, 2)[1:]

    compiled = torch.compile(flat, fullgraph=True, backend="aot_eager", dynamic=True)
    for batch in (4, 7):
        tensor = IntQuantTensor(torch.ones(batch, 3, 5, 2), scale, 0, 8, True)
        result = compiled(tensor)
        assert torch.equal(result.value, flat(tensor).value)
        assert tuple(result.scale.shape) == (1, 1, 3)
        assert tuple(result.shape) == (batch - 1, 10, 3)


@pytest.mark.parametrize("name", VIEWS)
def test_fake_tensors(name):
    """Tensors without elements have the same views."""
    with FakeTensorMode():
        tensor = IntQuantTensor(torch.empty(4, 6), torch.empty(4, 1), 0, 8, True)
        result = VIEWS[name](tensor)
        assert type(result) is IntQuantTensor
        torch.broadcast_shapes(result.scale.shape, result.shape)


def test_export():
    """A model that views quant tensors is exported, and gives what it gave."""

    class Model(torch.nn.Module):
        def forward(self, value, scale):
            tensor = FloatQuantTensor(value, scale, 0, 4, 3, 7, True, None, None, True)
            result = tensor.unflatten(1, (2, 3)).transpose(0, 1)[0]
            return result.value + result.scale

    inputs = tuple(t.detach() for t in operands())
    program = torch.export.export(Model(), inputs)
    assert torch.equal(program.module()(*inputs), Model()(*inputs))


def test_parameters():
    """A view of a parameter leads back to it."""
    parameter = torch.nn.Parameter(IntQuantTensor(torch.ones(4, 6), 1.0, 0, 8, True))
    parameter.t()[2:].value.sum().backward()
    assert parameter.grad.sum().item() == 16
