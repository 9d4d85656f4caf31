"""State_dicts of real releases in our modules: their outputs, whole or not at all."""

from typing import Any

import pytest
import torch
from torch import nn

from qconfig.dialects.brevitas.load import load_brevitas_state_dict
from qconfig.errors import CheckpointError, QconfigError
from qconfig.modules.linear import QuantLinear
from tests.dialects.brevitas.samples import CONFIGS, RELEASES, WEIGHT, case, model, weight

_OTHER_ARITHMETIC = {("0.11.0", "learned_log_channels"), ("0.11.0", "mxint8_mse")}
"""0.11 computed these scales in another way; `convert_state_dict` says so."""
_LOADED = [(r, n) for r in RELEASES for n in CONFIGS if case(r, n) is not None]


def linear(config: Any) -> nn.Module:
    """Return a linear below `body.fc`."""
    outer, inner = nn.Sequential(), nn.Sequential()
    inner.add_module("fc", QuantLinear(nn.Linear(6, 4), weight=config, input=config.input))
    outer.add_module("body", inner)
    return outer


def values(module: nn.Module) -> dict[str, torch.Tensor]:
    """Return copies of all that a module holds."""
    return {name: tensor.clone() for name, tensor in module.state_dict().items()}


@pytest.mark.parametrize(("release", "name"), [s for s in _LOADED if s not in _OTHER_ARITHMETIC])
def test_outputs_are_the_writers(release: str, name: str) -> None:
    """A model that loads an old file gives, bit for bit, what the release gave."""
    sample: Any = case(release, name)
    module = model(name)
    load_brevitas_state_dict(module, sample.state)
    found: Any = module.eval()(sample.input)
    assert torch.equal(getattr(found, "value", found), sample.output)


def test_logarithms_of_0_11_are_within_rounding() -> None:
    """0.11 subtracted logarithms: outputs differ by rounding only, and the report says why."""
    sample: Any = case("0.11.0", "learned_log_channels")
    module = model("learned_log_channels")
    report = load_brevitas_state_dict(module, sample.state)
    assert torch.allclose(module.eval()(sample.input), sample.output, rtol=1e-6, atol=1e-6)
    assert any("0.11 subtracted logarithms" in text for text in report.ambiguities)


def test_parameters_stay_the_same_objects() -> None:
    """An optimizer that was made before the load trains what was loaded."""
    sample: Any = case("0.13.4", "activations")
    module = model("activations")
    before = dict(module.named_parameters())
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    load_brevitas_state_dict(module, sample.state)
    assert all(before[name] is parameter for name, parameter in module.named_parameters())
    loaded = module.get_parameter("body.fc.input_quant.threshold").detach().clone()
    module(sample.input).sum().backward()
    optimizer.step()
    assert not torch.equal(module.get_parameter("body.fc.input_quant.threshold"), loaded)


def test_training_goes_on_from_where_it_was() -> None:
    """A learned threshold that was loaded is learned on, and not calibrated again."""
    sample: Any = case("0.13.4", "relu")
    module = model("relu")
    load_brevitas_state_dict(module, sample.state)
    before = module.get_parameter("body.act.act_quant.threshold").detach().clone()
    module.train()(100 * sample.input)
    assert torch.equal(module.get_parameter("body.act.act_quant.threshold"), before)


@pytest.mark.parametrize("name", ["learned_bits", "constant_bits"])
def test_fewer_bits_than_the_config_are_refused(name: str) -> None:
    """A file of 4 or 5 bits does not load into a model of 8; the model is as it was."""
    sample: Any = case("0.13.4", name)
    module = linear(WEIGHT)
    before = values(module)
    with pytest.raises(CheckpointError, match="another bit_width than the config"):
        load_brevitas_state_dict(module, sample.state)
    assert all(torch.equal(before[name], tensor) for name, tensor in values(module).items())


def test_a_failed_load_changes_nothing() -> None:
    """A tensor of another shape, the last of the file, leaves even the first as it was."""
    sample: Any = case("0.13.4", "default")
    module = linear(WEIGHT)
    before = values(module)
    with pytest.raises(CheckpointError, match="another shape"):
        load_brevitas_state_dict(module, sample.state | {"body.fc.bias": torch.ones(5)})
    assert all(torch.equal(before[name], tensor) for name, tensor in values(module).items())


def test_a_tensor_that_lacks_is_refused_or_kept() -> None:
    """Without a policy a missing bias is an error; `initialise` keeps what the model has."""
    sample: Any = case("0.13.4", "default")
    state = {"body.fc.weight": sample.state["body.fc.weight"]}
    module = linear(WEIGHT)
    bias = module.get_parameter("body.fc.bias").detach().clone()
    with pytest.raises(CheckpointError, match="lacks a tensor of the model"):
        load_brevitas_state_dict(module, state)
    load_brevitas_state_dict(module, state, missing={"**.bias": "initialise"})
    assert torch.equal(module.get_parameter("body.fc.bias"), bias)
    assert torch.equal(module.get_parameter("body.fc.weight"), state["body.fc.weight"])


def test_an_uncalibrated_activation_stays_so() -> None:
    """`initialise` for what was not calibrated leaves the model's quantizer as it begins."""
    config: Any = CONFIGS["partly"]
    sample: Any = case("0.13.4", "default")
    module = linear(config)
    with pytest.raises(CheckpointError, match="lacks a tensor of a quantizer"):
        load_brevitas_state_dict(module, sample.state)
    load_brevitas_state_dict(module, sample.state, missing={"**.input_quant.*": "initialise"})
    assert module.state_dict()["body.fc.input_quant.steps"] == 0


def test_a_missing_scale_is_derived_from_the_weight_that_is_loaded() -> None:
    """`derive` takes the file's weight, not that which the model had."""
    config = weight(scale_kind="PARAMETER_FROM_STATS")
    sample: Any = case("0.13.4", "not_run")
    module = linear(config)
    load_brevitas_state_dict(module, sample.state, missing={"**.threshold": "derive"})
    expected = sample.state["body.fc.weight"].abs().max()
    assert torch.equal(module.get_parameter("body.fc.weight_quant.threshold"), expected)


def test_tensors_without_a_place_in_the_model_are_refused_or_dropped() -> None:
    """A further layer in the file is an error, unless it may be left out."""
    sample: Any = case("0.13.4", "default")
    state = sample.state | {"head.weight": torch.ones(2)}
    with pytest.raises(CheckpointError, match="no such tensor") as caught:
        load_brevitas_state_dict(linear(WEIGHT), state)
    assert caught.value.fqn == "head.weight"
    load_brevitas_state_dict(linear(WEIGHT), state, dropped=["head.*"])


def test_quantizers_that_the_model_lacks_are_refused() -> None:
    """A file with a calibrated input does not load into a model without input quantizer."""
    sample: Any = case("0.13.4", "partly")
    with pytest.raises(QconfigError, match="no config says how") as caught:
        load_brevitas_state_dict(linear(WEIGHT), sample.state)
    assert caught.value.fqn == "body.fc.input_quant"


def test_rounding_to_another_type_is_asked_for() -> None:
    """A file of float32 loads into a model of bfloat16 only where rounding is allowed."""
    sample: Any = case("0.13.4", "default")
    module = linear(WEIGHT).to(torch.bfloat16)
    with pytest.raises(QconfigError, match="another type, which rounds it"):
        load_brevitas_state_dict(module, sample.state)
    load_brevitas_state_dict(module, sample.state, cast=["**"])
    rounded = sample.state["body.fc.weight"].bfloat16()
    assert torch.equal(module.get_parameter("body.fc.weight"), rounded)
