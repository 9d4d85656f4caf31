"""State_dicts under our names: what is renamed, derived and dropped, and what is refused."""

from typing import Any

import pytest
import torch

from qconfig.configs.fqn_to_config import FqnToConfig, Rule
from qconfig.configs.granularity import PerAxis
from qconfig.configs.int8 import Int8WeightOnlyConfig
from qconfig.dialects.brevitas.stages import Done
from qconfig.dialects.brevitas.state_dict import convert_state_dict
from qconfig.errors import CheckpointError, FieldError, PlanError, QconfigError, UsageError
from tests.dialects.brevitas.samples import (
    CONFIGS,
    LEARNED,
    RELEASES,
    RELU,
    WEIGHT,
    Case,
    case,
    weight,
)

_SCALE = "body.fc.weight_quant.tensor_quant.scaling_impl.value"


def sample(name: str, release: str = "0.13.4") -> Case:
    """Return a state_dict that is there."""
    found = case(release, name)
    assert found is not None
    return found


def named(**configs: Any) -> FqnToConfig:
    """Return rules that give layers below `body` their configs."""
    rules = tuple(Rule(f"body.{name}", name) for name in configs)
    return FqnToConfig(configs=configs, rules=rules)


def done(report: Any) -> dict[str, Done]:
    """Return what was done by name: the new one, or the old one of what was dropped."""
    return {change.after or change.before[0]: change.done for change in report.changes}


@pytest.mark.parametrize("release", RELEASES)
def test_scales_are_renamed_and_nothing_is_copied(release: str) -> None:
    """A learned scale is the same tensor object under our name; the dict is left as it was."""
    state = sample("learned", release).state
    before = dict(state)
    found, report = convert_state_dict(state, config=LEARNED)
    assert found["body.fc.weight_quant.threshold"] is state[_SCALE]
    assert found["body.fc.weight"] is state["body.fc.weight"]
    assert state == before
    assert done(report)["body.fc.weight_quant.threshold"] is Done.RENAMED


def test_prefixes_do_not_matter() -> None:
    """Keys of the root module, and below other prefixes, are converted alike."""
    for prefix in ("", "module.model.", "x_quant."):
        state = {
            f"{prefix}{n.removeprefix('body.fc.')}": t for n, t in sample("learned").state.items()
        }
        found, _ = convert_state_dict(state, config=LEARNED)
        assert f"{prefix}weight_quant.threshold" in found


def test_a_config_is_needed_where_there_are_quantizers() -> None:
    """Without a config nobody knows the bits; the error names the quantizer."""
    with pytest.raises(CheckpointError, match="no config says how") as caught:
        convert_state_dict(sample("learned").state)
    assert caught.value.fqn == "body.fc.weight_quant"


def test_a_float_state_dict_needs_no_config() -> None:
    """Where no key is a quantizer's, names stay as they are."""
    state = sample("scale_bias").state
    assert convert_state_dict(state)[0].keys() == state.keys()


def test_what_no_file_shows_is_said() -> None:
    """Bits, signs and rounding are taken from the config, and the report says so."""
    _, report = convert_state_dict(sample("learned").state, config=LEARNED)
    assert "the file does not say how values become codes" in report.ambiguities[0]
    assert "bit_width 8, signed True, narrow_range True" in report.ambiguities[0]


def test_records_of_the_config_are_added() -> None:
    """The config stands beside each threshold, so that a model of another one refuses the file."""
    found, report = convert_state_dict(sample("learned").state, config=LEARNED)
    assert found["body.fc.weight_quant.config"].dtype is torch.uint8
    assert done(report)["body.fc.weight_quant.config"] is Done.ADDED


def test_a_learned_width_is_offset_plus_least() -> None:
    """`bit_width` is the learned offset and the two bits that it starts from."""
    config = CONFIGS["learned_bits_fraction"]
    found, report = convert_state_dict(sample("learned_bits_fraction").state, config=config)
    assert found["body.fc.weight_quant.bit_width"] == torch.tensor(2.3) + 2
    assert done(report)["body.fc.weight_quant.bit_width"] is Done.DERIVED


