"""Checkpoints of this family, their configs, and the models that they are loaded into."""

import json

import pytest
import torch
from torch import nn

from qconfig import (
    config_to_dict,
    load_checkpoint,
    quantize_,
    quantize_checkpoint,
    save_checkpoint,
    verify_checkpoint,
)
from qconfig.configs import FqnToConfig, PerAxis, Rule
from qconfig.configs.float_quant import FloatQuantConfig
from qconfig.configs.groupwise_quant import GroupwiseIntQuantConfig
from qconfig.configs.int_quant import IntQuantConfig
from qconfig.errors import CheckpointError
from qconfig.modules import freeze
from tests.modules.nets import RULES, quantized, trained

CONFIGS = {
    "bits": (IntQuantConfig(bit_width=4), IntQuantConfig(bit_width=8), ("bit_width 4", "8")),
    "scales": (
        IntQuantConfig(),
        IntQuantConfig(granularity=PerAxis(0)),
        ("scale of shape ()", "scale of shape (5, 1)"),
    ),
    "format": (
        FloatQuantConfig.of_format("OCP_E3M2"),
        FloatQuantConfig(
            exponent_bit_width=2, mantissa_bit_width=3, exponent_bias=1, nan_values=None
        ),
        ("exponent_bit_width 3", "exponent_bit_width 2"),
    ),
    "sign": (IntQuantConfig(), IntQuantConfig(signed=False), ("signed True", "signed False")),
    "class": (IntQuantConfig(), FloatQuantConfig(), ("IntQuantTensor", "FloatQuantTensor")),
}


def rules(config):
    """Return rules that give every weight one config."""
    return FqnToConfig(configs={"c": config}, rules=(Rule("0", "c"),))


def frozen(config, seed=0):
    """Return a frozen model."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(6, 5))
    quantize_(model, rules(config))
    return freeze(model)


def with_config(path, config):
    """Exchange the config beside a checkpoint."""
    stored = {"quant_method": "qconfig", "config": config_to_dict(rules(config))}
    (path / "config.json").write_text(json.dumps({"quantization_config": stored}))


@pytest.mark.parametrize("case", CONFIGS)
def test_a_config_of_another_scheme_is_refused(case, tmp_path):
    """Tensors that a config denies are refused by save, verify and load, with both schemes."""
    made, said, words = CONFIGS[case]
    model = frozen(made)
    with pytest.raises(CheckpointError) as saved:
        save_checkpoint(model, tmp_path / "refused", config=rules(said))
    assert not (tmp_path / "refused").exists()
    save_checkpoint(model, tmp_path / "c", config=rules(made))
    assert verify_checkpoint(tmp_path / "c").ok
    with_config(tmp_path / "c", said)
    (verified,) = verify_checkpoint(tmp_path / "c").problems
    with pytest.raises(CheckpointError) as loaded:
        load_checkpoint(tmp_path / "c")
    for problem in (saved.value, verified, loaded.value):
        assert problem.fqn == "0.weight"
        assert all(word in str(problem) for word in words)


@pytest.mark.parametrize(
    ("own", "word"),
    [
        (IntQuantConfig(bit_width=8), "bit_width 8"),
        (IntQuantConfig(bit_width=4, signed=False), "signed False"),
        (FloatQuantConfig(), "FloatQuantTensor"),
        (GroupwiseIntQuantConfig(bit_width=4), "GroupwiseIntQuantTensor"),
    ],
)
def test_a_frozen_model_stays_what_it_is(own, word, tmp_path):
    """A quant tensor of another scheme than the model's is refused, and the model stays."""
    save_checkpoint(frozen(IntQuantConfig(bit_width=4)), tmp_path / "c")
    model = frozen(own)
    before = model[0].weight
    with pytest.raises(CheckpointError, match=word):
        load_checkpoint(tmp_path / "c", model=model)
    assert model[0].weight is before


