"""Models on the meta device, and fake tensors: records and state are never made up."""

import copy

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from qconfig import load_checkpoint, save_checkpoint
from qconfig.configs.float_quant import FloatQuantConfig
from qconfig.configs.int_quant import IntQuantConfig
from qconfig.modules import QuantIdentity
from tests.modules.nets import images, quantized, trained


def equal_states(one, other):
    """Return whether two models have the same state."""
    first, second = one.state_dict(), other.state_dict()
    return first.keys() == second.keys() and all(torch.equal(first[k], second[k]) for k in first)


@pytest.mark.parametrize("assign", [False, True])
def test_a_model_without_data_is_loaded(assign):
    """A model of the meta device has its records after a load, by copies and by assignment."""
    source = trained()
    model = quantized(seed=1).to("meta")
    if not assign:
        model = model.to_empty(device="cpu")
    model.load_state_dict(source.state_dict(), assign=assign)
    assert equal_states(model, source)
    assert torch.equal(model.eval()(images()), source(images()))
    quantized(seed=2).load_state_dict(model.state_dict())


def test_a_record_survives_without_a_load():
    """A record is there as soon as there is memory for it."""
    model = quantized().to("meta").to_empty(device="cpu")
    name = "fc.weight_quant.config"
    assert torch.equal(model.state_dict()[name], quantized().state_dict()[name])


def test_a_checkpoint_is_loaded_into_a_model_without_data(tmp_path):
    """load_checkpoint fills a quantized model of the meta device."""
    source = trained()
    save_checkpoint(source, tmp_path / "c")
    model = quantized(seed=1).to("meta")
    load_checkpoint(tmp_path / "c", model=model)
    assert equal_states(model, source)


def test_formats_that_are_spelt_otherwise():
    """A bias of exponents that is the default is the same format, said or not."""
    said = QuantIdentity(act=FloatQuantConfig.of_format("OCP_E4M3"))
    unsaid = QuantIdentity(act=FloatQuantConfig())
    assert said.act_quant.recorded != unsaid.act_quant.recorded
    unsaid.load_state_dict(said.state_dict())
    said.load_state_dict(unsaid.state_dict())


@pytest.mark.parametrize("kind", ["STATS", "PARAMETER_FROM_STATS"])
@pytest.mark.parametrize("steps", [0, 1, 4])
@pytest.mark.parametrize("training", [True, False])
def test_fake_activations(kind, steps, training):
    """Fake tensors pass a quantizer in every phase, and leave its state as it was."""
    module = QuantIdentity(act=IntQuantConfig(scale_kind=kind, collect_steps=2))
    for _ in range(steps):
        module(torch.randn(3))
    module.train(training)
    before = copy.deepcopy(module)
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with mode:
        output = module(torch.randn(3))
    assert output.shape == (3,)
    for name, value in module.state_dict().items():
        torch.testing.assert_close(value, before.state_dict()[name], equal_nan=True)
