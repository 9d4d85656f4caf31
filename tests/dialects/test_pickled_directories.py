"""Directories of pickles: what an index says, and what the files hold."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from qconfig import upgrade_checkpoint
from qconfig.errors import CheckpointError

FIRST, SECOND = "pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"
STATES = {FIRST: {"a": torch.ones(2), "b": torch.zeros(2)}, SECOND: {"c": torch.ones(3)}}
RIGHT = {"a": FIRST, "b": FIRST, "c": SECOND}


def saved(directory: Path, weight_map: dict[str, str]) -> Path:
    """Save two shards, and an index."""
    directory.mkdir()
    for name, state in STATES.items():
        torch.save(state, directory / name)
    index = {"metadata": {"total_size": 0, "mine": 1}, "weight_map": weight_map, "more": [2]}
    (directory / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    return directory


def upgraded(source: Path, dialect: str = "torchao-pickle", **place: str) -> Any:
    """Upgrade a directory of pickles beside it."""
    return upgrade_checkpoint(source, source.parent / "new", dialect=dialect, **place)


@pytest.mark.parametrize("dialect", ["torchao-pickle", "brevitas"])
@pytest.mark.parametrize(
    ("weight_map", "name", "expected"),
    [
        (RIGHT | {"a": SECOND}, "a", FIRST),
        (RIGHT | {"d": SECOND}, "d", "a shard that holds it"),
    ],
    ids=["another shard", "no shard"],
)
def test_an_index_that_no_file_bears_out_is_refused(
    weight_map: dict[str, str], name: str, expected: str, dialect: str, tmp_path: Path
) -> None:
    """A tensor that the index lists and that is not there would be lost without a word."""
    with pytest.raises(CheckpointError) as caught:
        upgraded(saved(tmp_path / "old", weight_map), dialect)
    error = caught.value
    assert error.message == "the index names a shard that does not hold the tensor"
    assert (error.fqn, error.found, error.expected) == (name, repr(SECOND), expected)


def test_an_index_has_the_names_of_the_files(tmp_path: Path) -> None:
    """A prefix that is taken off stands in it, as it stands in the files."""
    source = saved(tmp_path / "old", {f"m.{name}": shard for name, shard in RIGHT.items()})
    for shard, state in STATES.items():
        torch.save({f"m.{name}": tensor for name, tensor in state.items()}, source / shard)
    report = upgraded(source, strip_prefix="m.")
    assert not [note for note in report.notes if "index" in note]


def test_a_tensor_that_the_index_leaves_out_is_noted(tmp_path: Path) -> None:
    """It is carried along, as it is from safetensors."""
    report = upgraded(saved(tmp_path / "old", {"a": FIRST, "c": SECOND}))
    assert report.notes[0] == f"{FIRST} holds b, which is not in the index"


def test_what_else_an_index_says_is_carried_along(tmp_path: Path) -> None:
    """Members that only other programs know stand in the new index."""
    upgraded(saved(tmp_path / "old", RIGHT))
    index = json.loads((tmp_path / "new" / "model.safetensors.index.json").read_text())
    assert index["metadata"] == {"total_size": 28, "mine": 1}
    assert index["more"] == [2]


def test_shards_of_a_hugging_face_cache_have_the_names_of_their_links(tmp_path: Path) -> None:
    """The blobs behind the links are named by hashes, of which the index knows nothing."""
    snapshot = saved(tmp_path / "old", RIGHT)
    entry = tmp_path / "models--a--b"
    (entry / "blobs").mkdir(parents=True)
    (entry / "snapshots").mkdir()
    for number, file in enumerate(sorted(snapshot.iterdir())):
        file.rename(entry / "blobs" / str(number))
        file.symlink_to(f"../../blobs/{number}")
    moved = snapshot.rename(entry / "snapshots" / "abc")
    report = upgrade_checkpoint(moved, tmp_path / "new", dialect="torchao-pickle")
    assert report.problems == ()
