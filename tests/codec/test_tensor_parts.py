"""Tensors a few rows at a time: what is made by rows is what is made as a whole."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from qconfig.codec import tensor_parts
from qconfig.codec.dtypes import DType
from qconfig.codec.safetensors_header import read_header
from qconfig.codec.safetensors_reader import lazy_tensors
from qconfig.codec.tensor_parts import check_end, check_part
from qconfig.codec.tensor_values import LazyTensor
from qconfig.errors import LayoutError, MigrationError

WHOLE = torch.arange(60, dtype=torch.int16).reshape(10, 6)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts have three rows of the tensor."""
    monkeypatch.setattr(tensor_parts, "PART_BYTES", 40)


@pytest.fixture(params=["file", "memory"])
def lazy(request: pytest.FixtureRequest, tmp_path: Path) -> LazyTensor:
    """The tensor, in a file or in memory."""
    if request.param == "memory":
        return LazyTensor.of(WHOLE)
    save_file({"w": WHOLE}, tmp_path / "m.safetensors")
    return lazy_tensors(read_header(tmp_path / "m.safetensors"))["w"]


def test_parts_follow_each_other(lazy: LazyTensor) -> None:
    """Together they are the tensor."""
    parts = list(lazy.in_parts())
    assert [len(part) for part in parts] == [3, 3, 3, 1]
    assert torch.equal(torch.cat(parts), WHOLE)


def test_rows_that_go_together_stay_together(lazy: LazyTensor) -> None:
    """A part has a multiple of as many, even where that is more than it should have."""
    assert [len(part) for part in lazy.in_parts(4)] == [4, 4, 2]


def test_a_function_by_rows_gives_what_it_gives_of_the_whole(lazy: LazyTensor) -> None:
    """Loaded or in parts, whatever lies between."""
    made = lazy.map(lambda t: t.repeat(1, 2), shape=(10, 12), by_rows=2, dtype=DType.INT16)
    again = made.reshape(10, 4, 3).reshape(20, 6).map(torch.neg, by_rows=1)
    expected = -WHOLE.repeat(1, 2).reshape(20, 6)
    assert torch.equal(again.load(), expected)
    parts = list(again.in_parts(4))
    assert len(parts) > 1
    assert all(len(part) % 4 == 0 for part in parts[:-1])
    assert torch.equal(torch.cat(parts), expected)


def test_a_row_that_becomes_less_than_a_row_has_no_parts(lazy: LazyTensor) -> None:
    """A reshape that joins rows gives the whole."""
    made = lazy.map(torch.neg, by_rows=1).reshape(60)
    assert torch.equal(torch.cat(list(made.in_parts())), -WHOLE.reshape(60))
    assert made.reshape(5, 12).parts is None


def test_tensors_beside_come_with_their_rows(lazy: LazyTensor) -> None:
    """A function of several tensors gets the same rows of each."""
    other = LazyTensor.of(WHOLE * 2)
    made = lazy.map(torch.add, beside=[other], by_rows=1)
    assert torch.equal(made.load(), WHOLE * 3)
    assert torch.equal(lazy.map(torch.add, beside=[other]).load(), WHOLE * 3)


def test_an_error_speaks_of_the_whole_tensor(lazy: LazyTensor) -> None:
    """Places and counts that a function names are those of the tensor, not of a part."""

    def refuse(part: torch.Tensor) -> torch.Tensor:
        bad = part > 40
        if bool(bad.any()):
            raise MigrationError(f"{int(bad.sum())} from {bad.nonzero()[0].tolist()}")
        return part

    with pytest.raises(MigrationError, match=r"19 from \[6, 5\]"):
        list(lazy.map(refuse, by_rows=1).in_parts())


@pytest.mark.parametrize("shape", [(10, 5), (11, 6), (9, 6)])
def test_other_rows_than_declared_are_refused(lazy: LazyTensor, shape: tuple[int, ...]) -> None:
    """A function must give the shape that was said."""
    with pytest.raises(LayoutError, match="differs from its declaration"):
        lazy.map(torch.neg, shape=shape, by_rows=1).load()


def transposed(first: int, stop: int, whole: torch.Tensor) -> torch.Tensor:
    """Return some rows of the transposed tensor."""
    return whole[:, first:stop].t().contiguous()


@pytest.mark.parametrize("together", [1, 4])
def test_rows_of_a_result_are_made_of_the_whole(lazy: LazyTensor, together: int) -> None:
    """A result whose rows need the whole tensor comes in parts, too; the last has the rest."""
    made = lazy.spread(transposed, shape=(6, 10), together=together)
    parts = list(made.in_parts())
    assert [len(part) for part in parts] == ([2, 2, 2] if together == 1 else [4, 2])
    assert torch.equal(torch.cat(parts), WHOLE.t())
    assert torch.equal(made.load(), WHOLE.t())


def test_what_is_spread_over_rows_is_as_declared(lazy: LazyTensor) -> None:
    """Other columns than were declared are refused."""
    with pytest.raises(LayoutError, match="differs from its declaration"):
        lazy.spread(transposed, shape=(6, 11)).load()


def test_the_last_part_may_end_with_the_tensor() -> None:
    """Rows up to the last one are there, and then all have come."""
    check_part(WHOLE[7:], DType.INT16, (10, 6), 7)
    check_end(DType.INT16, (10, 6), 10)


@pytest.mark.parametrize(
    ("part", "done"),
    [
        (WHOLE[:4], 7),
        (WHOLE[:, :5], 0),
        (WHOLE.float(), 0),
        (WHOLE[0], 0),
        (torch.tensor(1, dtype=torch.int16), 0),
    ],
    ids=["too many rows", "shorter rows", "another type", "a row", "a scalar"],
)
def test_a_part_of_another_tensor_is_refused(part: torch.Tensor, done: int) -> None:
    """What does not fit to the rows before it is found when it comes."""
    with pytest.raises(LayoutError, match="differs from its declaration"):
        check_part(part, DType.INT16, (10, 6), done)


@pytest.mark.parametrize("done", [0, 9, 11])
def test_rows_that_did_not_come_are_found_in_the_end(done: int) -> None:
    """Fewer or more rows than were declared."""
    with pytest.raises(LayoutError, match="differs from its declaration") as caught:
        check_end(DType.INT16, (10, 6), done)
    assert caught.value.found == repr(f"{done} rows")
