"""Contents in shards of a chosen size: what belongs together stays together, nothing is dropped."""

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from qconfig.checkpoints.contents import ShardContents
from qconfig.checkpoints.resharding import in_shards, resharded
from qconfig.codec.dtypes import DType
from qconfig.codec.layout_values import layout_nbytes, wrapped
from qconfig.codec.tensor_values import LazyTensor
from qconfig.errors import CheckpointError, CheckpointErrors, UsageError
from tests.checkpoints.builders import current_layout

LAYOUT_BYTES = 8 * 16 + 8 * 4


def never() -> torch.Tensor:
    """Fail: a plan reads no data."""
    raise AssertionError("data was read")


def plain(*names: str, size: int = 100) -> dict[str, LazyTensor]:
    """Return tensors of `size` bytes each."""
    return {name: LazyTensor(DType.UINT8, (size,), never) for name in names}


def layouts(*names: str):
    """Return quantized tensors of LAYOUT_BYTES each."""
    return {name: wrapped(current_layout()) for name in names}


def sizes(shards):
    """Return the bytes of each shard."""
    return [
        sum(t.shape[0] for t in s.plain.values()) + sum(map(layout_nbytes, s.layouts.values()))
        for s in shards.values()
    ]


def test_a_shard_ends_before_the_size_is_exceeded():
    """Tensors of 100 bytes in shards of 250: two each, in order, named and counted."""
    result = resharded({"x.safetensors": ShardContents(plain("a", "b", "c", "d", "e"))}, 250)
    assert {name: list(s.plain) for name, s in result.items()} == {
        "model-00001-of-00003.safetensors": ["a", "b"],
        "model-00002-of-00003.safetensors": ["c", "d"],
        "model-00003-of-00003.safetensors": ["e"],
    }


def test_a_shard_may_be_full_to_the_last_byte():
    """The size itself is allowed."""
    result = resharded({"x": ShardContents(plain("a", "b", "c"))}, 200)
    assert sizes(result) == [200, 100]


def test_small_shards_become_one_file():
    """One shard has the name of a single file."""
    old = {"1": ShardContents(plain("a")), "2": ShardContents(plain("b"), layouts("q"))}
    result = resharded(old, 10**9)
    (contents,) = result.values()
    assert list(result) == ["model.safetensors"]
    assert (list(contents.plain), list(contents.layouts)) == (["a", "b"], ["q"])


def test_parts_of_a_quantized_tensor_stay_together():
    """A shard of one byte holds one tensor with all its parts."""
    result = resharded({"x": ShardContents(layouts=layouts("q", "r"))}, 1)
    assert [list(s.layouts) for s in result.values()] == [["q"], ["r"]]
    assert sizes(result) == [LAYOUT_BYTES] * 2


def test_a_tensor_that_is_larger_has_a_shard_of_its_own():
    """Neither the one before nor the one after joins it."""
    contents = ShardContents(plain("a") | plain("big", size=1000) | plain("b"))
    result = resharded({"x": contents}, 300)
    assert [list(s.plain) for s in result.values()] == [["a"], ["big"], ["b"]]


def test_ties_go_with_their_tensor():
    """Also where an old shard has the tie and another the tensor."""
    old = {
        "1": ShardContents(plain("a"), ties={"tied.b": "b", "tied.q": "q"}),
        "2": ShardContents(plain("b"), layouts("q")),
    }
    result = resharded(old, 100)
    assert [s.ties for s in result.values()] == [{}, {"tied.b": "b"}, {"tied.q": "q"}]


def test_a_tie_that_leads_nowhere_is_kept_for_the_writer_to_refuse():
    """It is not dropped in silence."""
    result = resharded({"x": ShardContents(plain("a"), ties={"b": "gone"})}, 100)
    assert next(iter(result.values())).ties == {"b": "gone"}


def test_metadata_that_agrees_is_carried():
    """Each new shard says what the shards say that its tensors come from."""
    old = {
        "1": ShardContents(plain("a", "b"), metadata={"format": "pt", "made": "x"}),
        "2": ShardContents(plain("c", "d"), metadata={"format": "pt", "also": "y"}),
    }
    result = resharded(old, 300)
    assert [s.metadata for s in result.values()] == [
        {"format": "pt", "made": "x", "also": "y"},
        {"format": "pt", "also": "y"},
    ]


