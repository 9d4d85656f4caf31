"""Rules of products, pools and joins run in compiled graphs, on fake tensors and in exports."""

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional

from qconfig.tensors.quant_tensor import IntQuantTensor
from tests.tensors.quant_tensor.samples import float_tensor, int_tensor, same

IMAGE = int_tensor((1, 2, 6, 6))
SHIFTED = int_tensor((1, 2, 6, 6), signed=False, zero_point=3)
X, W = int_tensor((2, 5, 4)), int_tensor((3, 4), bits=4, scale=torch.tensor([[0.5], [1.0], [2.0]]))
CASES = {
    "linear": (functional.linear, (X, W)),
    "linear with a bias": (functional.linear, (X, W, torch.tensor([0.3, 1.0, 2.0]))),
    "linear of a learned width": (
        functional.linear,
        (int_tensor((2, 4), bits=4).set(bit_width=torch.tensor(4.5)), W),
    ),
    "matmul": (torch.matmul, (X, int_tensor((4, 3)))),
    "conv2d": (
        lambda a, b: functional.conv2d(a, b, padding="same"),
        (IMAGE, int_tensor((4, 2, 3, 3))),
    ),
    "conv_transpose2d": (
        lambda a, b: functional.conv_transpose2d(a, b, stride=2),
        (IMAGE, int_tensor((2, 4, 3, 3))),
    ),
    "avg_pool2d": (lambda a: functional.avg_pool2d(a, 2), (SHIFTED,)),
    "adaptive_avg_pool2d": (lambda a: functional.adaptive_avg_pool2d(a, (2, None)), (SHIFTED,)),
    "max_pool2d": (lambda a: functional.max_pool2d(a, 2), (SHIFTED,)),
    "max_pool1d": (lambda a: functional.max_pool1d(a, 2), (int_tensor((1, 2, 6)),)),
    "adaptive_max_pool2d": (lambda a: functional.adaptive_max_pool2d(a, 2), (SHIFTED,)),
    "relu": (functional.relu, (IMAGE,)),
    "relu of small floats": (functional.relu, (float_tensor(),)),
    "dropout": (lambda a: functional.dropout(a, 0.5, training=False), (SHIFTED,)),
    "pad": (lambda a: functional.pad(a, (1, 1)), (IMAGE,)),
    "pad with reflections": (
        lambda a: functional.pad(a, (1, 1, 1, 1), mode="reflect"),
        (SHIFTED,),
    ),
    "interpolate": (lambda a: functional.interpolate(a, scale_factor=2), (SHIFTED,)),
    "pixel_unshuffle": (lambda a: functional.pixel_unshuffle(a, 2), (SHIFTED,)),
    "cat": (lambda a, b: torch.cat([a, b], -1), (SHIFTED, SHIFTED)),
    "cat of channels": (lambda a, b: torch.cat([a, b]), (W, W)),
    "cat of small floats": (lambda a, b: torch.cat([a, b]), (float_tensor(), float_tensor())),
    "embedding": (
        lambda w: functional.embedding(torch.tensor([1, 0]), w),
        (int_tensor(zero_point=3),),
    ),
}
every = pytest.mark.parametrize(("operation", "operands"), CASES.values(), ids=CASES.keys())


@every
def test_a_compiled_graph_gives_the_same(operation, operands):
    """Class, metadata and values are those of eager, in one graph."""
    torch._dynamo.reset()
    compiled = torch.compile(operation, fullgraph=True, backend="aot_eager")
    assert same(compiled(*operands), operation(*operands))


@every
def test_fake_tensors_go_through(operation, operands):
    """Shapes and classes are there without elements."""
    expected = operation(*operands)
    with FakeTensorMode() as mode:
        result = operation(*map(mode.from_tensor, operands))
    assert type(result) is type(expected)
    assert (result.shape, result.scale.shape) == (expected.shape, expected.scale.shape)


class _Values(nn.Module):
    def __init__(self, operation):
        super().__init__()
        self.operation = operation

    def forward(self, *operands):
        return self.operation(*operands).value


@pytest.mark.parametrize("name", ["linear", "conv2d", "avg_pool2d", "relu", "pad", "cat"])
def test_an_export_computes_the_same(name):
    """A graph with quant tensors as inputs gives the values of eager."""
    operation, operands = CASES[name]
    program = torch.export.export(_Values(operation), operands)
    assert torch.equal(program.module()(*operands), operation(*operands).value)


@pytest.mark.parametrize("scale", [0.125, 0.3], ids=["same", "other"])
def test_an_integer_bias_is_looked_at_when_the_graph_runs(scale):
    """Whether its scale is that of the product is known then; the integers are the same."""
    operands = int_tensor((2, 4)), int_tensor((3, 4), scale=0.25), int_tensor((3,), scale=scale)
    compiled = torch.compile(functional.linear, fullgraph=True, backend="aot_eager")
    expected, found = functional.linear(*operands), compiled(*operands)
    assert torch.equal(found.value, expected.value)
    assert torch.equal(found.zero_point.expand(2, 3), expected.zero_point.expand(2, 3))
    assert torch.equal(found.int(), expected.int())


def test_a_bound_that_nobody_can_look_at_is_plain():
    """While tracing, nobody knows whether 6 lies on the grid."""
    compiled = torch.compile(functional.relu6, fullgraph=True, backend="aot_eager")
    assert type(compiled(IMAGE)) is torch.Tensor
    assert isinstance(functional.relu6(IMAGE), IntQuantTensor)


def test_joined_scales_are_compared_when_the_graph_runs():
    """What eager refuses, a compiled graph refuses when it meets it."""
    compiled = torch.compile(
        lambda a, b: torch.cat([a, b]).value, fullgraph=True, backend="aot_eager"
    )
    assert torch.equal(compiled(X, X), torch.cat([X.value, X.value]))
    with pytest.raises(RuntimeError, match="scales of joined tensors differ"):
        compiled(X, int_tensor((2, 5, 4), scale=0.25))


def test_gradients_of_a_compiled_product():
    """Values and scale get the gradients of eager."""

    def loss(x, w, scale):
        product = functional.linear(
            IntQuantTensor(x, scale, 0, 8, signed=True), IntQuantTensor(w, 0.5, 0, 8, signed=True)
        )
        return product.value.square().sum() + product.scale.sum()

    leaves = [torch.randn(2, 4), torch.randn(3, 4), torch.tensor(0.5)]
    leaves = [leaf.requires_grad_() for leaf in leaves]
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    found = torch.autograd.grad(compiled(*leaves), leaves)
    for gradient, expected in zip(found, torch.autograd.grad(loss(*leaves), leaves), strict=True):
        assert torch.allclose(gradient, expected)
