"""Checkpoints whose weights still train: what is refused, and what is said to do."""

from pathlib import Path

import pytest
import torch
from torch import nn

import qconfig
from qconfig import FqnToConfig, Int8WeightOnlyConfig, IntQuantConfig, Rule
from qconfig.engine.plan_document import Action
from qconfig.errors import CheckpointError, MigrationError, PlanError

ROW = Int8WeightOnlyConfig()


class Net(nn.Module):
    """Two layers, one of which trains."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A checkpoint whose first layer has a quantizer and whose second has none."""
    model = Net()
    rules = (Rule("a", "w"),)
    qconfig.quantize_(model, FqnToConfig(configs={"w": IntQuantConfig()}, rules=rules))
    torch.save(model.state_dict(), tmp_path / "a.pt")
    qconfig.upgrade_checkpoint(tmp_path / "a.pt", tmp_path / "model")
    return tmp_path / "model"


def test_a_weight_that_trains_is_not_quantized_again(source: Path) -> None:
    """A quantized weight beside a quantizer for it is no model's."""
    with pytest.raises(CheckpointError, match="the weight still trains") as caught:
        qconfig.quantize_checkpoint(source, source.parent / "new", ROW)
    assert (caught.value.fqn, caught.value.found) == ("a.weight", "'a.weight_quant.config'")
    assert not (source.parent / "new").exists()


def test_a_rule_may_leave_it(source: Path) -> None:
    """Other layers are quantized, and the one that trains is copied with its quantizer."""
    rules = FqnToConfig(configs={"row": ROW}, default="row", rules=(Rule("a", None),))
    plan = qconfig.quantize_checkpoint(source, source.parent / "new", rules)
    assert [e.fqn for e in plan.entries if e.action is Action.QUANTIZE] == ["b.weight"]
    assert "a.weight_quant.config" in qconfig.load_checkpoint(source.parent / "new")


def test_it_has_no_form_of_torchao(source: Path) -> None:
    """The error says how a packed weight is made of it."""
    with pytest.raises(MigrationError, match="the weight still trains") as caught:
        qconfig.convert_checkpoint(source, None, dry_run=True)
    assert "qconfig.freeze(model) and qconfig.pack(model)" in str(caught.value.hint)


def test_a_frozen_weight_is_to_be_packed_for_torchao(tmp_path: Path) -> None:
    """Integers that are kept as values have no form of torchao, and packed ones do."""
    model = nn.Sequential(nn.Linear(4, 4))
    qconfig.quantize_(model, IntQuantConfig(narrow_range=True))
    qconfig.freeze(model)
    qconfig.save_checkpoint(model, tmp_path / "frozen")
    with pytest.raises(MigrationError, match="torchao stores no such tensor") as caught:
        qconfig.convert_checkpoint(tmp_path / "frozen", None, dry_run=True)
    assert "qconfig.pack(model)" in str(caught.value.hint)
    qconfig.pack(model)
    qconfig.save_checkpoint(model, tmp_path / "packed")
    qconfig.convert_checkpoint(tmp_path / "packed", None, dry_run=True)


def test_a_rule_by_class_in_a_file_says_that_files_have_none(source: Path) -> None:
    """A rule for ReLU modules matches nothing in a file, and the hint says to name layers."""
    rule = Rule("**", "w", modules=("ReLU",))
    with pytest.raises(PlanError) as caught:
        qconfig.quantize_checkpoint(
            source, source.parent / "new", FqnToConfig(configs={"w": ROW}, rules=(rule,))
        )
    assert "files say no classes of modules" in str(caught.value.hint)
