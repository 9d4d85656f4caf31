"""Other libraries' checkpoints that have parts of a tensor in several files, through each verb."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from qconfig import (
    convert_checkpoint,
    inspect_checkpoint,
    load_checkpoint,
    upgrade_checkpoint,
    verify_checkpoint,
)
from qconfig.errors import CheckpointError
from tests.checkpoints.split import INDEX, shard_names
from tests.dialects.brevitas.samples import CONFIGS, FILES
from tests.dialects.flattened_files import changed, flattened, named, torchao_tensors, weight

ALL = {name: t for name, t in torchao_tensors().items() if name in {"int8_rows", "float8_rows"}}
FLAT, METADATA = flattened(named(ALL) | {"model.norm.bias": weight(8)})
PICKLE_INDEX = "pytorch_model.bin.index.json"
Tensors = Mapping[str, torch.Tensor]


def written(directory: Path, files: Mapping[str, tuple[Tensors, Mapping[str, str]]]) -> Path:
    """Write shards with their metadata, and an index where there are several."""
    directory.mkdir()
    for name, (tensors, metadata) in files.items():
        save_file(dict(tensors), directory / name, dict(metadata))
    if len(files) > 1:
        weight_map = {key: name for name, (tensors, _) in files.items() for key in tensors}
        (directory / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return directory


def parts(tensors: Tensors, count: int) -> list[dict[str, torch.Tensor]]:
    """Return tensors in turn: those whose names follow each other lie apart."""
    keys = sorted(tensors)
    return [{key: tensors[key] for key in keys[i::count]} for i in range(count)]


def flat_files(
    count: int, holders: Callable[[int], bool]
) -> dict[str, tuple[Tensors, Mapping[str, str]]]:
    """Return torchao's tensors in so many shards, and its metadata in some of them."""
    texts = [METADATA if holders(i) else {"format": "pt"} for i in range(count)]
    return dict(zip(shard_names(count), zip(parts(FLAT, count), texts, strict=True), strict=True))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """All tensors in one file, and what an upgrade makes of it."""
    home = tmp_path_factory.mktemp("whole")
    written(home / "old", {"model.safetensors": (FLAT, METADATA)})
    upgrade_checkpoint(home / "old", home / "new")
    return home


@pytest.fixture(
    params=[
        (2, lambda i: i == 0),
        (2, lambda i: i == 1),
        (2, lambda _: True),
        (3, lambda i: i == 0),
        (3, lambda i: i > 0),
        (3, lambda _: True),
    ],
    ids=["2, first", "2, second", "2, both", "3, first", "3, last two", "3, all"],
)
def apart(request, tmp_path):
    """The same tensors in several shards, and the metadata in some."""
    return written(tmp_path / "apart", flat_files(*request.param))


def content(directory):
    """Return all stored tensors of a directory, whatever shard they lie in."""
    files = directory.glob("*.safetensors")
    return {name: tensor for file in files for name, tensor in load_file(file).items()}


def same(first, second):
    """Return whether two directories hold the same tensors, bit for bit."""
    ours, theirs = content(first), content(second)
    assert ours.keys() == theirs.keys()
    return all(bits(ours[key]).equal(bits(theirs[key])) for key in ours)


def bits(tensor):
    """Return the bytes of a tensor."""
    return tensor.reshape(-1).view(torch.uint8)


def test_inspect_verify_and_load_take_it(whole, apart):
    """Sizes, values and names are those of one file."""
    found = inspect_checkpoint(apart)
    assert found.total_bytes == inspect_checkpoint(whole / "old").total_bytes
    assert verify_checkpoint(apart).ok
    loaded = load_checkpoint(apart)
    for name, tensor in load_checkpoint(whole / "old").items():
        if hasattr(tensor, "qdata"):
            assert torch.equal(loaded[name].dequantize(), tensor.dequantize())
        else:
            assert torch.equal(loaded[name], tensor)


