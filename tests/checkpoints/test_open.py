"""Opening checkpoints: headers, index, records and config agree (hostile inputs 11-20, 39-40)."""

import json
import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from qconfig import inspect_checkpoint
from qconfig.checkpoints.open import open_checkpoint
from qconfig.errors import (
    CheckpointError,
    ContainerError,
    DocumentSyntaxError,
    NewerVersionError,
    QconfigError,
    StorageError,
)
from tests.checkpoints.builders import checkpoint_of, current_layout, float_checkpoint, v1_layout

INDEX = "model.safetensors.index.json"


@pytest.fixture
def sharded(tmp_path: Path) -> Path:
    """A float checkpoint of three shards with an index."""
    return float_checkpoint(tmp_path / "m", shards=3)


def edit_index(directory: Path, **changes: str | None) -> None:
    """Change entries of the index's weight_map; None removes one."""
    data = json.loads((directory / INDEX).read_text())
    for name, shard in changes.items():
        if shard is None:
            del data["weight_map"][name]
        else:
            data["weight_map"][name] = shard
    (directory / INDEX).write_text(json.dumps(data))


def edit_record(directory: Path, change: object) -> None:
    """Rewrite the only shard with another `qconfig` record."""
    file = directory / "model.safetensors"
    record = json.loads(open_header(file)["__metadata__"]["qconfig"])
    change(record)
    save_file(load_file(file), file, {"format": "pt", "qconfig": json.dumps(record)})


def open_header(file: Path) -> dict[str, dict[str, str]]:
    """Return the header of a safetensors file."""
    raw = file.read_bytes()
    return json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])


def test_a_sharded_checkpoint_opens(sharded: Path) -> None:
    """All tensors are found, each in its shard."""
    checkpoint = open_checkpoint(sharded)
    assert len(checkpoint.plain) == 6
    assert checkpoint.shard_of["norm.weight"] == "model-00002-of-00003.safetensors"
    assert checkpoint.notes == ()


def test_a_tensor_in_two_shards_is_refused(sharded: Path) -> None:
    """Hostile input 11."""
    first = sharded / "model-00001-of-00003.safetensors"
    tensors = load_file(first) | {"norm.weight": torch.zeros(32)}
    save_file(tensors, first, {"format": "pt"})
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(sharded)
    assert "norm.weight: the tensor lies in two shards" in str(caught.value)
    assert "model-00001-of-00003.safetensors and model-00002-of-00003.safetensors" in str(
        caught.value
    )


def test_a_tensor_missing_in_the_index_is_a_note(sharded: Path) -> None:
    """Hostile input 12: odd but harmless, and an error only when asked for."""
    edit_index(sharded, **{"norm.weight": None})
    note = "model-00002-of-00003.safetensors holds norm.weight, which is not in the index"
    assert open_checkpoint(sharded).notes == (note,)
    with pytest.raises(CheckpointError, match=r"norm\.weight, which is not in the index"):
        open_checkpoint(sharded, strict=True)


def test_a_stray_file_is_a_note(sharded: Path) -> None:
    """Hostile input 12: a safetensors file that no index names."""
    save_file({"x": torch.zeros(1)}, sharded / "stray.safetensors")
    assert open_checkpoint(sharded).notes == ("stray.safetensors is not in the index",)


def test_a_missing_shard_is_refused(sharded: Path) -> None:
    """Hostile input 13."""
    (sharded / "model-00002-of-00003.safetensors").unlink()
    with pytest.raises(ContainerError, match=r"model-00002-of-00003\.safetensors") as caught:
        open_checkpoint(sharded)
    assert caught.value.exit_code == 3


def test_a_tensor_absent_from_its_shard_is_refused(sharded: Path) -> None:
    """Hostile input 14: the error says where the tensor really lies."""
    edit_index(sharded, **{"norm.weight": "model-00001-of-00003.safetensors"})
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(sharded)
    assert "the index names a shard that does not hold the tensor" in str(caught.value)
    assert "expected: model-00002-of-00003.safetensors" in str(caught.value)


@pytest.mark.parametrize(
    "name",
    [
        "../x.safetensors",
        "/etc/x.safetensors",
        "a\x00b.safetensors",
        "a\\b.safetensors",
        "C:x.safetensors",
        "x.safetensors.",
        "x" * 300 + ".safetensors",
    ],
)
def test_a_shard_name_that_leaves_the_directory_is_refused(sharded: Path, name: str) -> None:
    """Hostile inputs 15 to 17."""
    edit_index(sharded, **{"norm.weight": name})
    with pytest.raises(QconfigError) as caught:
        open_checkpoint(sharded)
    assert caught.value.exit_code == 3
    assert INDEX in str(caught.value)


def test_a_link_out_of_the_directory_is_refused(sharded: Path, tmp_path: Path) -> None:
    """Hostile input 18: refused, unless the caller follows links."""
    shard = sharded / "model-00002-of-00003.safetensors"
    shard.rename(tmp_path / "outside.safetensors")
    shard.symlink_to(tmp_path / "outside.safetensors")
    with pytest.raises(ContainerError):
        open_checkpoint(sharded)
    assert len(open_checkpoint(sharded, follow_symlinks=True).plain) == 6


