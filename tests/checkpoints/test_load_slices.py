"""Slices of tensors: what loading the whole and cutting it gives, with no other byte read."""

from pathlib import Path

import pytest
import torch

import qconfig
from qconfig import TensorSlice, load_checkpoint, save_checkpoint
from qconfig.codec.layout_values import present_fields
from qconfig.codec.regular_files import OpenFile
from qconfig.errors import (
    CheckpointError,
    LayoutError,
    QconfigError,
    UnsupportedOperationError,
    UsageError,
)
from tests.checkpoints.builders import checkpoint_of, current_layout

GOLDEN = Path(__file__).parent.parent / "golden"
CASES = sorted(
    path
    for path in GOLDEN.glob("*_layout/v*/*.safetensors")
    if not path.name.endswith((".upgraded.safetensors", "one_number.safetensors"))
)
WEIGHT = "layer.weight"


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, int]]:
    """Return a list that gets file name, offset and length of each read of tensor data."""
    found: list[tuple[str, int, int]] = []
    original = OpenFile.read_into

    def read_into(self: OpenFile, view: memoryview, offset: int) -> None:
        found.append((self.path.name, offset, len(view)))
        original(self, view, offset)

    monkeypatch.setattr(OpenFile, "read_into", read_into)
    return found


def data_reads(found: list[tuple[str, int, int]], path: Path) -> int:
    """Return the bytes that were read behind the header of a file."""
    header = 8 + int.from_bytes(path.read_bytes()[:8], "little")
    return sum(n for name, offset, n in found if name == path.name and offset >= header)


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor as bytes, so that no type is left out of a comparison."""
    return tensor.detach().clone(memory_format=torch.contiguous_format).flatten().view(torch.uint8)


def same_bits(found: torch.Tensor, expected: torch.Tensor) -> bool:
    """Return whether shape, type and bits are equal."""
    alike = (found.shape, found.dtype) == (expected.shape, expected.dtype)
    return alike and torch.equal(bits(found), bits(expected))


def whole(path: Path) -> torch.Tensor:
    """Return the quantized tensor of a golden file, with all its fields."""
    return load_checkpoint(path, slices={WEIGHT: TensorSlice(0, 0, 1)})[WEIGHT]


def check_same_layout(found: torch.Tensor, expected: torch.Tensor) -> None:
    """Check that two quantized tensors have the same fields, bit by bit."""
    assert type(found) is type(expected)
    one, other = found.to_layout(), expected.to_layout()
    assert present_fields(one) == present_fields(other)
    for field in present_fields(one):
        assert same_bits(getattr(one, field), getattr(other, field)), field
    assert repr(one) == repr(other)


@pytest.mark.parametrize("mmap", [True, False])
@pytest.mark.parametrize("path", CASES, ids=lambda p: "-".join(p.relative_to(GOLDEN).parts))
def test_a_slice_of_any_layout_is_the_whole_cut(path: Path, mmap: bool) -> None:
    """Every version of every layout: equal to a cut of the whole, or refused where that is."""
    tensor = whole(path)
    for dim in range(tensor.dim()):
        size = tensor.shape[dim]
        if size % 2:
            continue
        for index in range(2):
            slices = {WEIGHT: TensorSlice(dim - tensor.dim(), index, 2)}
            try:
                expected = tensor.narrow(dim, index * size // 2, size // 2)
                if type(expected) is type(tensor):
                    expected.to_layout()
            except QconfigError as refusal:
                with pytest.raises(type(refusal)) as caught:
                    load_checkpoint(path, slices=slices, mmap=mmap)
                assert caught.value.fqn == WEIGHT
                continue
            if type(expected) is not type(tensor):
                with pytest.raises(CheckpointError, match="would part elements that share a scale"):
                    load_checkpoint(path, slices=slices, mmap=mmap)
                continue
            check_same_layout(load_checkpoint(path, slices=slices, mmap=mmap)[WEIGHT], expected)


def test_most_layouts_can_be_cut() -> None:
    """Only codes that run over all elements, and scales in tiles, are refused along the rows."""
    refused = set()
    for path in CASES:
        tensor = whole(path)
        if tensor.shape[0] % 2:
            continue
        try:
            load_checkpoint(path, slices={WEIGHT: TensorSlice(0, 0, 2)})
        except (LayoutError, UnsupportedOperationError) as error:
            refused.add((path.parts[-3], "tiles" in str(error)))
    assert refused == {
        ("mx_tensor_layout", True),
        ("nvfp4_tensor_layout", True),
        ("nf4_tensor_layout", False),
    }


@pytest.mark.parametrize("mmap", [True, False])
@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.int8, torch.bool, torch.float8_e4m3fn]
)
def test_a_slice_of_a_plain_tensor_is_the_whole_cut(
    tmp_path: Path, dtype: torch.dtype, mmap: bool
) -> None:
    """Along each dimension, each part, contiguous."""
    tensor = torch.randn(6, 9, 12, generator=torch.Generator().manual_seed(0)).to(dtype)
    save_checkpoint({"w": tensor}, tmp_path / "m")
    for dim in range(3):
        for index, expected in enumerate(tensor.chunk(3, dim)):
            slices = {"w": TensorSlice(dim, index, 3)}
            found = load_checkpoint(tmp_path / "m", slices=slices, mmap=mmap)["w"]
            assert found.is_contiguous()
            assert same_bits(found, expected)


def test_rows_are_read_and_nothing_else(tmp_path: Path, reads: list[tuple[str, int, int]]) -> None:
    """Of dimension 0 exactly the bytes of the slice are read: codes, scales, plain tensors."""
    layout = current_layout(64, 32)
    source = checkpoint_of(
        tmp_path / "m", {"q": layout}, {"a": torch.randn(64, 8), "b": torch.randn(128)}
    )
    slices = {"q": TensorSlice(0, 3, 4), "a": TensorSlice(0, 1, 4)}
    load_checkpoint(source, names=["q", "a"], slices=slices, mmap=False)
    assert data_reads(reads, source / "model.safetensors") == 16 * 32 + 16 * 4 + 16 * 8 * 4


@pytest.mark.parametrize("columns", [8, 1 << 19])
def test_columns_read_no_more_than_the_tensor(
    tmp_path: Path, columns: int, reads: list[tuple[str, int, int]]
) -> None:
    """Wide rows are read in parts, narrow ones with what lies between; never another tensor."""
    tensor = torch.randn(4, 2 * columns)
    save_checkpoint({"a": tensor, "b": torch.randn(50)}, tmp_path / "m")
    reads.clear()
    slices = {"a": TensorSlice(1, 1, 2)}
    found = load_checkpoint(tmp_path / "m", names="a", slices=slices, mmap=False)["a"]
    taken = data_reads(reads, tmp_path / "m" / "model.safetensors")
    assert torch.equal(found, tensor[:, columns:])
    assert taken == (found.nbytes if columns > 8 else tensor.nbytes - columns * 4)


def test_slices_of_all_ranks_make_the_tensor(tmp_path: Path) -> None:
    """What `torch.cat` puts together again is the tensor, zero points that are all 0 included."""
    weight = torch.randn(32, 64)
    config = qconfig.Int8WeightOnlyConfig(granularity=qconfig.PerGroup(16))
    net = torch.nn.Sequential(torch.nn.Linear(64, 32, bias=False))
    net[0].weight = torch.nn.Parameter(weight)
    qconfig.quantize_(net, config)
    save_checkpoint(net, tmp_path / "m")
    for dim in (0, 1):
        parts = [
            load_checkpoint(tmp_path / "m", slices={"**": TensorSlice(dim, i, 4)})["0.weight"]
            for i in range(4)
        ]
        assert torch.equal(torch.cat(parts, dim).dequantize(), net[0].weight.dequantize())


def test_a_cut_through_a_byte_or_a_group_is_refused_before_anything_is_read(
    reads: list[tuple[str, int, int]],
) -> None:
    """The error names the tensor and what would be split."""
    path = GOLDEN / "int4_tensor_layout" / "v4" / "weight_only.safetensors"
    with pytest.raises(LayoutError, match="would split") as caught:
        load_checkpoint(path, slices={WEIGHT: TensorSlice(1, 0, 64)}, mmap=False)
    assert (caught.value.fqn, caught.value.file) == (WEIGHT, str(path))
    assert data_reads(reads, path) == 0


@pytest.mark.parametrize("piece", [TensorSlice(2, 0, 2), TensorSlice(-3, 0, 2)])
def test_a_dimension_that_is_not_there_is_refused(tmp_path: Path, piece: TensorSlice) -> None:
    """The dimension is named with the shape."""
    save_checkpoint({"w": torch.zeros(4, 4)}, tmp_path / "m")
    with pytest.raises(CheckpointError, match="no such dimension"):
        load_checkpoint(tmp_path / "m", slices={"w": piece})


def test_unequal_parts_are_refused_all_at_once(tmp_path: Path) -> None:
    """Each tensor whose dimension cannot be divided is named."""
    save_checkpoint({"a": torch.zeros(5), "b": torch.zeros(7)}, tmp_path / "m")
    with pytest.raises(CheckpointError) as caught:
        load_checkpoint(tmp_path / "m", slices={"*": TensorSlice(0, 0, 2)})
    assert [p.fqn for p in caught.value.problems] == ["a", "b"]


@pytest.mark.parametrize("values", [(0, 2, 2), (0, -1, 2), (0, 0, 0), (0, 0.0, 2), ("0", 0, 2)])
def test_a_slice_that_is_none_is_refused(values: tuple[object, ...]) -> None:
    """Ranks lie between 0 and the size of the group, and all are integers."""
    with pytest.raises(UsageError):
        TensorSlice(*values)


def test_what_is_no_slice_is_refused(tmp_path: Path) -> None:
    """A tuple is not taken for a slice."""
    save_checkpoint({"a": torch.zeros(4)}, tmp_path / "m")
    with pytest.raises(UsageError, match="not a slice"):
        load_checkpoint(tmp_path / "m", slices={"a": (0, 0, 2)})


def test_two_different_slices_of_one_tensor_are_refused(tmp_path: Path) -> None:
    """Which pattern would win is nobody's guess."""
    save_checkpoint({"a": torch.zeros(4)}, tmp_path / "m")
    slices = {"a": TensorSlice(0, 0, 2), "*": TensorSlice(0, 1, 2)}
    with pytest.raises(CheckpointError, match="two patterns give the tensor different slices"):
        load_checkpoint(tmp_path / "m", slices=slices)


