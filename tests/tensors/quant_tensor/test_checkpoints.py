"""Quant tensors in checkpoints: saved, verified, inspected and loaded like packed ones."""

import pytest
import torch
from torch import nn

import qconfig
from tests.tensors.quant_tensor.samples import SAMPLES, same


def test_every_class_comes_back_bit_for_bit(tmp_path):
    """A checkpoint of quant tensors gives the same tensors again."""
    state = {name.replace(" ", "_"): make() for name, make in SAMPLES.items()}
    qconfig.save_checkpoint(state, tmp_path / "saved")
    loaded = qconfig.load_checkpoint(tmp_path / "saved")
    assert loaded.keys() == state.keys()
    assert all(same(loaded[name], tensor) for name, tensor in state.items())


def test_a_checkpoint_of_quant_tensors_verifies(tmp_path):
    """Verify finds nothing wrong with what save wrote."""
    state = {name.replace(" ", "_"): make() for name, make in SAMPLES.items()}
    qconfig.save_checkpoint(state, tmp_path / "saved")
    qconfig.verify_checkpoint(tmp_path / "saved")


def test_a_module_with_a_quant_weight_is_saved_and_loaded(tmp_path):
    """The state of a module goes into a checkpoint and back into a module."""
    module = nn.Linear(6, 4, bias=False)
    module.weight = nn.Parameter(SAMPLES["int per channel"](), requires_grad=False)
    qconfig.save_checkpoint(module, tmp_path / "saved")
    other = nn.Linear(6, 4, bias=False)
    other.load_state_dict(qconfig.load_checkpoint(tmp_path / "saved"), assign=True)
    assert same(other.weight, module.weight)
    x = torch.ones(2, 6)
    assert torch.equal(other(x), module(x))


def test_metadata_alone_is_not_saved(tmp_path):
    """A checkpoint holds values; a tensor without one is refused, and nothing is written."""
    cached = SAMPLES["int"]().metadata_only()
    with pytest.raises(qconfig.QconfigError, match="no value"):
        qconfig.save_checkpoint({"cached": cached}, tmp_path / "saved")
    assert not (tmp_path / "saved").exists()