def test_links_of_a_hugging_face_cache_are_followed(tmp_path: Path) -> None:
    """Snapshots link into ../../blobs of the same cache entry: that is no escape."""
    home = tmp_path / "models--x--y"
    snapshot = float_checkpoint(home / "snapshots" / "abc")
    (home / "blobs").mkdir()
    (snapshot / "model.safetensors").rename(home / "blobs" / "123")
    (snapshot / "model.safetensors").symlink_to("../../blobs/123")
    assert len(open_checkpoint(snapshot).plain) == 6


@pytest.mark.parametrize("kind", ["fifo", "directory", "dangling"])
def test_a_shard_that_is_no_file_is_refused(sharded: Path, kind: str) -> None:
    """Hostile inputs 19 and 20: nothing blocks and nothing is read."""
    shard = sharded / "model-00002-of-00003.safetensors"
    shard.unlink()
    if kind == "fifo":
        os.mkfifo(shard)
    elif kind == "directory":
        shard.mkdir()
    else:
        shard.symlink_to(sharded / "nowhere")
    with pytest.raises(ContainerError) as caught:
        open_checkpoint(sharded)
    assert caught.value.exit_code == 3


def test_all_broken_shards_are_named_at_once(sharded: Path) -> None:
    """Two truncated shards are two problems of one error."""
    for name in ("model-00001-of-00003.safetensors", "model-00003-of-00003.safetensors"):
        raw = (sharded / name).read_bytes()
        (sharded / name).write_bytes(raw[:-1])
    with pytest.raises(QconfigError) as caught:
        open_checkpoint(sharded)
    assert [Path(p.file).name[:11] for p in caught.value.problems] == ["model-00001", "model-00003"]


def test_a_duplicate_key_in_config_json_is_refused(sharded: Path) -> None:
    """Hostile input 10: both places are named."""
    (sharded / "config.json").write_text('{\n "a": 1,\n "a": 2\n}')
    with pytest.raises(DocumentSyntaxError, match=r"config\.json") as caught:
        open_checkpoint(sharded)
    assert "2" in str(caught.value)
    assert "3" in str(caught.value)


def test_an_inner_tensor_that_is_missing_is_named(tmp_path: Path) -> None:
    """Hostile input 39: codes without their scale."""
    source = checkpoint_of(tmp_path / "m", {"a.weight": current_layout()})
    file = source / "model.safetensors"
    metadata = open_header(file)["__metadata__"]
    tensors = load_file(file)
    del tensors["a.weight.scale"]
    save_file(tensors, file, metadata)
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(source)
    assert "a.weight.scale: an inner tensor is missing" in str(caught.value)
    assert "expected: float32 (8, 1), as its record says" in str(caught.value)


def test_a_surplus_inner_tensor_is_named(tmp_path: Path) -> None:
    """Hostile input 39: something beside the parts that the record lists."""
    source = checkpoint_of(tmp_path / "m", {"a.weight": current_layout()})
    file = source / "model.safetensors"
    metadata = open_header(file)["__metadata__"]
    save_file(load_file(file) | {"a.weight.extra": torch.zeros(1)}, file, metadata)
    with pytest.raises(CheckpointError, match="a tensor lies beside a quantized one"):
        open_checkpoint(source)


def test_an_inner_tensor_of_another_shape_is_named(tmp_path: Path) -> None:
    """Hostile input 38: a transposed scale has as many elements and is still wrong."""
    source = checkpoint_of(tmp_path / "m", {"a.weight": current_layout()})
    file = source / "model.safetensors"
    metadata = open_header(file)["__metadata__"]
    tensors = load_file(file)
    tensors["a.weight.scale"] = tensors["a.weight.scale"].t().contiguous()
    save_file(tensors, file, metadata)
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(source)
    assert "a.weight.scale: an inner tensor differs from its record" in str(caught.value)
    assert "(1, 8)" in str(caught.value)
    assert "(8, 1)" in str(caught.value)