def test_a_constant_width_can_become_a_learned_one() -> None:
    """A constant that was saved is the beginning of a learned width, and it is said."""
    config = weight(bit_width=5, learned_bit_width=True)
    found, report = convert_state_dict(sample("constant_bits").state, config=config)
    assert found["body.fc.weight_quant.bit_width"] == 5
    (change,) = [c for c in report.changes if c.after == "body.fc.weight_quant.bit_width"]
    assert change.why == "a constant that the config has learned from here on"


def test_a_learned_width_can_become_a_constant() -> None:
    """A learned width that rounds to the constant of the config is dropped, and it is said."""
    found, report = convert_state_dict(sample("learned_bits").state, config=weight(bit_width=4))
    assert "body.fc.weight_quant.bit_width" not in found
    assert "learned, and a constant in the config" in report.changes[0].why


@pytest.mark.parametrize("name", ["learned_bits", "constant_bits"])
def test_other_bits_are_refused(name: str) -> None:
    """A file of 4 or 5 bits does not go with a config of 8, where it shows its bits."""
    with pytest.raises(CheckpointError, match="another bit_width than the config"):
        convert_state_dict(sample(name).state, config=WEIGHT)


def test_a_quantized_weight_shows_its_bits() -> None:
    """A weight on a grid of 4 bits is refused for 8, and taken for 4."""
    codes = torch.randint(-7, 8, (4, 512), generator=torch.manual_seed(1)).float()
    state = {
        "fc.weight": codes * 0.125,
        "fc.weight_quant.tensor_quant.scaling_impl.value": torch.tensor(1.0),
    }
    with pytest.raises(CheckpointError, match="fewer bits than the config") as caught:
        convert_state_dict(state, config=LEARNED)
    assert caught.value.found == repr("values on a grid of 4 bits")
    convert_state_dict(state, config=weight(bit_width=4, scale_kind="PARAMETER_FROM_STATS"))


def test_export_handlers_are_compared_and_dropped() -> None:
    """Keys of a state_dict taken in inference mode are dropped, and their bits are compared."""
    state = sample("inference").state
    right = weight(bit_width=4, input=CONFIGS["partly"].input)  # type: ignore[attr-defined]
    found, report = convert_state_dict(state, config=right)
    assert not any("export_handler" in name for name in found)
    assert done(report)["body.fc.weight_quant.export_handler.scale"] is Done.DROPPED
    with pytest.raises(CheckpointError, match="another bit_width than the config"):
        convert_state_dict(state, config=CONFIGS["partly"])


@pytest.mark.parametrize("release", RELEASES)
def test_legacy_keys_are_read(release: str) -> None:
    """`learned_value`, `act_quant_proxy`, `zero_hw_sentinel` and `buffer` are what they were."""
    state = sample("legacy", release).state
    found, report = convert_state_dict(state, config=named(fc=LEARNED, act=RELU))
    assert (
        found["body.act.act_quant.threshold"]
        == state[
            "body.act.act_quant_proxy.fused_activation_quant_proxy.tensor_quant.scaling_impl.learned_value"
        ]
    )
    assert "body.fc.weight_quant.threshold" in found
    dropped = [name for name, what in done(report).items() if what is Done.DROPPED]
    assert sorted(name.rpartition(".")[2] for name in dropped) == [
        "buffer",
        "zero_hw_sentinel",
        "zero_hw_sentinel",
    ]


def test_legacy_keys_may_be_there_or_not() -> None:
    """A sentinel alone neither needs a config nor a value beside it."""
    state = {"fc.weight": torch.ones(2, 2), "fc.weight_quant.zero_hw_sentinel": torch.tensor(0.0)}
    assert list(convert_state_dict(state)[0]) == ["fc.weight"]


