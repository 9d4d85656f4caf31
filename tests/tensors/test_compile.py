from typing import Any

import pytest
import torch
from torch import nn
from torch._dynamo.testing import CompileCounterWithBackend
from torch._subclasses import FakeTensorMode

from qconfig.configs import PerGroup, PerRow
from tests.tensors.samples import activation, packed


def layer(seed: int, **options: Any) -> nn.Linear:
    """Return a linear with a quantized weight."""
    module = nn.Linear(64, 32)
    module.weight = nn.Parameter(packed(seed=seed, **options))
    return module


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def test_one_compilation_for_a_stack_of_layers_and_all_batches():
    """A model of 12 quantized layers compiles once for batches of 3, 9 and 200."""
    counter = CompileCounterWithBackend("aot_eager")
    blocks = [nn.Sequential(layer(i), nn.Linear(32, 64)) for i in range(12)]
    model = nn.Sequential(*blocks)
    compiled = torch.compile(model, fullgraph=True, dynamic=True, backend=counter)
    with torch.no_grad():
        for rows in (3, 9, 200):
            x = activation(rows, 64)
            assert torch.allclose(compiled(x), model(x), atol=1e-4)
    assert counter.frame_count == 1


@pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")
def test_inductor_gives_the_eager_result():
    """Generated code calls the same operator: the bits are those of the eager path."""
    module = layer(0, dtype=torch.bfloat16).bfloat16()
    compiled = torch.compile(module, fullgraph=True, dynamic=True)
    with torch.no_grad():
        for rows in (2, 30):
            x = activation(rows, 64, dtype=torch.bfloat16)
            assert torch.equal(compiled(x), module(x))


@pytest.mark.parametrize("granularity", [PerRow(), PerGroup(16)])
def test_other_operators_compile(granularity):
    """Pre-scale, embedding, transposed product, slices and dequantize trace in full graphs."""

    def call(w: torch.Tensor, x: torch.Tensor, i: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            nn.functional.embedding(i, w),
            x @ w.t(),
            nn.functional.linear(x, w[:16]),
            w.dequantize(),
        )

    args = (packed(granularity=granularity), activation(3, 64), torch.tensor([1, 2]))
    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    with torch.no_grad():
        for found, expected in zip(compiled(*args), call(*args), strict=True):
            assert torch.allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_pre_scale_compiles_with_gradient():
    """A compiled linear with act_pre_scale has the eager gradient."""
    module = layer(0, act_pre_scale=torch.rand(64))
    grads = []
    for function in (module, torch.compile(module, fullgraph=True, backend="aot_eager")):
        x = activation(3, 64).requires_grad_()
        function(x).sum().backward()
        grads.append(x.grad)
    assert torch.allclose(*grads)


def test_operator_obeys_torchs_rules():
    """Schema, fake kernel and autograd registration of qconfig::int8_linear pass torch's check."""
    tensor = packed()
    args = (activation(3, 64).requires_grad_(), tensor.qdata, tensor.scale, None)
    torch.library.opcheck(torch.ops.qconfig.int8_linear.default, args)


def test_fake_tensors_touch_no_elements():
    """Under FakeTensorMode every operator gives shapes."""
    mode = FakeTensorMode()
    tensor, x = (
        mode.from_tensor(packed(granularity=PerGroup(16))),
        mode.from_tensor(torch.ones(3, 64)),
    )
    with mode, torch.no_grad():
        assert (x @ tensor.t()).shape == (3, 32)
        assert tensor.dequantize().shape == (32, 64)
        assert tensor[:, 16:].to_layout().scale.shape == (32, 3)


def test_export():
    """torch.export traces a quantized module and the program gives its result."""
    module, x = layer(0), activation(3, 64)
    program = torch.export.export(module, (x,))
    assert torch.allclose(program.module()(x), module(x))


@pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")
def test_compiled_graphs_are_cached(tmp_path, monkeypatch):
    """A second process's compilation of a packed weight, as an argument, comes from the cache."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    counts = torch._dynamo.utils.counters["aot_autograd"]
    counts.clear()
    for seed in (0, 1):
        torch._dynamo.reset()
        compiled = torch.compile(nn.functional.linear, fullgraph=True)
        with torch.no_grad():
            compiled(activation(3, 64), packed(seed=seed))
    assert counts["autograd_cache_bypass"] == 0
    assert (counts["autograd_cache_miss"], counts["autograd_cache_hit"]) == (1, 1)


def test_cache_key_tells_forms_apart():
    """The key of the cache depends on the form, not on elements."""
    key = packed()._stable_hash_for_caching()
    assert packed(seed=1)._stable_hash_for_caching() == key
    others = [packed(dtype=torch.bfloat16), packed(granularity=PerGroup(16)), packed(16, 64)]
    assert len({key, *(o._stable_hash_for_caching() for o in others)}) == 4
