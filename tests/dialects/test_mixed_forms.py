"""Files of two libraries in one checkpoint: refused, for either reading would lose something."""

import json
from pathlib import Path

import pytest
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from qconfig.checkpoints.open import open_checkpoint
from qconfig.errors import CheckpointError
from tests.checkpoints.builders import checkpoint_of, current_layout
from tests.dialects.flattened_files import flattened, named, torchao_tensors


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    """Return a checkpoint in our form."""
    return checkpoint_of(tmp_path / "ours", {"a.weight": current_layout()})


def test_our_record_is_not_read_as_torchaos(ours: Path) -> None:
    """Who says --from torchao of our own checkpoint would get plain tensors."""
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(ours, dialect="torchao")
    assert caught.value.message == "the file has a qconfig record, and torchao is to be read"
    assert caught.value.file == str(ours / "model.safetensors")


def test_two_records_in_one_file_are_refused(ours: Path) -> None:
    """A file that describes some tensors our way and some torchao's way is of neither form."""
    file = ours / "model.safetensors"
    with safe_open(file, "pt") as opened:
        metadata = opened.metadata()
    parts, theirs = flattened(named({"int8_rows": torchao_tensors()["int8_rows"]}))
    save_file(load_file(file) | parts, file, metadata | theirs)
    with pytest.raises(CheckpointError, match="beside qconfig's record"):
        open_checkpoint(ours)


def test_shards_of_two_forms_are_refused(ours: Path) -> None:
    """A shard of ours beside one of torchao's is named."""
    parts, theirs = flattened(named({"int8_rows": torchao_tensors()["int8_rows"]}))
    save_file(parts, ours / "b.safetensors", theirs)
    stored = load_file(ours / "model.safetensors")
    weight_map = dict.fromkeys(stored, "model.safetensors") | dict.fromkeys(parts, "b.safetensors")
    index = ours / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(ours)
    assert caught.value.file == str(ours / "b.safetensors")
    assert caught.value.found == "'a qconfig record in model.safetensors'"
