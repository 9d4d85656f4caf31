"""State_dicts inside pickled files: under a key, and under names with a prefix."""

from pathlib import Path
from typing import Any

import pytest
import torch

from qconfig import inspect_checkpoint, load_checkpoint, upgrade_checkpoint
from qconfig.errors import CheckpointError, QconfigError, UsageError
from tests.cli.calls import call
from tests.dialects.brevitas.samples import CONFIGS, FILES

_STATE = FILES / "0.13.4" / "activations.state_dict.pt"


def _saved(path: Path, value: Any) -> Path:
    torch.save(value, path)
    return path


def _wrapped(path: Path, prefix: str = "") -> Path:
    """Save a state_dict of Brevitas as training scripts do."""
    state = torch.load(_STATE, weights_only=True)
    named = {prefix + name: tensor for name, tensor in state.items()}
    return _saved(path, {"state_dict": named, "epoch": 3})


def test_a_key_and_a_prefix_lead_to_the_state_dict(tmp_path: Path) -> None:
    """What is written is what the bare state_dict gives, and notes say what was left out."""
    config: Any = CONFIGS["activations"]
    source = _wrapped(tmp_path / "last.ckpt", "module.")
    report = upgrade_checkpoint(
        source, tmp_path / "new", config=config, key="state_dict", strip_prefix="module."
    )
    upgrade_checkpoint(_STATE, tmp_path / "other", config=config)
    found, other = load_checkpoint(tmp_path / "new"), load_checkpoint(tmp_path / "other")
    assert report.dialect == "brevitas"
    assert report.notes[0] == "beside state_dict and left out: epoch"
    assert all(torch.equal(found[name], other[name]) for name in found.keys() | other.keys())


def test_plain_files_take_a_key_too(tmp_path: Path) -> None:
    """A key is not Brevitas' alone."""
    source = _saved(tmp_path / "a.pt", {"model": {"m.a": torch.ones(2)}, "step": 1})
    found = inspect_checkpoint(source, key="model", strip_prefix="m.")
    assert (found.dialect, [t.fqn for t in found.tensors]) == ("torchao-pickle", ["a"])


@pytest.mark.parametrize("verb", ["inspect", "upgrade"])
def test_an_error_names_the_key(verb: str, tmp_path: Path) -> None:
    """A file of training is refused with the option that reads it, and read with it."""
    source = _saved(tmp_path / "a.pt", {"epoch": 3, "state_dict": {"a": torch.ones(2)}})
    target = () if verb == "inspect" else (tmp_path / "new",)
    refused = call(verb, source, *target)
    assert "read them with --key state_dict" in refused.stderr
    assert call(verb, source, *target, "--key", "state_dict").exit_code == 0


def test_a_key_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    """The error lists what there is."""
    source = _saved(tmp_path / "a.pt", {"model": {"a": torch.ones(2)}, "step": 1})
    with pytest.raises(CheckpointError, match="no such entry") as caught:
        inspect_checkpoint(source, key="modle")
    assert caught.value.hint == "did you mean 'model'?"


def test_a_prefix_that_no_name_has_is_an_error(tmp_path: Path) -> None:
    """Nothing is taken off in silence, and neither is nothing."""
    source = _saved(tmp_path / "a.pt", {"a": torch.ones(2)})
    with pytest.raises(CheckpointError, match="no name begins with the prefix"):
        inspect_checkpoint(source, strip_prefix="module.")


def test_names_that_become_the_same_are_an_error(tmp_path: Path) -> None:
    """A name with the prefix does not replace one without it."""
    source = _saved(tmp_path / "a.pt", {"a": torch.ones(2), "m.a": torch.ones(2)})
    with pytest.raises(CheckpointError, match="two names are the same"):
        inspect_checkpoint(source, strip_prefix="m.")


def test_other_forms_take_neither(tmp_path: Path) -> None:
    """A safetensors file holds tensors alone."""
    upgrade_checkpoint(_saved(tmp_path / "a.pt", {"a": torch.ones(2)}), tmp_path / "new")
    with pytest.raises(UsageError, match="only pickled files") as caught:
        inspect_checkpoint(tmp_path / "new", key="model")
    assert isinstance(caught.value, QconfigError)