def test_a_buffer_without_a_value_is_the_value() -> None:
    """Statistics that were collected and not yet used are what the scale is."""
    name = "act.act_quant.fused_activation_quant_proxy.tensor_quant.scaling_impl.buffer"
    found, _ = convert_state_dict({name: torch.tensor(1.5)}, config=RELU)
    assert found["act.act_quant.threshold"] == 1.5


def test_running_statistics_are_a_statistic() -> None:
    """Statistics that go on running get their own name, and a count of steps."""
    state = sample("running").state
    found, report = convert_state_dict(state, config=CONFIGS["running"])
    assert found["body.act.act_quant.statistic"] is next(iter(state.values()))
    assert found["body.act.act_quant.steps"] == 300
    assert any("of how many steps" in text for text in report.ambiguities)


def test_calibration_is_taken_to_be_over() -> None:
    """A learned threshold comes with a count of steps behind calibration, and this is said."""
    found, report = convert_state_dict(sample("partly").state, config=CONFIGS["partly"])
    assert found["body.fc.input_quant.steps"] == 301
    assert any("whether calibration was over" in text for text in report.ambiguities)


def test_missing_is_an_error_by_default() -> None:
    """An uncalibrated activation has no key; the error says that it is uncalibrated."""
    with pytest.raises(CheckpointError, match="lacks a tensor of a quantizer") as caught:
        convert_state_dict(
            {"fc.weight": torch.ones(2, 2)},
            config=FqnToConfig(configs={"a": CONFIGS["partly"]}, rules=(Rule("fc", "a"),)),
        )
    assert caught.value.fqn == "fc.input_quant.threshold"
    assert "has seen no data yet" in str(caught.value.hint)


def test_missing_may_be_derived_from_the_weight() -> None:
    """The first policy whose pattern matches the new or the old name decides."""
    state = sample("not_run").state
    for pattern in ("**.threshold", "**.scaling_impl.value"):
        found, report = convert_state_dict(
            state, config=named(fc=LEARNED), missing={pattern: "derive", "**": "error"}
        )
        expected = state["body.fc.weight"].abs().max()
        assert found["body.fc.weight_quant.threshold"] == expected
        assert done(report)["body.fc.weight_quant.threshold"] is Done.DERIVED


def test_a_scale_that_was_never_set_is_said() -> None:
    """A learned scale of 1 may be a beginning that was saved; dropped, it can be derived."""
    state = sample("not_run").state | {_SCALE: torch.tensor(1.0)}
    _, report = convert_state_dict(state, config=LEARNED)
    assert any("before the first forward" in text for text in report.ambiguities)
    found, _ = convert_state_dict(
        state,
        config=named(fc=LEARNED),
        dropped=["**.scaling_impl.value"],
        missing={"**.threshold": "derive"},
    )
    assert found["body.fc.weight_quant.threshold"] == state["body.fc.weight"].abs().max()


def test_missing_may_be_left_to_the_model() -> None:
    """`initialise` leaves the name out, and the report says so."""
    found, report = convert_state_dict(
        sample("not_run").state, config=named(fc=LEARNED), missing={"body.**": "initialise"}
    )
    assert "body.fc.weight_quant.threshold" not in found
    assert done(report)["body.fc.weight_quant.threshold"] is Done.INITIALISED


def test_activations_cannot_be_derived() -> None:
    """Nothing in a file says what an activation would be calibrated to."""
    config = FqnToConfig(configs={"a": CONFIGS["partly"]}, rules=(Rule("fc", "a"),))
    with pytest.raises(CheckpointError, match="nothing in the file says what is missing"):
        convert_state_dict({"fc.weight": torch.ones(2, 2)}, config=config, missing={"**": "derive"})


