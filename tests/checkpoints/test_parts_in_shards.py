"""Parts of a quantized tensor in several shards, its record in any: every verb takes them."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from qconfig import (
    Int8WeightOnlyConfig,
    TensorSlice,
    convert_checkpoint,
    inspect_checkpoint,
    load_checkpoint,
    quantize_checkpoint,
    save_checkpoint,
    upgrade_checkpoint,
    verify_checkpoint,
)
from qconfig.checkpoints.open import open_checkpoint
from qconfig.errors import CheckpointError, CheckpointErrors
from tests.checkpoints.builders import checkpoint_of, current_layout, float_checkpoint, v1_layout
from tests.checkpoints.split import INDEX, shard_names, split, unchanged

PARTS = ("qdata", "scale", "zero_point")


def old(directory: Path, *, version: int = 1) -> Path:
    """Write two quantized tensors, a plain one and ties into one file."""
    make = v1_layout if version == 1 else current_layout
    return checkpoint_of(
        directory,
        {"a.weight": make(8), "b.weight": make(16)},
        {"norm.weight": torch.arange(6.0)},
        ties={"c.weight": "b.weight", "other.weight": "norm.weight"},
    )


def spread(key: str) -> int:
    """Place codes, scales and zero points apart; plain tensors lie with the codes."""
    part = key.rpartition(".")[2]
    return PARTS.index(part) if part in PARTS else 0


ARRANGEMENTS = {
    "two, record in the first": (2, [0]),
    "two, record in the second": (2, [1]),
    "two, record in both": (2, [0, 1]),
    "three, record in the first": (3, [0]),
    "three, record in the second": (3, [1]),
    "three, record in the last two": (3, [1, 2]),
    "three, record in all": (3, [0, 1, 2]),
}


@pytest.fixture(params=ARRANGEMENTS.values(), ids=ARRANGEMENTS.keys())
def pair(request, tmp_path):
    """A checkpoint of one file, and the same one with its parts in several."""
    count, holders = request.param
    whole = old(tmp_path / "whole")
    apart = split(
        old(tmp_path / "apart"),
        count,
        lambda key: spread(key) % count,
        dict.fromkeys(holders, unchanged),
    )
    return whole, apart


def content(directory):
    """Return all stored tensors of a directory, whatever shard they lie in."""
    files = directory.glob("*.safetensors")
    return {name: tensor for file in files for name, tensor in load_file(file).items()}


def same(first, second):
    """Return whether two mappings hold the same tensors."""
    return first.keys() == second.keys() and all(torch.equal(first[k], second[k]) for k in first)


def test_it_opens_as_the_same_checkpoint(pair):
    """Layouts, plain tensors and ties are those of one file."""
    whole, apart = map(open_checkpoint, pair)
    assert list(apart.layouts) == list(whole.layouts)
    assert apart.ties == whole.ties
    assert set(apart.plain) == set(whole.plain)
    assert apart.notes == ()


def test_inspect_and_verify_take_it(pair):
    """Sizes are those of all parts, and every value is checked."""
    whole, apart = map(inspect_checkpoint, pair)
    assert apart.total_bytes == whole.total_bytes
    assert [t.bytes for t in apart.tensors] == [t.bytes for t in whole.tensors]
    found = verify_checkpoint(pair[1])
    assert (found.ok, found.notes, found.tensors) == (True, (), 2)


def test_verify_finds_a_wrong_value_in_a_far_part(tmp_path):
    """A scale that is no number is found in the shard that has no record."""
    layout = current_layout()
    layout.scale[0] = float("nan")
    source = checkpoint_of(tmp_path / "m", {"a.weight": layout})
    found = verify_checkpoint(split(source, 2, spread, {0: unchanged}))
    assert [p.fqn for p in found.problems] == ["a.weight"]


def plain(tensor):
    """Return the values of a tensor, quantized or not."""
    return tensor.dequantize() if hasattr(tensor, "qdata") else tensor


def test_it_loads(pair):
    """Whole, some by name, and equal parts."""
    whole, apart = map(load_checkpoint, pair)
    assert whole.keys() == apart.keys()
    for name, tensor in whole.items():
        assert type(apart[name]) is type(tensor)
        assert torch.equal(plain(apart[name]), plain(tensor))
    some = load_checkpoint(pair[1], names=["a.*"])
    assert list(some) == ["a.weight"]
    half = load_checkpoint(pair[1], names=["a.*"], slices={"a.*": TensorSlice(0, 1, 2)})
    assert half["a.weight"].shape == (4, 16)


def test_an_upgrade_puts_the_parts_together(pair, tmp_path):
    """What is written is that of one file, tensor by tensor, and what the index says is kept."""
    for source, target in zip(pair, ("new", "apart-new"), strict=True):
        upgrade_checkpoint(source, tmp_path / target, verify=True)
    assert same(content(tmp_path / "new"), content(tmp_path / "apart-new"))
    found = open_checkpoint(tmp_path / "apart-new")
    assert found.ties == open_checkpoint(tmp_path / "new").ties
    for fqn in found.layouts:
        shards = {n for n, h in found.shards.items() for key in h.tensors if key.startswith(fqn)}
        assert shards == {found.shard_of[fqn]}
    index = json.loads((tmp_path / "apart-new" / INDEX).read_text())
    assert index["metadata"]["kept"] == 1


def test_a_conversion_takes_it(pair, tmp_path):
    """The other form has all parts, too."""
    for source, target in zip(pair, ("new", "apart-new"), strict=True):
        convert_checkpoint(source, tmp_path / target)
    assert same(content(tmp_path / "new"), content(tmp_path / "apart-new"))


def test_what_was_loaded_is_saved_again(pair, tmp_path):
    """Loaded from many shards and saved into shards of one tensor."""
    save_checkpoint(load_checkpoint(pair[1]), tmp_path / "new", max_shard_bytes=1)
    assert len(list((tmp_path / "new").glob("*.safetensors"))) == 3
    assert verify_checkpoint(tmp_path / "new").ok


def test_quantizing_a_tensor_with_its_bias_in_another_shard(tmp_path):
    """Float checkpoints whose modules are spread give what those of one file give."""
    config = Int8WeightOnlyConfig()
    quantize_checkpoint(float_checkpoint(tmp_path / "1"), tmp_path / "new1", config)
    quantize_checkpoint(float_checkpoint(tmp_path / "3", shards=3), tmp_path / "new3", config)
    assert same(content(tmp_path / "new1"), content(tmp_path / "new3"))


def test_a_tie_in_another_shard_than_its_tensor(tmp_path):
    """The record of a shard may name what another one stores."""
    source = split(
        old(tmp_path / "m", version=5), 2, lambda key: int(key[0] == "n"), {0: unchanged}
    )
    upgraded = load_checkpoint(source)
    assert upgraded["other.weight"] is upgraded["norm.weight"]


def other_version(record):
    """Let a record say that both tensors are of another layout."""
    from qconfig.checkpoints.record import write_record
    from qconfig.codec.layout_values import wrapped

    layouts = {"a.weight": wrapped(current_layout(8)), "b.weight": wrapped(current_layout(16))}
    record |= json.loads(write_record(layouts, {}))


@pytest.mark.parametrize(
    ("change", "found", "expected"),
    [
        (lambda r: r["layouts"][0].update(dtype="float32"), "dtype float32", "dtype bfloat16"),
        (other_version, "Int8TensorLayout v5", "Int8TensorLayout v1"),
    ],
    ids=["field", "version"],
)
def test_records_that_contradict_each_other_name_both_shards(tmp_path, change, found, expected):
    """The second shard says it, the first one is named, and what differs."""
    source = split(old(tmp_path / "m"), 2, lambda k: spread(k) % 2, {0: unchanged, 1: change})
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(source)
    first, second = shard_names(2)
    problem = next(p for p in caught.value.problems if p.fqn == "a.weight")
    assert "two shards describe the tensor, and not alike" in problem.message
    assert problem.file == str(source / second)
    assert (problem.found, problem.expected) == (repr(found), f"{expected}, as {first} says")


def test_ties_that_contradict_each_other_name_both_shards(tmp_path):
    """All of them, with where each leads."""
    change = {"c.weight": "a.weight", "other.weight": "a.weight"}
    source = split(
        old(tmp_path / "m"),
        2,
        lambda k: spread(k) % 2,
        {0: unchanged, 1: lambda r: r.update(ties=change)},
    )
    with pytest.raises(CheckpointErrors) as caught:
        open_checkpoint(source)
    first, second = shard_names(2)
    assert [p.fqn for p in caught.value.problems] == ["c.weight", "other.weight"]
    problem = caught.value.problems[0]
    assert problem.file == str(source / second)
    assert (problem.found, problem.expected) == ("'a.weight'", f"b.weight, as {first} says")


def test_one_file_of_several_says_where_its_parts_are(tmp_path):
    """Opening a shard by its path, without those that hold the rest."""
    source = split(old(tmp_path / "m"), 2, lambda k: spread(k) % 2, {0: unchanged})
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(source / shard_names(2)[0])
    problem = caught.value.problems[0]
    assert (problem.fqn, problem.message) == ("a.weight.scale", "an inner tensor is missing")
    assert "open the directory" in (problem.hint or "")
