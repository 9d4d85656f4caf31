"""Files that most verbs need."""

from pathlib import Path

import pytest

from tests.checkpoints.builders import checkpoint_of, current_layout, float_checkpoint, v1_layout
from tests.cli.calls import RULES, write


@pytest.fixture
def places(request, tmp_path) -> dict[str, Path]:
    """All files below, and a folder for new ones, by name."""
    names = ("config", "float_model", "old_model", "current_model")
    return {name: request.getfixturevalue(name) for name in names} | {"tmp_path": tmp_path}


@pytest.fixture
def config(tmp_path) -> Path:
    """A config that quantizes one of the two linear weights of `float_model`."""
    return write(tmp_path / "quant.json", RULES)


@pytest.fixture
def float_model(tmp_path) -> Path:
    """A float checkpoint of one shard."""
    return float_checkpoint(tmp_path / "float")


@pytest.fixture
def old_model(tmp_path) -> Path:
    """A checkpoint with one tensor in the first version of its layout."""
    return checkpoint_of(tmp_path / "old", {"layers.0.up.weight": v1_layout()})


@pytest.fixture
def current_model(tmp_path) -> Path:
    """A checkpoint with one tensor in today's layout."""
    return checkpoint_of(tmp_path / "current", {"layers.0.up.weight": current_layout()})