def test_unknown_policies_are_refused() -> None:
    """There are three words."""
    with pytest.raises(UsageError, match="unknown policy") as caught:
        convert_state_dict({}, missing={"**": "ignore"})
    assert caught.value.expected == "one of error, initialise, derive"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("learned_rounding", "learned rounding"),
        ("Int8WeightNormL2PerChannelFixedPoint", "weight normalization"),
    ],
)
def test_what_has_no_place_is_named(name: str, reason: str) -> None:
    """Keys that no config here has are errors that say what they are."""
    with pytest.raises(QconfigError) as caught:
        convert_state_dict(sample(name).state, config=LEARNED)
    assert any(reason in problem.message for problem in caught.value.problems)


def test_what_has_no_place_may_be_dropped() -> None:
    """A name that is dropped is in the report, and the rest goes on."""
    state = sample("learned_rounding").state
    found, report = convert_state_dict(
        state, config=named(fc=WEIGHT), dropped=["**.float_to_int_impl.value"]
    )
    assert set(found) == {"body.fc.weight", "body.fc.bias", "body.fc.weight_quant.config"}
    assert Done.DROPPED in done(report).values()


@pytest.mark.parametrize("release", RELEASES)
def test_networks_of_other_modules_keep_their_weights(release: str) -> None:
    """Of an RNN the weights stay, once its quantizers may be dropped."""
    state = sample("rnn", release).state
    with pytest.raises(QconfigError, match="3 problems"):
        convert_state_dict(state)
    found, _ = convert_state_dict(state, dropped=["**.tensor_quant.**"])
    assert set(found) == {n for n in state if "gate_params" in n}


def test_scales_of_other_shapes_are_refused_unless_expanded() -> None:
    """One scale for all channels becomes one for each only where that is asked for."""
    config = weight(scale_kind="PARAMETER_FROM_STATS", granularity=PerAxis(0))
    state = sample("learned").state
    with pytest.raises(CheckpointError, match="another shape than the config"):
        convert_state_dict(state, config=config)
    found, report = convert_state_dict(state, config=config, expanded=["**.threshold"])
    assert found["body.fc.weight_quant.threshold"].shape == (4, 1)
    assert Done.EXPANDED in [change.done for change in report.changes]


def test_learned_scales_do_not_go_with_other_kinds() -> None:
    """A learned scale and a config that takes statistics contradict each other."""
    with pytest.raises(CheckpointError, match="what the config does not have"):
        convert_state_dict(sample("learned").state, config=WEIGHT)


def test_rules_that_match_nothing_are_refused() -> None:
    """A misspelt layer in a rule is an error, with the name that is near."""
    rules = FqnToConfig(configs={"a": LEARNED}, rules=(Rule("body.fcc", "a"),))
    with pytest.raises(PlanError, match="matches no layer") as caught:
        convert_state_dict(sample("learned").state, config=rules)
    assert caught.value.hint == "did you mean 'body.fc'?"


def test_configs_of_other_families_are_refused() -> None:
    """Only quantizers of Brevitas have such state."""
    with pytest.raises(FieldError, match="another family"):
        convert_state_dict(sample("learned").state, config=Int8WeightOnlyConfig())


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.complex64])
@pytest.mark.parametrize("name", ["learned", "learned_bits", "running"])
def test_other_types_are_refused(name: str, dtype: torch.dtype) -> None:
    """Scales and bits are floats; what is none is refused by its name."""
    state = sample(name).state
    (key,) = [key for key in state if "tensor_quant" in key]
    with pytest.raises(CheckpointError, match="of a wrong type") as caught:
        convert_state_dict(state | {key: torch.ones((), dtype=dtype)}, config=CONFIGS[name])
    assert caught.value.problems[0].fqn == key


def test_entries_that_are_no_tensors_are_refused() -> None:
    """A state_dict holds tensors by their names."""
    with pytest.raises(CheckpointError, match="not an entry of a state_dict"):
        convert_state_dict({"epoch": 3})  # type: ignore[dict-item]
