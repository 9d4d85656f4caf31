"""Quant modules in compiled and exported graphs, and with plain tensors between them."""

import copy

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

from qconfig.configs.int_quant import IntQuantConfig
from qconfig.modules import (
    QuantIdentity,
    QuantLinear,
    QuantReLU,
    freeze,
    plain_inference,
    record_metadata,
)
from tests.modules.nets import ACTIVATION, STEPS, WEIGHT, images, quantized, trained


@pytest.mark.parametrize("flowing", [False, True])
def test_compiled(flowing):
    """A compiled network gives what the eager one does."""
    model = trained(flowing=flowing)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(images()), model(images()))


@pytest.mark.parametrize("flowing", [False, True])
def test_exported(flowing):
    """An exported network gives what the eager one does."""
    model = trained(flowing=flowing)
    exported = torch.export.export(model, (images(),)).module()
    assert torch.equal(exported(images()), model(images()))


def test_compiled_training():
    """Compiled training goes through calibration and the turn as eager training does."""
    eager = quantized()
    other = copy.deepcopy(eager)
    compiled = torch.compile(other, fullgraph=True, backend="aot_eager")
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (eager, other)]
    for seed in range(STEPS + 3):
        losses = []
        for model, optimizer in zip((eager, compiled), optimizers, strict=True):
            loss = model(images(seed=seed)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss)
        torch.testing.assert_close(*losses)
    pairs = zip(eager.state_dict().items(), other.state_dict().values(), strict=True)
    for (name, one), two in pairs:
        torch.testing.assert_close(one, two, msg=name)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("seen", [1, STEPS + 2])
def test_one_graph_for_all_layers_of_a_shape(seen, training):
    """Layers of one shape share a graph, whatever they have learned."""
    torch._dynamo.reset()
    counter = CompileCounterWithBackend("aot_eager")
    for seed in range(10):
        torch.manual_seed(seed)
        layer = QuantLinear(
            torch.nn.Linear(6, 5), weight=WEIGHT, input=ACTIVATION, bias=WEIGHT.bias
        )
        for _ in range(seen):
            layer(torch.randn(4, 6))
        block = torch.nn.Sequential(layer.train(training), torch.nn.ReLU())
        block.compile(fullgraph=True, backend=counter)
        block(torch.randn(4, 6))
    torch._dynamo.reset()
    assert counter.frame_count == 1


def test_calibration_that_is_compiled_is_seen_afterwards():
    """What a compiled run has counted is known to the next eager one."""
    module = QuantIdentity(act=IntQuantConfig(scale_kind="PARAMETER_FROM_STATS", collect_steps=2))
    eager = copy.deepcopy(module)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    for seed in range(4):
        compiled(images(seed=seed)), eager(images(seed=seed))
    assert module.act_quant.steps == eager.act_quant.steps == 3
    assert torch.equal(module.eval()(images()), eager.eval()(images()))


def test_nothing_seen_gives_nan_in_a_graph():
    """A graph cannot raise: what was computed from nothing is NaN."""
    module = QuantReLU(act=IntQuantConfig(scale_kind="STATS")).eval()
    exported = torch.export.export(module, (images(),)).module()
    assert exported(images()).isnan().all()


def test_plain_tensors_between_modules():
    """With what was recorded, plain tensors flow through the whole network, again and again."""
    model = trained(flowing=True)
    expected = model(images())
    with record_metadata(model):
        model(images())
    seen = []
    model.act.register_forward_hook(lambda _, __, output: seen.append(type(output)))
    with plain_inference(model):
        assert torch.equal(model(images()), expected)
        assert torch.equal(model(images(3)), model(images())[:3])
        assert set(seen) == {torch.Tensor}
        exported = torch.export.export(model, (images(),)).module()
    assert torch.equal(exported(images()), expected)
    assert torch.equal(model(images()), expected)


def test_frozen_and_exported():
    """A frozen network can be exported with its quantized weights inside."""
    model = freeze(trained())
    exported = torch.export.export(model, (images(),)).module()
    assert torch.equal(exported(images()), model(images()))
