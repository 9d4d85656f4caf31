"""Quantized layers of a kind share one compilation, one by one as well as in a stack."""

import pytest
import torch
from torch import nn
from torch._dynamo.testing import CompileCounterWithBackend

from tests.tensors.samples import activation, packed


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def test_no_compilation_for_another_weight():
    """One compiled function serves 12 weights of a kind and two batch sizes, without another."""
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(nn.functional.linear, fullgraph=True, dynamic=True, backend=counter)
    with torch.no_grad():
        for seed in range(12):
            for rows in (3, 9):
                x, weight = activation(rows, 64), packed(seed=seed)
                assert torch.allclose(compiled(x, weight), x @ weight.dequantize().t(), atol=1e-4)
    assert counter.frame_count == 1


def test_no_compilation_for_another_block():
    """Blocks that are compiled one by one share a compilation, though each has its own weight."""
    counter = CompileCounterWithBackend("aot_eager")
    blocks = []
    for seed in range(12):
        block = nn.Sequential(nn.Linear(64, 32), nn.ReLU())
        block[0].weight = nn.Parameter(packed(seed=seed))
        block.compile(fullgraph=True, dynamic=True, backend=counter)
        blocks.append(block)
    with torch.no_grad():
        for block in blocks:
            for rows in (3, 9):
                x = activation(rows, 64)
                expected = (x @ block[0].weight.dequantize().t() + block[0].bias).relu()
                assert torch.allclose(block(x), expected, atol=1e-4)
    assert counter.frame_count == 1
