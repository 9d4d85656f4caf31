"""torch.compile, FakeTensor and torch.export take quant tensors as they are."""

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from qconfig.tensors.quant_tensor import IntQuantTensor
from tests.tensors.quant_tensor.samples import SAMPLES, int_tensor, same

every_sample = pytest.mark.parametrize("make", SAMPLES.values(), ids=SAMPLES.keys())
both_exports = pytest.mark.parametrize("strict", [False, True], ids=["non-strict", "strict"])


@every_sample
def test_attributes_are_read_inside_of_a_compiled_region(make):
    """Every field is there, whole graph."""
    tensor = make()

    def read(q):
        return q.value * 2, q.scale + 0, q.zero_point + 0, q * 1.0, q.signed

    compiled = torch.compile(read, fullgraph=True, backend="aot_eager")
    for found, expected in zip(compiled(tensor), read(tensor), strict=True):
        assert found is expected if isinstance(expected, bool) else torch.equal(found, expected)


def test_metadata_of_results_is_computed_while_tracing():
    """A compiled sum has the bit width, scale and class of the eager one."""
    compiled = torch.compile(lambda a, b: a + b, fullgraph=True, backend="aot_eager")
    first, second = int_tensor(bits=4, signed=False), int_tensor(bits=8, seed=1)
    assert same(compiled(first, second), first + second)


def test_new_elements_do_not_compile_again():
    """Flags are guarded, elements are not: a region is compiled once for equal metadata."""
    counter = torch._dynamo.testing.CompileCounter()
    compiled = torch.compile(lambda a: a * a, fullgraph=True, backend=counter)
    for seed in range(3):
        compiled(int_tensor(seed=seed, scale=0.5 + seed))
    assert counter.frame_count == 1
    compiled(int_tensor(signed=False))
    assert counter.frame_count == 2


def test_different_scales_are_found_out_when_the_graph_runs():
    """What eager refuses, a compiled region refuses when it meets it."""
    compiled = torch.compile(lambda a, b: (a + b).value, fullgraph=True, backend="aot_eager")
    same_scale = int_tensor(), int_tensor(seed=1)
    assert torch.equal(compiled(*same_scale), same_scale[0].value + same_scale[1].value)
    with pytest.raises(RuntimeError, match="the scales of two operands differ"):
        compiled(int_tensor(), int_tensor(scale=0.25))


def test_invalid_integers_are_found_out_when_the_graph_runs():
    """`int()` of values off the grid is refused in a compiled region, too."""
    compiled = torch.compile(lambda q: q.int(), fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(int_tensor()), int_tensor().int())
    with pytest.raises(RuntimeError, match="not valid"):
        compiled(int_tensor(scale=1.0).set(scale=0.7))


@every_sample
def test_fake_tensors_keep_class_shape_and_metadata(make):
    """A tracer's copy has inner tensors of the tracer, and the same plain data."""
    tensor = make()
    shape, context = tensor.value.shape, tensor.flat()[1]
    with FakeTensorMode() as mode:
        fake = mode.from_tensor(tensor)
        assert type(fake) is type(tensor)
        assert fake.shape == tensor.shape
        assert fake.value.shape == shape
        assert fake.flat()[1] == context
        assert (fake * 2.0).shape == tensor.shape


def test_a_quant_tensor_is_made_of_fake_tensors():
    """Construction and arithmetic run where no tensor has elements."""
    with FakeTensorMode():
        tensor = IntQuantTensor(torch.ones(2, 3), 0.5, 0, 8, signed=True)
        assert (tensor + tensor).shape == (2, 3)
        assert (tensor + tensor).number("bit_width") == 9


class _Takes(nn.Module):
    def forward(self, q):
        return (q + q).value * q.scale, q * 3.0


class _Makes(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(0.5))

    def forward(self, value):
        tensor = IntQuantTensor(value, self.scale, 0, 8, signed=True)
        total = tensor + tensor
        return total.value * total.scale


class _Holds(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(int_tensor(), requires_grad=False)

    def forward(self, x):
        return nn.functional.linear(x, self.weight)


@every_sample
def test_export_takes_a_quant_tensor_as_input(make):
    """An exported program computes what the module does, from fields and by operations."""
    tensor = make()
    module = _Takes() if isinstance(tensor, IntQuantTensor) else _Reads()
    program = torch.export.export(module, (tensor,))
    found, expected = program.module()(tensor), module(tensor)
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


class _Reads(nn.Module):
    def forward(self, q):
        return q.value * q.scale, q * 3.0


class _Negates(nn.Module):
    def forward(self, q):
        return -q


@every_sample
def test_export_returns_every_class(make):
    """What is negated in an exported program is the same as without."""
    tensor = make()
    program = torch.export.export(_Negates(), (tensor,))
    assert same(program.module()(tensor), -tensor)


@both_exports
def test_export_returns_a_quant_tensor(strict):
    """A result keeps class and metadata."""

    class Adds(nn.Module):
        def forward(self, q):
            return q + q

    tensor = int_tensor()
    program = torch.export.export(Adds(), (tensor,), strict=strict)
    assert same(program.module()(tensor), tensor + tensor)


@both_exports
@pytest.mark.parametrize("module", [_Makes(), _Holds()], ids=["makes one", "holds one"])
def test_export_has_quant_tensors_inside(module, strict):
    """A module that makes or holds a quant tensor exports to plain operators."""
    x = torch.arange(12.0).reshape(2, 6)
    program = torch.export.export(module, (x,), strict=strict)
    assert torch.equal(program.module()(x), module(x))
