"""The state of quantizers: it is whole, it is checked, and it is loaded into what is there."""

import copy
import io
import pickle

import pytest
import torch
from attrs import evolve
from safetensors.torch import load, save
from torch import nn

from qconfig import load_checkpoint, save_checkpoint
from qconfig.configs import PerAxis
from qconfig.configs.float_quant import FloatQuantConfig
from qconfig.configs.groupwise_quant import GroupwiseIntQuantConfig
from qconfig.configs.int_quant import IntQuantConfig
from qconfig.errors import CheckpointErrors, UncalibratedError
from qconfig.modules import QuantEmbedding, QuantIdentity, QuantLinear, QuantReLU
from qconfig.modules.recorded_config import document_bytes, recorded_config
from tests.modules.nets import RULES, WEIGHT, images, quantized, trained

LEARNED = "PARAMETER_FROM_STATS"
SEEN = IntQuantConfig(scale_kind=LEARNED, collect_steps=3)
EXTERNAL = IntQuantConfig(bit_width=16, scale_kind="EXTERNAL")


def linear(**more):
    """Return a QuantLinear with everything that has state."""
    weight = IntQuantConfig(
        scale_kind=LEARNED,
        granularity=PerAxis(0),
        zero_point_kind=LEARNED,
        learned_bit_width=True,
    )
    configs = {"weight": weight, "input": SEEN, "output": SEEN, "bias": EXTERNAL} | more
    return QuantLinear(nn.Linear(6, 5), **configs)


MODULES = {
    "linear": linear,
    "float": lambda: linear(weight=FloatQuantConfig(), bias=None, input=FloatQuantConfig()),
    "groups": lambda: linear(weight=GroupwiseIntQuantConfig(group_size=4), bias=None),
    "embedding": lambda: QuantEmbedding(nn.Embedding(6, 5), weight=IntQuantConfig(bit_width=4)),
    "identity": lambda: QuantIdentity(act=SEEN),
    "relu": lambda: QuantReLU(act=evolve(SEEN, zero_point_kind=LEARNED, signed=False)),
    "running": lambda: QuantReLU(act=IntQuantConfig(scale_kind="STATS")),
}


def example(name):
    """Return an input."""
    generator = torch.Generator().manual_seed(1)
    if name == "embedding":
        return torch.arange(6)
    return torch.randn(4, 6, generator=generator)


def same(one, other):
    """Say whether two state dicts agree, NaN of what was not seen included."""
    return list(one) == list(other) and all(
        torch.equal(one[n].nan_to_num(9.0), other[n].nan_to_num(9.0)) for n in one
    )


@pytest.mark.parametrize("steps", [0, 1, 3, 4, 6])
@pytest.mark.parametrize("name", MODULES)
def test_every_state_is_whole(name, steps):
    """After any number of steps a state dict loads strictly, and training goes on from there."""
    module, x = MODULES[name](), example(name)
    for _ in range(steps):
        module(x)
    buffer = io.BytesIO()
    torch.save(module.state_dict(), buffer)
    buffer.seek(0)
    other = MODULES[name]()
    other.load_state_dict(torch.load(buffer, weights_only=True))
    assert same(module.state_dict(), other.state_dict())
    for factor in (1.0, 2.0, 3.0):
        assert torch.equal(
            module(factor * x if x.is_floating_point() else x),
            other(factor * x if x.is_floating_point() else x),
        )
    assert same(module.state_dict(), other.state_dict())
    assert torch.equal(module.eval()(x), other.eval()(x))


@pytest.mark.parametrize("name", MODULES)
def test_a_file_of_safetensors_is_enough(name):
    """What safetensors keeps, tensors by name, is the whole state, configs included."""
    module, other = MODULES[name](), MODULES[name]()
    module(example(name))
    other.load_state_dict(load(save(module.state_dict())))
    assert same(module.state_dict(), other.state_dict())


@pytest.mark.parametrize("name", MODULES)
def test_parameters_stay_the_same(name):
    """Loading changes what parameters hold, not which they are: an optimizer goes on with them."""
    module, x = MODULES[name](), example(name)
    before = dict(module.named_parameters())
    state = MODULES[name]().state_dict()
    module.load_state_dict(state)
    for _ in range(5):
        module(x)
    module.load_state_dict(state)
    after = dict(module.named_parameters())
    assert list(before) == list(after)
    assert all(before[name] is after[name] for name in before)


def test_names():
    """State has the names that files know: a role, and what it is."""
    assert list(linear().state_dict()) == [
        "weight",
        "bias",
        "weight_quant.threshold",
        "weight_quant.zero_point",
        "weight_quant.bit_width",
        "weight_quant.config",
        "bias_quant.config",
        "input_quant.threshold",
        "input_quant.config",
        "input_quant.statistic",
        "input_quant.steps",
        "output_quant.threshold",
        "output_quant.config",
        "output_quant.statistic",
        "output_quant.steps",
    ]


def test_another_config_is_refused():
    """The weights of 4 bits do not pass for those of 8: both configs are named, at their place."""
    four = QuantLinear(nn.Linear(6, 5), weight=IntQuantConfig(bit_width=4, narrow_range=True))
    eight = QuantLinear(nn.Linear(6, 5), weight=IntQuantConfig())
    for strict in (True, False):
        with pytest.raises(RuntimeError) as caught:
            eight.load_state_dict(four.state_dict(), strict=strict)
        text = str(caught.value)
        assert "weight_quant.config: this is the state of a quantizer with another config" in text
        assert "found: IntQuantConfig(bit_width=4, narrow_range=True)" in text
        assert "expected: IntQuantConfig(bit_width=8, narrow_range=False)" in text
        assert "hint: quantize the model with the config that is recorded" in text
    assert recorded_config(eight.weight_quant.config) == IntQuantConfig()