def test_groups_of_another_size_are_refused(tmp_path):
    """Groups are part of the scheme."""
    save_checkpoint(frozen(GroupwiseIntQuantConfig(group_size=2)), tmp_path / "c")
    with pytest.raises(CheckpointError, match="group_size 3"):
        load_checkpoint(tmp_path / "c", model=frozen(GroupwiseIntQuantConfig(group_size=3)))


def test_the_same_scheme_loads(tmp_path):
    """Values and scales of the same scheme load into a frozen model."""
    save_checkpoint(frozen(IntQuantConfig(bit_width=4)), tmp_path / "c")
    model = frozen(IntQuantConfig(bit_width=4), seed=1)
    loaded = load_checkpoint(tmp_path / "c", model=model)
    assert torch.equal(model[0].weight.value, loaded["0.weight"].value)


def test_state_dicts_say_which_bits():
    """What torch says of a state dict of other bits names both bit widths."""
    four, eight = (frozen(IntQuantConfig(bit_width=bits)) for bits in (4, 8))
    with pytest.raises(RuntimeError, match="bit_width 4 cannot become bit_width 8"):
        eight.load_state_dict(four.state_dict())


@pytest.mark.parametrize("steps", [0, 1, 5])
def test_a_model_that_trains_verifies(steps, tmp_path):
    """A checkpoint of a model that still trains is sound beside its config."""
    save_checkpoint(trained(steps), tmp_path / "c", config=RULES)
    assert verify_checkpoint(tmp_path / "c").problems == ()
    load_checkpoint(tmp_path / "c", model=quantized(seed=1))


def test_a_model_with_scales_of_channels_verifies(tmp_path):
    """State of quantizers is no weight, whatever pattern reaches it."""
    config = IntQuantConfig(
        scale_kind="PARAMETER_FROM_STATS",
        granularity=PerAxis(0),
        input=IntQuantConfig(scale_kind="STATS", granularity=PerAxis(1)),
    )
    every = FqnToConfig(configs={"c": config}, rules=(Rule("**", "c"),))
    model = nn.Sequential(nn.Linear(6, 5))
    quantize_(model, every)
    save_checkpoint(model, tmp_path / "trains", config=every)
    save_checkpoint(freeze(model), tmp_path / "frozen", config=every)
    for name in ("trains", "frozen"):
        assert verify_checkpoint(tmp_path / name).problems == ()


def test_a_model_that_trains_as_something_else(tmp_path):
    """A record of another config than the one beside it is found, with both bit widths."""
    model = nn.Sequential(nn.Linear(6, 5))
    quantize_(model, rules(IntQuantConfig(bit_width=4)))
    save_checkpoint(model, tmp_path / "c", config=rules(IntQuantConfig(bit_width=8)))
    (problem,) = verify_checkpoint(tmp_path / "c").problems
    assert "IntQuantConfig(bit_width=4)" in problem.found
    assert problem.expected == "IntQuantConfig(bit_width=8)"


def test_a_weight_that_nobody_quantized(tmp_path):
    """A plain weight without a record is not what the config says."""
    save_checkpoint(nn.Sequential(nn.Linear(6, 5)), tmp_path / "c", config=rules(IntQuantConfig()))
    (problem,) = verify_checkpoint(tmp_path / "c").problems
    assert problem.message == "the stored config says otherwise"


def test_what_a_checkpoint_is_not_given(tmp_path):
    """Without a model, weights alone are quantized, and the plan says what is left out."""
    save_checkpoint(nn.Sequential(nn.Linear(6, 5)), tmp_path / "plain")
    seen = IntQuantConfig(scale_kind="STATS")
    config = rules(IntQuantConfig(input=seen, bias=IntQuantConfig()))
    plan = quantize_checkpoint(tmp_path / "plain", tmp_path / "c", config)
    assert plan.notes == (
        (
            "c: only weights are quantized, without input and bias of the config; weights stay "
            "floats, rounded to a grid; packed, they are smaller"
        ),
    )
