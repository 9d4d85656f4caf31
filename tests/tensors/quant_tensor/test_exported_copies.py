"""Copies of quant tensors in exported and compiled graphs keep class and metadata."""

import pytest
import torch
from torch import nn

from qconfig.tensors.quant_tensor import IntQuantTensor
from tests.tensors.quant_tensor.samples import SAMPLES, int_tensor, same

every_sample = pytest.mark.parametrize("make", SAMPLES.values(), ids=SAMPLES.keys())

COPIES = {
    "detach": lambda q: q.detach(),
    "clone": lambda q: q.clone(),
    "contiguous": lambda q: q.contiguous(),
    "cpu": lambda q: q.cpu(),
    "double": lambda q: q.double(),
    "to": lambda q: q.to(torch.bfloat16),
    "to a device": lambda q: q.to("cpu", torch.float16),
}
each_copy = pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES.keys())


class Copies(nn.Module):
    """Returns what a function makes of its input."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, q):
        return self.function(q)


@each_copy
@every_sample
def test_an_exported_copy_is_one(make, copied):
    """The program gives the copy that eager mode gives."""
    tensor = make()
    program = torch.export.export(Copies(copied), (tensor,))
    assert same(program.module()(tensor), copied(tensor))


@each_copy
def test_a_copy_of_what_is_made_inside_is_exported(copied):
    """Made of a plain input and copied, a quant tensor is returned whole."""

    def made(x):
        return copied(IntQuantTensor(torch.round(x * 2) / 2, torch.tensor(0.5), 0, 8, signed=True))

    x = torch.arange(6.0).reshape(2, 3)
    found = torch.export.export(Copies(made), (x,)).module()(x)
    assert same(found, made(x))


@each_copy
@every_sample
def test_a_compiled_copy_is_one(make, copied):
    """A compiled region that only copies its input returns the class."""
    tensor = make()
    compiled = torch.compile(copied, fullgraph=True, backend="aot_eager")
    assert same(compiled(tensor), copied(tensor))


def test_metadata_alone_is_exported():
    """The scale of metadata alone is an output like others."""
    tensor = int_tensor()
    program = torch.export.export(Copies(lambda q: q.metadata_only().scale * 2), (tensor,))
    assert program.module()(tensor) == 1.0


def test_what_is_made_inside_and_returned_has_elements():
    """An exported program returns tensors, not those of the tracer."""
    program = torch.export.export(
        Copies(lambda x: IntQuantTensor(x, torch.tensor(0.5), 0, 8, signed=True)),
        (torch.ones(2),),
    )
    found = program.module()(torch.full((2,), 3.0))
    assert torch.equal(found.int(), torch.tensor([6, 6], dtype=torch.int8))
