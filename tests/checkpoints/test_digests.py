"""Digests find every flipped bit of a shard, name its tensor, and cost readers of old nothing."""

import json
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from qconfig import (
    Int8WeightOnlyConfig,
    convert_checkpoint,
    load_checkpoint,
    quantize_checkpoint,
    save_checkpoint,
    upgrade_checkpoint,
    verify_checkpoint,
)
from qconfig.checkpoints.contents import ShardContents
from qconfig.checkpoints.open import open_checkpoint
from qconfig.checkpoints.write import write_checkpoint
from qconfig.codec.safetensors_header import read_header
from qconfig.codec.tensor_values import LazyTensor
from qconfig.errors import ContainerError, QconfigError
from tests.checkpoints.builders import checkpoint_of, current_layout, float_checkpoint, v1_layout
from tests.golden_checkpoints import without_digests

ROW = Int8WeightOnlyConfig()


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A quantized checkpoint of two shards; tests copy it."""
    folder = tmp_path_factory.mktemp("digests")
    quantize_checkpoint(float_checkpoint(folder / "float", shards=2), folder / "int8", ROW)
    return folder / "int8"


def stored(directory):
    """Return (shard, tensor, its byte range) of everything that is stored."""
    headers = [read_header(path) for path in sorted(directory.glob("*.safetensors"))]
    return [(h.path, name, h.byte_range(name)) for h in headers for name in h.tensors]


def flip(path, bit):
    """Flip one bit of a file, counted from its beginning."""
    with path.open("r+b") as file:
        file.seek(bit // 8)
        (byte,) = file.read(1)
        file.seek(bit // 8)
        file.write(bytes([byte ^ 1 << bit % 8]))


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), jobs=st.sampled_from([1, 3]))
def test_one_flipped_bit_in_any_tensor_is_found(sound, tmp_path_factory, data, jobs):
    """In each stored tensor in turn: the shard, the tensor and its byte range are named."""
    folder = tmp_path_factory.mktemp("flip")
    copy = folder / "copy"
    shutil.copytree(sound, copy)
    for path, name, place in stored(copy):
        bit = 8 * place.offset + data.draw(st.integers(0, 8 * place.length - 1), label=name)
        flip(path, bit)
        with ThreadPoolExecutor(jobs) as pool:
            found = verify_checkpoint(copy, executor=pool if jobs > 1 else None)
        flip(path, bit)
        problem = found.problems[0]
        assert (problem.fqn, problem.file) == (name, str(path))
        assert f"bytes {place.offset} to {place.offset + place.length}" in str(problem)
        assert "not those that were written" in str(problem)
    assert verify_checkpoint(copy).ok


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(position=st.integers(0, 2**32))
def test_one_flipped_bit_in_a_header_is_found(sound, tmp_path_factory, position):
    """Names, shapes, dtypes, offsets, the record and the digests themselves are covered."""
    copy = tmp_path_factory.mktemp("flip") / "copy"
    shutil.copytree(sound, copy)
    shard = sorted(copy.glob("*.safetensors"))[position % 2]
    flip(shard, position // 2 % (8 * read_header(shard).data_start))
    try:
        found = verify_checkpoint(copy)
    except QconfigError:
        return  # what cannot be opened is found, too
    assert not found.ok


@pytest.mark.parametrize("key", ["header", "tensors"])
def test_a_damaged_digest_is_found(tmp_path, sound, key):
    """A digit that became another one: the header does not say what was written."""
    copy = tmp_path / "copy"
    shutil.copytree(sound, copy)
    shard, *_ = stored(copy)[0]
    content = shard.read_bytes()
    marker = f'\\"{key}\\":\\"'.encode()
    at = content.index(marker) + len(marker)
    digit = b"1" if content[at : at + 1] != b"1" else b"2"
    shard.write_bytes(content[:at] + digit + content[at + 1 :])
    (problem,) = verify_checkpoint(copy).problems
    assert "the header does not say what was written" in str(problem)
    assert problem.file == str(shard)
    with pytest.raises(ContainerError, match="the header does not say what was written"):
        write_checkpoint(tmp_path / "t", {}, {}, origin=open_checkpoint(copy))


@pytest.mark.parametrize(
    "digests",
    [
        7,
        {},
        {"algorithm": "xxh3_64", "header": "0" * 16},
        {"algorithm": "xxh3_64", "header": "0" * 15, "tensors": ""},
        {"algorithm": "xxh3_64", "header": "0" * 16, "tensors": "0" * 17},
        {"algorithm": "xxh3_64", "header": "0" * 16, "tensors": "G" * 16},
        {"algorithm": 3, "header": "0" * 16, "tensors": ""},
        {"algorithm": "xxh3_64", "header": "0" * 16, "tensors": "", "more": 1},
    ],
    ids=str,
)
def test_malformed_digests_are_refused(tmp_path, digests):
    """Digests of another form are a damaged record."""
    source = checkpoint_of(tmp_path / "m", {"a.weight": current_layout()})
    edit(source, digests=digests)
    with pytest.raises(ContainerError, match="record is malformed") as caught:
        open_checkpoint(source)
    assert "/__metadata__/qconfig/digests" in str(caught.value)


def edit(directory, **changes):
    """Write the one file of a checkpoint anew, with another record."""
    from safetensors.torch import load_file, save_file

    path = directory / "model.safetensors"
    record = json.loads(read_header(path).metadata["qconfig"]) | changes
    save_file(load_file(path), path, {"qconfig": json.dumps(record, separators=(",", ":"))})


def test_an_unknown_algorithm_is_no_problem(tmp_path):
    """A later release may digest otherwise: what cannot be checked is said to have no digests."""
    source = checkpoint_of(tmp_path / "m", {"a.weight": current_layout()})
    digests = {"algorithm": "blake9", "header": "0" * 16, "tensors": ""}
    edit(source, digests=digests)
    found = verify_checkpoint(source)
    assert (found.ok, found.digests) == (True, 0)
    assert found.without_digests == ("model.safetensors",)


def test_a_truncated_shard_is_refused(tmp_path, sound):
    """A file that is cut short is found before any tensor is read."""
    copy = tmp_path / "copy"
    shutil.copytree(sound, copy)
    shard, *_ = stored(copy)[0]
    shard.write_bytes(shard.read_bytes()[:-1])
    with pytest.raises(QconfigError, match=shard.name):
        verify_checkpoint(copy)


def test_a_file_in_another_order_is_still_sound(tmp_path):
    """The safetensors library orders and pads otherwise: content and bytes match all the same."""
    source = checkpoint_of(
        tmp_path / "m", {"a.weight": current_layout()}, {"b": torch.zeros(3), "a": torch.ones(0)}
    )
    before = (source / "model.safetensors").read_bytes()
    from safetensors.torch import load_file, save_file

    path = source / "model.safetensors"
    save_file(load_file(path), path, read_header(path).metadata)
    assert path.read_bytes() != before
    found = verify_checkpoint(source)
    assert (found.ok, found.digests, found.without_digests) == (True, 4, ())


def test_a_checkpoint_without_digests_verifies_as_before(tmp_path):
    """A float checkpoint of another tool has none, and that is said."""
    found = verify_checkpoint(float_checkpoint(tmp_path / "m", shards=2))
    assert (found.ok, found.notes, found.digests) == (True, (), 0)
    assert len(found.without_digests) == 2


def test_only_the_record_differs(tmp_path):
    """Without digests a file is what it was: container version 1, the same data."""
    contents = ShardContents({"b": LazyTensor.of(torch.arange(3))}, {}, ties={"c": "b"})
    for name, digests in (("with", True), ("without", False)):
        write_checkpoint(tmp_path / name, {"model.safetensors": contents}, {}, digests=digests)
    file = tmp_path / "with" / "model.safetensors"
    assert without_digests(file) == (tmp_path / "without" / "model.safetensors").read_bytes()
    record = json.loads(read_header(file).metadata["qconfig"])
    assert (record["container"], record["min_reader"]) == (2, 1)


@pytest.mark.parametrize("jobs", [1, 2])
def test_the_same_contents_give_the_same_bytes(tmp_path, sound, jobs):
    """Digests depend on the contents alone, not on threads."""
    source = float_checkpoint(tmp_path / "float", shards=2)
    with ThreadPoolExecutor(jobs) as pool:
        quantize_checkpoint(source, tmp_path / "again", ROW, executor=pool)
    for path in sound.glob("*.safetensors"):
        assert path.read_bytes() == (tmp_path / "again" / path.name).read_bytes()


def test_an_upgrade_keeps_digests_of_what_it_copies(tmp_path):
    """Damage of the source stays known: copied bytes keep the digest of when they were written."""
    source = checkpoint_of(tmp_path / "old", {"a.weight": v1_layout()}, {"b": torch.zeros(9)})
    path, _, place = next(found for found in stored(source) if found[1] == "b")
    flip(path, 8 * place.offset)
    report = upgrade_checkpoint(source, tmp_path / "new", verify=True)
    assert [p.fqn for p in report.problems] == ["b"]


def test_an_upgrade_of_files_without_digests_makes_them(tmp_path):
    """Copied byte ranges are digested as they are copied."""
    contents = ShardContents(
        {"b": LazyTensor.of(torch.zeros(9))}, {"a.weight": wrapped_v1()}, ties={}
    )
    write_checkpoint(tmp_path / "old", {"model.safetensors": contents}, {}, digests=False)
    assert verify_checkpoint(tmp_path / "old").digests == 0
    upgrade_checkpoint(tmp_path / "old", tmp_path / "new")
    found = verify_checkpoint(tmp_path / "new")
    assert (found.ok, found.digests) == (True, 3 + 1)


def wrapped_v1():
    """Return an old layout with lazy tensors."""
    from qconfig.codec.layout_values import wrapped

    return wrapped(v1_layout())


def test_torchaos_form_has_no_digests(tmp_path, sound):
    """It has no place for them, and is byte for byte what torchao writes."""
    convert_checkpoint(sound, tmp_path / "t", to="torchao")
    found = verify_checkpoint(tmp_path / "t")
    assert (found.ok, found.digests) == (True, 0)


def test_saved_and_loaded(tmp_path):
    """save_checkpoint writes digests, of empty tensors too, and loading does not need them."""
    tensors = {"a": torch.arange(5), "empty": torch.zeros(0, 3)}
    save_checkpoint(tensors, tmp_path / "m")
    assert verify_checkpoint(tmp_path / "m").digests == 2
    edit(tmp_path / "m", digests={"algorithm": "xxh3_64", "header": "0" * 16, "tensors": ""})
    assert torch.equal(load_checkpoint(tmp_path / "m")["a"], tensors["a"])
