"""What work on tensors is said to take, in bytes: no less than it does, and checked beforehand."""

import threading
from pathlib import Path

import pytest
import torch
from attrs import evolve

from qconfig.checkpoints.memory import Need, budget_of, layout_need, need_of
from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import ByteRange, LazyTensor
from qconfig.errors import UsageError


def computed(elements: int, work: int = 0) -> LazyTensor:
    """Return a tensor of bytes that is computed as a whole."""
    return LazyTensor(DType.UINT8, (elements,), lambda: torch.zeros(elements), work=work)


def copied(elements: int) -> LazyTensor:
    """Return a tensor of bytes that lies in a file."""
    return evolve(computed(elements), source=ByteRange(Path("m.safetensors"), 0, elements))


COPY = need_of({}).size
"""What a shard takes of which nothing is computed."""


def test_copies_take_the_same_for_any_size() -> None:
    """What is copied passes by, however large it is, and no tensor is named."""
    assert need_of({"a": copied(2**40)}) == Need(COPY, "")


def test_a_shard_takes_what_its_largest_tensor_takes() -> None:
    """One tensor is worked on at a time, whatever their order."""
    tensors = {"a": computed(10, work=100), "b": computed(10, work=300), "c": computed(10, 200)}
    assert need_of(tensors) == Need(COPY + 300, "b")


def test_what_is_said_of_work_is_taken() -> None:
    """A builder knows better than the size does."""
    assert need_of({"a": computed(2**20, work=7)}) == Need(COPY + 7, "a")


@pytest.mark.parametrize("size", [1, 1000, 2**20])
def test_work_of_which_nothing_is_said_is_no_less_than_a_wide_copy(size: int) -> None:
    """A byte may be made of eight, in a source and a result of that width."""
    assert need_of({"a": computed(size)}).size >= COPY + 2 * 8 * size


def test_what_is_made_by_rows_takes_no_more_than_parts() -> None:
    """Ten times the tensor takes the same, once it is larger than the parts."""
    tensors = [evolve(computed(size), parts=lambda _: iter(())) for size in (2**30, 10 * 2**30)]
    first, second = (need_of({"a": tensor}) for tensor in tensors)
    assert first == second
    assert first.size < 2**30


def test_what_is_made_by_rows_takes_no_more_than_the_whole() -> None:
    """A small tensor is not said to take as much as the parts of a large one."""
    small = evolve(computed(100), parts=lambda _: iter(()))
    assert need_of({"a": small}) == need_of({"a": computed(100)})


def test_a_whole_takes_its_weight_and_result() -> None:
    """Both are there at a time, and copies of them."""
    assert layout_need(100, 50, None) >= 2 * (100 + 50)


def test_rows_take_what_waits_and_no_more_than_the_whole() -> None:
    """What is made beside the first field waits whole; the rest is parts of a bounded size."""
    large = 2**32
    assert layout_need(large, large, 2**20) == layout_need(2 * large, large, 2**20)
    more = layout_need(large, large, 2**21) - layout_need(large, large, 2**20)
    assert more == 2**20
    assert layout_need(100, 50, 10) == layout_need(100, 50, None)


def test_a_budget_that_is_just_enough_is_taken() -> None:
    """The bound is inclusive."""
    stored = {"m.safetensors": {"a": computed(10, work=100)}}
    with budget_of(COPY + 100, stored, Path("new")).taken(COPY + 100):
        pass


def test_a_budget_that_is_too_small_is_refused() -> None:
    """The error names shard and tensor, and what would be enough."""
    stored = {"1.safetensors": {}, "2.safetensors": {"a": computed(10, work=100)}}
    with pytest.raises(UsageError, match="more memory than max_memory") as caught:
        budget_of(COPY + 99, stored, Path("new"))
    error = caught.value
    assert (error.fqn, error.expected) == ("a", f"at least {COPY + 100} bytes")
    assert error.file == str(Path("new", "2.safetensors"))


def test_no_budget_refuses_nothing() -> None:
    """Without a bound nobody waits, and nothing is too large."""
    budget = budget_of(None, {"m.safetensors": {"a": computed(10, work=2**60)}}, Path("new"))
    with budget.taken(2**60):
        other = threading.Thread(target=lambda: budget.taken(2**60).__enter__())
        other.start()
        other.join(10)
        assert not other.is_alive()