def test_an_upgrade_gives_what_that_of_one_file_gives(whole, apart, tmp_path):
    """Parts are put together, each copied from the shard that it lies in."""
    report = upgrade_checkpoint(apart, tmp_path / "new", verify=True)
    assert report.problems == ()
    assert same(tmp_path / "new", whole / "new")
    assert report.copied_bytes >= sum(t.nbytes for t in FLAT.values())


def test_a_conversion_gives_what_torchao_wrote(apart, tmp_path):
    """In torchao's own form again, with all parts of a tensor in one shard."""
    convert_checkpoint(apart, tmp_path / "new")
    written_again = content(tmp_path / "new")
    assert all(bits(written_again[key]).equal(bits(tensor)) for key, tensor in FLAT.items())
    for name in named(ALL):
        start = f"{name.rpartition('.')[0]}._weight_"
        files = [f for f in (tmp_path / "new").glob("*.safetensors") if has(f, start)]
        assert len(files) == 1


def has(file, start):
    """Return whether a file has a tensor whose name begins so."""
    return any(key.startswith(start) for key in load_file(file))


def test_shards_that_list_their_own_tensors_may_hold_parts_of_others(tmp_path):
    """A part lies in a shard whose metadata says nothing of it."""
    (first, says_first), (second, says_second) = (
        flattened({f"m{i}.weight": tensor}) for i, tensor in enumerate(ALL.values())
    )
    moved = {key: first[key] for key in first if key.endswith("scale")}
    kept = {key: first[key] for key in first if key not in moved}
    names = shard_names(2)
    source = written(
        tmp_path / "m",
        {names[0]: (kept, says_first), names[1]: (second | moved, says_second)},
    )
    upgrade_checkpoint(source, tmp_path / "new", verify=True)
    assert load_checkpoint(tmp_path / "new").keys() == {"m0.weight", "m1.weight"}


def test_metadata_that_contradicts_names_both_shards(tmp_path):
    """The file that says otherwise, and the one that it contradicts."""
    name = "model.int8_rows.weight"
    files = flat_files(2, lambda _: True)
    first, second = files
    data = json.loads(METADATA[name])["_data"] | {"block_size": [1, 32]}
    files[second] = (files[second][0], changed(METADATA, name, _data=data))
    source = written(tmp_path / "m", files)
    with pytest.raises(CheckpointError, match="two shards describe the tensor") as caught:
        inspect_checkpoint(source)
    assert caught.value.file == str(source / second)
    assert caught.value.expected == f"what {first} says"


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("form", ["safetensors", "pickles"])
def test_a_weight_and_its_quantizer_in_other_shards(form, count, tmp_path):
    """State dicts of Brevitas with their scales in other files than their weights."""
    file, config = FILES / "0.13.4" / "activations.state_dict.pt", CONFIGS["activations"]
    state = torch.load(file, weights_only=True)
    if form == "safetensors":
        shards = zip(shard_names(count), parts(state, count), strict=True)
        source = written(tmp_path / "old", {name: (part, {}) for name, part in shards})
        upgrade_checkpoint(source, tmp_path / "new", config=config)
    else:
        source = pickled(tmp_path / "old", parts(state, count))
        upgrade_checkpoint(source, tmp_path / "new", config=config, dialect="brevitas")
    upgrade_checkpoint(file, tmp_path / "one", config=config)
    assert same(tmp_path / "new", tmp_path / "one")


def pickled(directory: Path, shards: list[dict[str, torch.Tensor]]) -> Path:
    """Write pickles with their index, as transformers did."""
    directory.mkdir()
    names = [name.replace("model", "pytorch_model") for name in shard_names(len(shards))]
    names = [name.replace(".safetensors", ".bin") for name in names]
    for name, state in zip(names, shards, strict=True):
        torch.save(state, directory / name)
    weight_map = {key: n for n, state in zip(names, shards, strict=True) for key in state}
    (directory / PICKLE_INDEX).write_text(json.dumps({"weight_map": weight_map}))
    return directory