def test_another_family_is_refused():
    """Floats do not pass for integers."""
    ints = QuantIdentity(act=IntQuantConfig(scale_kind="STATS"))
    floats = QuantIdentity(act=FloatQuantConfig(scale_kind="STATS"))
    with pytest.raises(RuntimeError, match="found: FloatQuantConfig\n  expected: IntQuantConfig"):
        ints.load_state_dict(floats.state_dict())


def test_a_record_that_is_none():
    """Bytes that are no document of a config are refused in words."""
    module = QuantIdentity(act=SEEN)
    state = module.state_dict() | {"act_quant.config": torch.tensor([1, 2], dtype=torch.uint8)}
    with pytest.raises(RuntimeError, match="no config of a quantizer is recorded here"):
        module.load_state_dict(state)


def test_a_record_of_other_bytes_is_the_same_config():
    """A document that says the same in other bytes is accepted, and the module's own stays."""
    module = QuantIdentity(act=SEEN)
    own = document_bytes(SEEN)
    spaced = torch.cat([own, torch.tensor(list(b"  \n"), dtype=torch.uint8)])
    module.load_state_dict(module.state_dict() | {"act_quant.config": spaced})
    assert torch.equal(module.act_quant.config, own)


def test_the_caller_keeps_its_state_dict():
    """Loading changes nothing in the state dict that it is given."""
    module = linear()
    state = module.state_dict()
    before = {name: tensor.clone() for name, tensor in state.items()}
    linear().load_state_dict(state)
    assert same(before, state)


@pytest.mark.parametrize("name", ["identity", "relu", "running", "linear"])
def test_evaluation_before_any_step(name):
    """A quantizer of activations that has seen nothing says so instead of guessing."""
    module = MODULES[name]().eval()
    with pytest.raises(UncalibratedError, match="has not seen any") as caught:
        module(example(name))
    assert "in training mode" in str(caught.value)
    module.train()(example(name))
    module.eval()(example(name))


@pytest.mark.parametrize("steps", [0, 2, 5])
@pytest.mark.parametrize("name", MODULES)
def test_copies(name, steps):
    """Deep copies and pickles compute the same, in training too."""
    module, x = MODULES[name](), example(name)
    for _ in range(steps):
        module(x)
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert torch.equal(other(x), copy.deepcopy(module)(x))
        assert same(other.state_dict(), copy_after(module, x).state_dict())


def copy_after(module, x):
    """Return a copy of a module that has run once."""
    other = copy.deepcopy(module)
    other(x)
    return other


def test_conversion_of_types():
    """A module in half precision keeps the dtype of its activations, and its record."""
    module = linear(weight=IntQuantConfig(), bias=None).bfloat16()
    output = module(example("linear").bfloat16())
    assert output.dtype is torch.bfloat16
    assert module.weight_quant.config.dtype is torch.uint8


def test_learned_values_start_anew():
    """What was learned of a weight begins anew for another one, in the same parameters."""
    module = linear()
    threshold = module.weight_quant.threshold
    with torch.no_grad():
        module.weight.mul_(3)
    module.weight_quant.restart(module.weight)
    assert module.weight_quant.threshold is threshold
    assert torch.equal(threshold.flatten(), module.weight.abs().amax(dim=1))


def test_checkpoints(tmp_path):
    """A checkpoint has the whole state, and a model of another config refuses it untouched."""
    model = trained()
    save_checkpoint(model, tmp_path / "model", config=RULES)
    other = quantized(seed=5)
    load_checkpoint(tmp_path / "model", model=other)
    assert torch.equal(other.eval()(images()), model(images()))
    for bits in (8, 16):
        weights = {**RULES.configs, "weights": evolve(WEIGHT, bit_width=bits)}
        wider = quantized(seed=5, rules=evolve(RULES, configs=weights))
        before = copy.deepcopy(wider.state_dict())
        with pytest.raises(CheckpointErrors) as caught:
            load_checkpoint(tmp_path / "model", model=wider)
        assert [problem.fqn for problem in caught.value.problems] == [
            "conv.weight_quant.config",
            "fc.weight_quant.config",
        ]
        assert f"expected: IntQuantConfig(bit_width={bits})" in str(caught.value)
        assert same(wider.state_dict(), before)


def test_an_optimizer_goes_on_after_a_load():
    """A state dict of a checkpoint changes what parameters hold, and training goes on with them."""
    model = quantized(seed=5)
    before = dict(model.named_parameters())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.load_state_dict(trained().state_dict())
    assert all(before[name] is p for name, p in model.named_parameters())
    old = model.fc.weight_quant.threshold.detach().clone()
    model(images()).square().mean().backward()
    optimizer.step()
    assert model.fc.weight_quant.threshold != old


def test_a_quantizer_shows_its_config():
    """The text of a module says what its quantizers do beside the default."""
    text = str(QuantLinear(nn.Linear(6, 5), weight=IntQuantConfig(bit_width=4), input=SEEN))
    assert "(weight_quant): WeightQuantizer(IntQuantConfig(bit_width=4))" in text
    assert "ActivationQuantizer(IntQuantConfig(scale_kind=" in text