def test_tied_names_are_cut_alike(tmp_path: Path) -> None:
    """A slice for one of two names is refused; for both it is one tensor under two names."""
    net = torch.nn.Sequential(torch.nn.Linear(8, 8, bias=False), torch.nn.Linear(8, 8, bias=False))
    net[1].weight = net[0].weight
    save_checkpoint(net, tmp_path / "m")
    piece = TensorSlice(0, 1, 2)
    with pytest.raises(CheckpointError, match=r"tied to 0\.weight"):
        load_checkpoint(tmp_path / "m", slices={"1.weight": piece})
    found = load_checkpoint(tmp_path / "m", slices={"*.weight": piece})
    assert found["0.weight"] is found["1.weight"]
    alone = load_checkpoint(tmp_path / "m", names="1.weight", slices={"1.weight": piece})
    assert torch.equal(alone["1.weight"], net[0].weight[4:])


def test_a_model_of_slices_is_filled(tmp_path: Path) -> None:
    """Local shapes are what the model of one rank has."""
    net = torch.nn.Linear(8, 6)
    save_checkpoint(net, tmp_path / "m")
    part = torch.nn.Linear(8, 3)
    load_checkpoint(tmp_path / "m", model=part, slices={"*": TensorSlice(0, 1, 2)})
    x = torch.randn(2, 8)
    assert torch.allclose(part(x), net(x)[:, 3:])
