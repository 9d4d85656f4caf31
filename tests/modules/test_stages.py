"""Models that are not at the stage of a checkpoint: not quantized, frozen or packed yet."""

import copy

import pytest
import torch
from torch import nn

import qconfig
from qconfig import IntQuantConfig, load_checkpoint, save_checkpoint
from qconfig.errors import QconfigError
from qconfig.modules import freeze, pack


def _plain():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 6), nn.ReLU())


def _quantized():
    model = _plain()
    qconfig.quantize_(model, IntQuantConfig(granularity=qconfig.PerAxis(0)))
    return model


def _frozen():
    return freeze(_quantized())


def _packed():
    model = _frozen()
    pack(model)
    return model


STAGES = {"plain": _plain, "quantized": _quantized, "frozen": _frozen, "packed": _packed}


@pytest.mark.parametrize(
    ("stored", "model", "hint"),
    [
        ("quantized", "plain", "quantize the model with the config of the file first"),
        ("plain", "quantized", "the file is of floats: load it before qconfig.quantize_"),
        ("frozen", "quantized", "freeze the model first: qconfig.freeze(model)"),
        ("packed", "quantized", "freeze and pack the model first"),
        ("quantized", "frozen", "the model is frozen, and the file is not"),
        ("quantized", "packed", "the model is frozen, and the file is not"),
        ("packed", "frozen", "pack the model first: qconfig.pack(model)"),
    ],
)
def test_a_model_of_another_stage(tmp_path, stored, model, hint):
    """A checkpoint that does not fit says what to do with the model, and leaves it as it was."""
    save_checkpoint(STAGES[stored](), tmp_path / "c")
    target = STAGES[model]()
    before = copy.deepcopy(dict(target.state_dict()))
    with pytest.raises(QconfigError) as caught:
        load_checkpoint(tmp_path / "c", model=target)
    assert any((problem.hint or "").startswith(hint) for problem in caught.value.problems)
    assert all("ignore" not in (problem.hint or "") for problem in caught.value.problems)
    assert target.state_dict().keys() == before.keys()


@pytest.mark.parametrize("stage", STAGES)
def test_a_model_of_the_same_stage(tmp_path, stage):
    """A model that is prepared as the checkpoint's was takes it whole."""
    model = STAGES[stage]()
    save_checkpoint(model, tmp_path / "c")
    load_checkpoint(tmp_path / "c", model=STAGES[stage]())
