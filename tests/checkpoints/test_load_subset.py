"""Loading some tensors by their names, and none of their bytes onto the meta device."""

from pathlib import Path

import pytest
import torch

from qconfig import TensorSlice, load_checkpoint, save_checkpoint
from qconfig.codec import safetensors_maps, safetensors_reader
from qconfig.codec.regular_files import OpenFile
from qconfig.errors import CheckpointError, RuleError
from tests.checkpoints.builders import (
    checkpoint_of,
    current_layout,
    float_checkpoint,
    float_state_dict,
)


@pytest.mark.parametrize("mmap", [True, False])
@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        ("norm.weight", ["norm.weight"]),
        ("**.up.*", ["layers.0.up.bias", "layers.0.up.weight"]),
        ("re:layers\\.\\d+\\.\\w+\\.bias", ["layers.0.down.bias", "layers.0.up.bias"]),
        (["norm.*", "embed_tokens.*"], ["embed_tokens.weight", "norm.weight"]),
        ([], []),
    ],
)
def test_names_are_chosen_by_pattern(
    tmp_path: Path, mmap: bool, patterns: list[str] | str, expected: list[str]
) -> None:
    """Names, globs and expressions, one or several, with the values of the whole checkpoint."""
    source = float_checkpoint(tmp_path / "m", shards=2)
    found = load_checkpoint(source, names=patterns, mmap=mmap)
    assert sorted(found) == expected
    assert all(torch.equal(t, float_state_dict()[n]) for n, t in found.items())


def test_a_pattern_that_matches_nothing_is_an_error(tmp_path: Path) -> None:
    """Each is named, the first with the name that is nearest."""
    source = float_checkpoint(tmp_path / "m")
    with pytest.raises(CheckpointError) as caught:
        load_checkpoint(source, names=["norm.wieght", "norm.weight", "x.*"])
    problems = caught.value.problems
    assert [p.found for p in problems] == ["'norm.wieght'", "'x.*'"]
    assert problems[0].hint == "did you mean 'norm.weight'?"


def test_a_slice_for_no_tensor_is_an_error(tmp_path: Path) -> None:
    """A slice whose pattern matches nothing is as wrong as a name."""
    source = float_checkpoint(tmp_path / "m")
    with pytest.raises(CheckpointError, match="matches no tensor"):
        load_checkpoint(source, slices={"gate.weight": TensorSlice(0, 0, 2)})


def test_a_slice_may_be_of_a_tensor_that_is_not_loaded(tmp_path: Path) -> None:
    """One plan of slices serves for any subset of names."""
    source = float_checkpoint(tmp_path / "m")
    found = load_checkpoint(source, names="norm.*", slices={"**.up.*": TensorSlice(0, 0, 2)})
    assert list(found) == ["norm.weight"]


def test_a_dangerous_pattern_is_refused(tmp_path: Path) -> None:
    """Expressions that can run away are no better here than in rules."""
    source = float_checkpoint(tmp_path / "m")
    with pytest.raises(RuleError):
        load_checkpoint(source, names="re:(a+)+b")


def test_a_quantized_tensor_has_one_name(tmp_path: Path) -> None:
    """Its parts are not names; its own name brings all of them."""
    source = checkpoint_of(tmp_path / "m", {"q": current_layout()}, {"a": torch.zeros(2)})
    assert load_checkpoint(source, names="q")["q"].scale.shape == (8, 1)
    with pytest.raises(CheckpointError, match="matches no tensor"):
        load_checkpoint(source, names="q.scale")


def test_a_tied_name_may_be_loaded_alone(tmp_path: Path) -> None:
    """The tensor comes under the names that were asked for, and no other."""
    net = torch.nn.Sequential(*(torch.nn.Linear(4, 4, bias=False) for _ in range(3)))
    net[1].weight = net[2].weight = net[0].weight
    save_checkpoint(net, tmp_path / "m")
    assert list(load_checkpoint(tmp_path / "m", names="2.weight")) == ["2.weight"]
    found = load_checkpoint(tmp_path / "m", names="re:[12]\\.weight")
    assert sorted(found) == ["1.weight", "2.weight"]
    assert found["1.weight"] is found["2.weight"]


def test_only_shards_of_chosen_tensors_are_mapped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of other shards the header is read."""
    mapped = []
    original = safetensors_maps.mmap.mmap

    def mmap(descriptor: int, *args: object, **kwargs: object) -> object:
        mapped.append(descriptor)
        return original(descriptor, *args, **kwargs)

    source = float_checkpoint(tmp_path / "m", shards=3)
    monkeypatch.setattr(safetensors_maps.mmap, "mmap", mmap)
    load_checkpoint(source, names="norm.weight")
    assert len(mapped) == 1


def test_only_the_bytes_of_chosen_tensors_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind the headers, which start at 0, nothing else is read of any shard."""
    read: list[int] = []
    original = OpenFile.read_into

    def read_into(self: OpenFile, view: memoryview, offset: int) -> None:
        if offset > 8:
            read.append(len(view))
        original(self, view, offset)

    source = float_checkpoint(tmp_path / "m", shards=3)
    monkeypatch.setattr(OpenFile, "read_into", read_into)
    load_checkpoint(source, names="norm.weight", mmap=False)
    assert read == [32 * 4]


@pytest.mark.parametrize("mmap", [True, False])
def test_meta_reads_no_tensor(tmp_path: Path, mmap: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names, shapes, types and layouts, cut or whole, from headers alone."""
    source = checkpoint_of(tmp_path / "m", {"q": current_layout()}, {"a": torch.zeros(4, 2)})
    monkeypatch.setattr(safetensors_reader, "_shaped", None)
    found = load_checkpoint(source, device="meta", mmap=mmap, slices={"q": TensorSlice(0, 1, 2)})
    assert {t.device.type for t in found.values()} == {"meta"}
    assert {n: tuple(t.shape) for n, t in found.items()} == {"a": (4, 2), "q": (4, 16)}
    assert found["q"].qdata.dtype == torch.int8
