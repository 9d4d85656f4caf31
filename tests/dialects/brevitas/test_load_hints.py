"""What to do, where a state_dict of Brevitas does not load or lacks something."""

from typing import Any

import pytest
import torch
from torch import nn

from qconfig.configs.fqn_to_config import FqnToConfig, Rule
from qconfig.configs.int_quant import IntQuantConfig
from qconfig.dialects.brevitas import convert_state_dict, load_brevitas_state_dict
from qconfig.errors import CheckpointError, QconfigError
from qconfig.modules.linear import QuantLinear

_LEARNED = IntQuantConfig(scale_kind="PARAMETER_FROM_STATS")
_STATE = {
    "fc.weight": torch.ones(2, 2),
    "fc.weight_quant.tensor_quant.scaling_impl.value": torch.tensor(2.0),
}


def test_a_model_of_floats_has_to_be_quantized_first() -> None:
    """The function takes no config: the model's are meant, and it has none."""
    model = nn.Sequential()
    model.add_module("fc", nn.Linear(2, 2, bias=False))
    with pytest.raises(CheckpointError, match="no config says") as caught:
        load_brevitas_state_dict(model, _STATE)
    assert "qconfig.quantize_ the model first" in str(caught.value.hint)


def test_names_below_a_wrapper_are_seen() -> None:
    """A state_dict of a wrapped model says which word to take off."""
    model = nn.Sequential()
    linear = nn.Linear(2, 2, bias=False)
    model.add_module("fc", QuantLinear(linear, weight=_LEARNED))
    state = {"module.fc.weight": torch.ones(2, 2)}
    with pytest.raises(QconfigError, match="take 'module' and its dot off the names"):
        load_brevitas_state_dict(model, state)


def test_an_entry_that_holds_the_state_dict_is_named() -> None:
    """A checkpoint of training is no state_dict; one of its entries is."""
    with pytest.raises(CheckpointError) as caught:
        convert_state_dict({"state_dict": _STATE})  # type: ignore[dict-item]
    assert caught.value.hint == "pass the entry 'state_dict' alone"


def test_what_an_activation_has_seen_cannot_be_derived() -> None:
    """A policy to derive it is refused, and the error says that initialise leaves it open."""
    seen: dict[str, Any] = {"scale_kind": "PARAMETER_FROM_STATS", "scale_statistic": "PERCENTILE"}
    config = IntQuantConfig(input=IntQuantConfig(**seen))
    rules = FqnToConfig(configs={"a": config}, rules=(Rule("fc", "a"),))
    state = {"fc.weight": torch.ones(2, 2)}
    with pytest.raises(CheckpointError, match="nothing in the file says") as caught:
        convert_state_dict(state, config=rules, missing={"**": "derive"})
    assert "leaves an activation uncalibrated" in str(caught.value.expected)
    _, report = convert_state_dict(state, config=rules, missing={"**": "initialise"})
    assert any("no data has calibrated" in str(change) for change in report.changes)
