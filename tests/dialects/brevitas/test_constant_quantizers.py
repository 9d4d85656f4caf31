"""State_dicts whose quantizers are constant, and leave no key: what is said about them."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from qconfig import upgrade_checkpoint
from qconfig.configs.fqn_to_config import FqnToConfig, Rule
from qconfig.configs.int_quant import IntQuantConfig
from qconfig.dialects.brevitas import convert_state_dict
from qconfig.errors import PlanError, UsageError
from tests.cli.calls import call

_W8: dict[str, Any] = {"type": "IntQuantConfig", "version": 1, "narrow_range": True}
_CONFIG = IntQuantConfig(narrow_range=True)
_LEARNED = {"b.weight_quant.tensor_quant.scaling_impl.value": torch.tensor(2.0)}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A state_dict of a Linear whose weight has a constant quantizer."""
    torch.save({"fc.weight": torch.ones(4, 6), "fc.bias": torch.ones(4)}, tmp_path / "old.pt")
    (tmp_path / "w8.json").write_text(json.dumps(_W8))
    return tmp_path / "old.pt"


def test_a_config_for_a_file_that_is_not_recognised_names_the_form(source: Path) -> None:
    """A file without keys of quantizers is taken for another's, and the error says what to say."""
    done = call("upgrade", source, source.parent / "new", "--config", source.parent / "w8.json")
    assert done.exit_code == 2
    assert "say --from brevitas" in done.stderr


def test_a_single_config_that_reaches_no_layer_is_an_error(source: Path) -> None:
    """A config is never thrown away: the error says to name layers, and names some."""
    with pytest.raises(PlanError, match="a single config reaches no layer") as caught:
        upgrade_checkpoint(source, None, dry_run=True, dialect="brevitas", config=_CONFIG)
    assert "rules that name the layers" in str(caught.value.expected)
    assert caught.value.hint == "layers with weights are fc"


def test_a_default_that_reaches_no_layer_is_an_error(source: Path) -> None:
    """So it is with the default of rules."""
    config = FqnToConfig(configs={"w": _CONFIG}, default="w", default_modules=("Linear",))
    with pytest.raises(PlanError, match="the default reaches no layer"):
        upgrade_checkpoint(source, None, dry_run=True, dialect="brevitas", config=config)


def test_layers_that_a_default_leaves_are_said() -> None:
    """A layer without keys of quantizers beside one that has some is left, and that is said."""
    state = {"a.weight": torch.ones(2, 2), "b.weight": torch.ones(2, 2)} | _LEARNED
    config = IntQuantConfig(narrow_range=True, scale_kind="PARAMETER_FROM_STATS")
    _, report = convert_state_dict(state, config=config)
    assert any(text.startswith("a: no keys of quantizers") for text in report.ambiguities)


def test_a_rule_by_class_says_that_files_have_none() -> None:
    """A rule for a class of modules matches nothing in a file, and the hint says what to do."""
    rules = FqnToConfig(configs={"w": _CONFIG}, rules=(Rule("**", "w", modules=("ReLU",)),))
    with pytest.raises(PlanError, match="matches no layer") as caught:
        convert_state_dict({"fc.weight": torch.ones(2, 2)}, config=rules)
    assert "a file says no classes" in str(caught.value.hint)


def test_an_unknown_use_of_a_config_stays_refused(tmp_path: Path) -> None:
    """A checkpoint of ours takes no config, and no dialect is named that could not read it."""
    torch.save({"a": torch.ones(2)}, tmp_path / "a.pt")
    upgrade_checkpoint(tmp_path / "a.pt", tmp_path / "new")
    with pytest.raises(UsageError) as caught:
        upgrade_checkpoint(tmp_path / "new", None, dry_run=True, config=_CONFIG)
    assert "--from brevitas-safetensors" in str(caught.value.hint)