def test_parts_may_lie_in_different_shards(tmp_path: Path) -> None:
    """Hostile input 40: the scale in another shard than the codes is found."""
    source = checkpoint_of(tmp_path / "m", {"a.weight": current_layout()})
    file = source / "model.safetensors"
    metadata = open_header(file)["__metadata__"]
    tensors = load_file(file)
    save_file({"a.weight.scale": tensors.pop("a.weight.scale")}, source / "s.safetensors")
    save_file(tensors, source / "q.safetensors", metadata)
    file.unlink()
    weight_map = {"a.weight.scale": "s.safetensors", "a.weight.qdata": "q.safetensors"}
    (source / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    checkpoint = open_checkpoint(source)
    assert list(checkpoint.layouts) == ["a.weight"]
    assert torch.equal(checkpoint.layouts["a.weight"].scale.load(), current_layout().scale)


@pytest.mark.parametrize(
    ("fqn", "bias"),
    [("weight", "bias"), ("", "b"), ("m.w", "m.w_1")],
    ids=["root", "empty", "prefix"],
)
def test_unusual_names_work(tmp_path: Path, fqn: str, bias: str) -> None:
    """Hostile input 24: names without a dot, the empty name, and one name that begins another."""
    layouts = {fqn: current_layout()}
    source = checkpoint_of(tmp_path / "m", layouts, {bias: torch.zeros(8)})
    checkpoint = open_checkpoint(source)
    assert (list(checkpoint.layouts), list(checkpoint.plain)) == ([fqn], [bias])


def test_a_newer_container_is_told_apart(tmp_path: Path) -> None:
    """A container that needs a newer reader is no damage: exit code 4."""
    source = checkpoint_of(tmp_path / "m", {"a.weight": current_layout()})
    edit_record(source, lambda record: record.update(container=4, min_reader=3))
    with pytest.raises(
        NewerVersionError, match="the container is newer than this qconfig"
    ) as caught:
        open_checkpoint(source)
    assert caught.value.exit_code == 4


def test_a_newer_container_for_old_readers_opens(tmp_path: Path) -> None:
    """min_reader decides, not the container's own version; unknown keys of it are left alone."""
    source = checkpoint_of(tmp_path / "m", {"a.weight": current_layout()})
    edit_record(source, lambda record: record.update(container=3, digests=7, novelty=1))
    assert list(open_checkpoint(source).layouts) == ["a.weight"]


def test_a_newer_layout_is_told_apart(tmp_path: Path) -> None:
    """A layout version from the future has the supported range in its error and exit code 4."""
    source = checkpoint_of(tmp_path / "m", {"a.weight": current_layout()})
    edit_record(source, lambda record: record["layouts"][0].update(version=99))
    with pytest.raises(NewerVersionError) as caught:
        open_checkpoint(source)
    assert "/__metadata__/qconfig/layouts/0/version" in str(caught.value)
    assert "expected: Int8TensorLayout version 1 to 5" in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [
        {"container": "1"},
        {"container": 0},
        {"min_reader": True},
        {"layouts": {}},
        {"tensors": {"a.weight": 7}},
        {"tensors": {"a.weight": -1}},
        {"tensors": {"a.weight": True}},
        {"ties": []},
        {"ties": {"x": 1}},
        {"ties": {"x": "nowhere"}},
        {"ties": {"a.weight": "a.weight"}},
        {"surplus": 1},
    ],
    ids=str,
)
def test_a_malformed_record_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    """Whatever is wrong with a record, the error is ours and the exit code 3."""
    source = checkpoint_of(tmp_path / "m", {"a.weight": current_layout()})
    edit_record(source, lambda record: record.update(change))
    with pytest.raises(QconfigError) as caught:
        open_checkpoint(source)
    assert caught.value.exit_code == 3


def test_several_files_without_an_index_are_refused(tmp_path: Path) -> None:
    """Which of them are meant is not guessed."""
    for name in ("a", "b"):
        save_file({name: torch.zeros(1)}, tmp_path / f"{name}.safetensors")
    with pytest.raises(CheckpointError, match="several files and no index"):
        open_checkpoint(tmp_path)


def test_an_empty_directory_is_refused(tmp_path: Path) -> None:
    """The error says what a checkpoint consists of."""
    with pytest.raises(CheckpointError, match="no checkpoint here"):
        open_checkpoint(tmp_path)


def test_one_file_is_a_checkpoint(tmp_path: Path) -> None:
    """A path to a safetensors file opens that file alone, whatever lies beside it."""
    save_file({"a": torch.zeros(1)}, tmp_path / "a.safetensors")
    save_file({"b": torch.zeros(1)}, tmp_path / "b.safetensors")
    assert list(open_checkpoint(tmp_path / "a.safetensors").plain) == ["a"]


def test_a_file_of_another_kind_is_no_checkpoint(tmp_path: Path) -> None:
    """Another file in place of a checkpoint is named, and so is what would be one."""
    (tmp_path / "model.pkl").write_bytes(b"PK")
    with pytest.raises(ContainerError, match="not a checkpoint") as caught:
        open_checkpoint(tmp_path / "model.pkl")
    assert caught.value.expected == "a directory, or a file named *.safetensors"


def test_a_missing_path_is_an_io_error(tmp_path: Path) -> None:
    """Exit code 5 and the path."""
    with pytest.raises(StorageError, match="no such file or directory"):
        open_checkpoint(tmp_path / "x")


def test_inspection_counts_bits_and_versions(tmp_path: Path) -> None:
    """Sizes count the inner tensors, and versions say what is outdated."""
    source = checkpoint_of(tmp_path / "m", {"a.weight": v1_layout()}, {"a.bias": torch.zeros(8)})
    found = inspect_checkpoint(source)
    weight = next(t for t in found.tensors if t.fqn == "a.weight")
    assert weight.bytes == 8 * 16 + 8 * 2 + 8 * 8
    assert weight.bits_per_weight == pytest.approx(8 * weight.bytes / 128)
    assert (weight.version, weight.current, found.outdated) == (1, 5, True)
    assert found.total_bytes == weight.bytes + 32