def test_metadata_that_contradicts_names_both_shards():
    """All contradictions are said at once, each with both shards and a way out."""
    old = {
        "1.safetensors": ShardContents(plain("a"), metadata={"part": "1", "seed": "7"}),
        "2.safetensors": ShardContents(plain("b"), metadata={"part": "2", "seed": "8"}),
    }
    with pytest.raises(CheckpointErrors) as caught:
        resharded(old, 10**9)
    assert len(caught.value.problems) == 2
    text = str(caught.value.problems[0])
    assert "/__metadata__/part" in text
    assert "'2' in 2.safetensors" in text
    assert "'1', as in 1.safetensors" in text
    assert "keep the shards as they are" in text


def test_metadata_of_shards_that_stay_apart_may_differ():
    """Where no two shards become one, nothing contradicts."""
    old = {n: ShardContents(plain(n), metadata={"part": n}) for n in ("1", "2")}
    result = resharded(old, 100)
    assert [s.metadata for s in result.values()] == [{"part": "1"}, {"part": "2"}]


def test_metadata_of_a_shard_without_tensors_is_carried():
    """It goes to the shard that is filled when its turn comes."""
    old = {
        "1": ShardContents(plain("a"), metadata={"x": "1"}),
        "2": ShardContents(metadata={"y": "2"}),
    }
    (contents,) = resharded(old, 100).values()
    assert contents.metadata == {"x": "1", "y": "2"}


@pytest.mark.parametrize("second", [ShardContents(plain("a")), ShardContents(layouts=layouts("a"))])
def test_two_tensors_of_one_name_are_refused(second):
    """None replaces the other."""
    with pytest.raises(CheckpointError, match="two tensors would be stored under one name"):
        resharded({"1": ShardContents(plain("a")), "2": second}, 1000)


def test_two_ties_of_one_name_are_refused():
    """One name cannot be of two tensors."""
    old = {n: ShardContents(plain(n), ties={"tied": n}) for n in ("1", "2")}
    with pytest.raises(CheckpointError, match="tied: two tensors would be stored under one name"):
        resharded(old, 1000)


def test_nothing_is_one_empty_file():
    """A checkpoint without tensors has one shard."""
    assert list(resharded({"a": ShardContents()}, 5)) == ["model.safetensors"]
    assert list(resharded({}, 5)) == ["model.safetensors"]


@pytest.mark.parametrize("size", [0, -1])
def test_a_size_must_be_positive(size):
    """Nothing has room in no bytes."""
    with pytest.raises(UsageError, match="max_shard_bytes must be positive"):
        resharded({}, size)


@given(
    st.lists(st.lists(st.integers(0, 60), max_size=6), max_size=5),
    st.integers(1, 100),
)
def test_everything_is_there_once_and_in_order(old, size):
    """Each tensor comes out once, in order; shards keep the size or hold one tensor of weight."""
    shards = {
        f"{i}": ShardContents(
            {f"{i}.{j}": LazyTensor(DType.UINT8, (n,), never) for j, n in enumerate(lengths)}
        )
        for i, lengths in enumerate(old)
    }
    before = {name: list(s.plain) for name, s in shards.items()}
    result = resharded(shards, size)
    flat = [(n, t) for s in result.values() for n, t in s.plain.items()]
    assert flat == [(n, t) for s in shards.values() for n, t in s.plain.items()]
    assert before == {name: list(s.plain) for name, s in shards.items()}
    for contents in result.values():
        lengths = [t.shape[0] for t in contents.plain.values()]
        assert sum(lengths) <= size or len([n for n in lengths if n]) == 1
    for first, second in zip(sizes(result), list(result.values())[1:], strict=False):
        assert first + next(iter(second.plain.values())).shape[0] > size


def test_without_a_size_shards_stay_as_they_are():
    """None keeps the very contents."""
    old = {"x": ShardContents(plain("a", "b"))}
    assert in_shards(old, None, place=Path("m")) is old


def test_with_a_size_shards_are_new():
    """A size is that of `resharded`."""
    old = {"x": ShardContents(plain("a", "b"))}
    assert in_shards(old, 100, place=Path("m")) == resharded(old, 100)


def test_errors_of_a_size_name_the_place():
    """Two shards that contradict each other are found where they lie."""
    old = {n: ShardContents(plain(n), metadata={"k": n}) for n in "ab"}
    with pytest.raises(CheckpointError) as caught:
        in_shards(old, 1000, place=Path("m"))
    assert caught.value.file == "m"
