"""Shards of a chosen size through quantize, upgrade and convert: copies stay copies."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file

from qconfig import (
    Int8WeightOnlyConfig,
    convert_checkpoint,
    load_checkpoint,
    quantize_checkpoint,
    upgrade_checkpoint,
    verify_checkpoint,
)
from qconfig.checkpoints.events import EventKind
from qconfig.checkpoints.open import open_checkpoint
from qconfig.codec import safetensors_writer
from qconfig.codec.safetensors_header import read_header
from qconfig.errors import CheckpointError, UsageError
from tests.checkpoints.builders import checkpoint_of, current_layout, float_checkpoint, v1_layout
from tests.checkpoints.split import INDEX
from tests.cli.calls import call

ROW = Int8WeightOnlyConfig()
MUCH = 10**9


def content(directory):
    """Return all stored tensors of a directory, whatever shard they lie in."""
    files = directory.glob("*.safetensors")
    return {name: tensor for file in files for name, tensor in load_file(file).items()}


def same(first, second):
    """Return whether two directories hold the same tensors."""
    ours, theirs = content(first), content(second)
    return ours.keys() == theirs.keys() and all(torch.equal(ours[k], theirs[k]) for k in ours)


def shards(directory):
    """Return the names of the shards of a directory."""
    return sorted(path.name for path in directory.glob("*.safetensors"))


def old(directory):
    """Write two old quantized tensors, plain ones and ties into one file."""
    return checkpoint_of(
        directory,
        {"a.weight": v1_layout(8), "b.weight": v1_layout(16)},
        {"norm.weight": torch.arange(6.0), "head.weight": torch.ones(3)},
        ties={"c.weight": "b.weight", "other.weight": "norm.weight"},
    )


@pytest.fixture
def copies(monkeypatch):
    """The source of every byte range that is copied by the kernel."""
    seen = []

    def copy(source, offset, length, target):
        seen.append((source.path.name, length))
        original(source, offset, length, target)

    original = safetensors_writer.copy_range
    monkeypatch.setattr(safetensors_writer, "copy_range", copy)
    return seen


def test_quantize_into_smaller_and_into_one(tmp_path):
    """From three shards to one a tensor, and to one file; the values are the same."""
    source = float_checkpoint(tmp_path / "float", shards=3)
    quantize_checkpoint(source, tmp_path / "kept", ROW)
    quantize_checkpoint(source, tmp_path / "many", ROW, max_shard_bytes=1)
    quantize_checkpoint(source, tmp_path / "one", ROW, max_shard_bytes=MUCH)
    assert shards(tmp_path / "many") == [
        f"model-{i + 1:05d}-of-00006.safetensors" for i in range(6)
    ]
    assert shards(tmp_path / "one") == ["model.safetensors"]
    assert not (tmp_path / "one" / INDEX).exists()
    for name in ("many", "one"):
        assert same(tmp_path / name, tmp_path / "kept")
        assert verify_checkpoint(tmp_path / name).ok
        assert (tmp_path / name / "tokenizer.txt").exists()


def test_a_merged_shard_copies_from_each_that_it_comes_from(tmp_path, copies):
    """What stays as it is comes byte by byte from three files, digests included."""
    source = float_checkpoint(tmp_path / "float", shards=3)
    quantize_checkpoint(source, tmp_path / "one", ROW, max_shard_bytes=MUCH)
    assert {name for name, _ in copies} == set(shards(source))
    plain = open_checkpoint(tmp_path / "one").plain
    assert sum(length for _, length in copies) == sum(t.source.length for t in plain.values())


def test_digests_of_copied_bytes_are_kept(tmp_path):
    """What was damaged before is known as such in whatever shard it lies."""
    source = old(tmp_path / "old")
    file = source / "model.safetensors"
    place = read_header(file).byte_range("norm.weight")
    text = bytearray(file.read_bytes())
    text[place.offset] ^= 1
    file.write_bytes(text)
    report = upgrade_checkpoint(source, tmp_path / "new", max_shard_bytes=100, verify=True)
    assert [p.fqn for p in report.problems] == ["norm.weight"]


def test_an_upgrade_keeps_ties_and_parts_together(tmp_path):
    """Each tensor has a shard with all its parts, and ties lead to where it lies."""
    source = old(tmp_path / "old")
    report = upgrade_checkpoint(source, tmp_path / "new", max_shard_bytes=1)
    upgrade_checkpoint(source, tmp_path / "kept")
    assert report.resharded
    assert same(tmp_path / "new", tmp_path / "kept")
    assert len(shards(tmp_path / "new")) == 4
    loaded = load_checkpoint(tmp_path / "new")
    assert loaded["c.weight"] is loaded["b.weight"]
    assert loaded["other.weight"] is loaded["norm.weight"]


def test_what_is_up_to_date_is_written_again_for_another_size_only(tmp_path, copies):
    """Resharding alone copies every byte; shards that are as wanted are not written."""
    source = checkpoint_of(
        tmp_path / "m", {"a.weight": current_layout(8), "b.weight": current_layout(16)}
    )
    assert not upgrade_checkpoint(source, None, dry_run=True).needed
    assert not upgrade_checkpoint(source, None, dry_run=True, max_shard_bytes=MUCH).needed
    report = upgrade_checkpoint(source, tmp_path / "new", max_shard_bytes=1)
    assert (report.needed, report.resharded, report.computed_bytes) == (True, True, 0)
    assert sum(length for _, length in copies) == report.copied_bytes
    again = upgrade_checkpoint(tmp_path / "new", tmp_path / "again", max_shard_bytes=1)
    assert not again.needed
    assert not (tmp_path / "again").exists()


def test_what_the_index_says_is_kept(tmp_path):
    """Its metadata and further members, in an index beside one file too."""
    source = float_checkpoint(tmp_path / "float", shards=2)
    index = json.loads((source / INDEX).read_text())
    index |= {"metadata": {"total_size": 7, "mine": [1]}, "more": True}
    (source / INDEX).write_text(json.dumps(index))
    for name, size in (("many", 1), ("one", MUCH)):
        quantize_checkpoint(source, tmp_path / name, ROW, max_shard_bytes=size)
        found = json.loads((tmp_path / name / INDEX).read_text())
        assert (found["metadata"]["mine"], found["more"]) == ([1], True)
        assert set(found["weight_map"].values()) == set(shards(tmp_path / name))
        assert verify_checkpoint(tmp_path / name).notes == ()


def test_header_metadata_that_contradicts_is_an_error(tmp_path):
    """Both shards are named, and the shards as they are remain a way."""
    from safetensors.torch import save_file

    source = float_checkpoint(tmp_path / "float", shards=2)
    for name in shards(source):
        save_file(load_file(source / name), source / name, {"format": "pt", "part": name})
    with pytest.raises(CheckpointError, match="not the same") as caught:
        quantize_checkpoint(source, tmp_path / "new", ROW, max_shard_bytes=MUCH)
    assert all(name in str(caught.value) for name in shards(source))
    assert caught.value.file == str(source)
    assert not (tmp_path / "new").exists()
    quantize_checkpoint(source, tmp_path / "new", ROW)


@pytest.mark.parametrize("size", [1, 600, MUCH])
def test_torchaos_form_keeps_parts_together(tmp_path, size):
    """Its parts are tensors of their own, and stay in one shard; each has all metadata."""
    upgrade_checkpoint(old(tmp_path / "old"), tmp_path / "ours")
    convert_checkpoint(tmp_path / "ours", tmp_path / "kept")
    convert_checkpoint(tmp_path / "ours", tmp_path / "new", max_shard_bytes=size)
    assert same(tmp_path / "new", tmp_path / "kept")
    texts = set()
    for name in shards(tmp_path / "new"):
        header = read_header(tmp_path / "new" / name)
        texts.add(tuple(sorted(header.metadata.items())))
        owners = {key.split("_weight_")[0] for key in header.tensors if "_weight_" in key}
        for owner in owners:
            assert {f"{owner}_weight_{p}" for p in ("qdata", "scale")} <= set(header.tensors)
    assert len(texts) == 1
    assert verify_checkpoint(tmp_path / "new").ok
    convert_checkpoint(tmp_path / "new", tmp_path / "back", to="qconfig", max_shard_bytes=MUCH)
    assert shards(tmp_path / "back") == ["model.safetensors"]


@pytest.mark.parametrize("job", ["quantize", "upgrade", "convert", "native"])
def test_a_size_must_be_positive(tmp_path, job):
    """Zero is refused before anything is read."""
    with pytest.raises(UsageError, match="max_shard_bytes must be positive"):
        if job == "quantize":
            quantize_checkpoint(tmp_path / "no", tmp_path / "t", ROW, max_shard_bytes=0)
        elif job == "upgrade":
            upgrade_checkpoint(tmp_path / "no", tmp_path / "t", max_shard_bytes=0)
        else:
            to = "torchao" if job == "convert" else "qconfig"
            convert_checkpoint(tmp_path / "no", tmp_path / "t", to=to, max_shard_bytes=0)


def test_events_name_the_new_shards(tmp_path):
    """Shards are told of by the names that they get."""
    events = []
    source = float_checkpoint(tmp_path / "float", shards=3)
    quantize_checkpoint(source, tmp_path / "one", ROW, max_shard_bytes=MUCH, listener=events.append)
    assert {e.shard for e in events if e.kind is EventKind.SHARD} == {"model.safetensors"}
    assert events[-1].done == events[-1].total


def test_the_source_stays_as_it_was(tmp_path):
    """Names, bytes and times."""
    source = old(tmp_path / "old")
    before = {p.name: (p.read_bytes(), p.stat().st_mtime_ns) for p in source.iterdir()}
    upgrade_checkpoint(source, tmp_path / "new", max_shard_bytes=1)
    assert before == {p.name: (p.read_bytes(), p.stat().st_mtime_ns) for p in source.iterdir()}
    shutil.rmtree(tmp_path / "new")


@pytest.mark.parametrize("size", ["1kB", "0.001MB", "1000"])
def test_the_commands_take_a_size(tmp_path, size):
    """In the units of sizes, for all three."""
    source = float_checkpoint(tmp_path / "float", shards=2)
    (tmp_path / "c.json").write_text('{"type": "Int8WeightOnlyConfig", "version": 2}')
    option = ("--max-shard-size", size)
    done = call("quantize", source, tmp_path / "q", "--config", tmp_path / "c.json", *option)
    assert done.exit_code == 0, done.stderr
    assert len(shards(tmp_path / "q")) > 2
    done = call("upgrade", tmp_path / "q", tmp_path / "u", "--max-shard-size", "1GB")
    assert done.exit_code == 0, done.stderr
    assert shards(tmp_path / "u") == ["model.safetensors"]
    done = call("convert", "--to", "torchao", tmp_path / "u", tmp_path / "t", *option)
    assert done.exit_code == 0, done.stderr
    assert len(shards(tmp_path / "t")) > 2
