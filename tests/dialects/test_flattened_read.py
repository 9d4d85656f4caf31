"""Tensors that torchao flattened: every class, both forms of keys, any split over shards."""

import json
from enum import Enum
from typing import Any

import pytest
import torch
from attrs import frozen
from safetensors.torch import load_file

from qconfig.codec.dtypes import DType
from qconfig.codec.safetensors_header import read_header
from qconfig.codec.safetensors_reader import lazy_tensors
from qconfig.codec.tensor_values import LazyTensor
from qconfig.dialects.torchao.safetensors_read import is_torchao, read_flattened
from qconfig.dialects.torchao.stored import StoredEnum, StoredObject
from qconfig.dialects.torchao.tensors.table import read_tensor
from tests.dialects.flattened_files import (
    changed,
    flattened,
    named,
    packed_elsewhere,
    read_files,
    torchao_tensors,
    weight,
)
from tests.torchao_files import CORPUS, DATA

ALL = {**torchao_tensors(), **packed_elsewhere()}
OLD = DATA / "flattened" / "0.14.1.safetensors"
REAL = sorted(
    file
    for folder in (CORPUS / "torchao", DATA)
    for file in folder.glob("0.*/*.safetensors")
    if not file.name.endswith(".inner.safetensors")
)


def same(ours: Any, theirs: Any) -> bool:
    """Return whether a stored value says what torchao's says."""
    if isinstance(ours, LazyTensor):
        tensor = ours.load()
        return tensor.dtype == theirs.dtype and raw(tensor).equal(raw(theirs))
    if isinstance(ours, StoredEnum):
        return (ours.name, ours.member) == (type(theirs).__name__, theirs.name)
    if isinstance(ours, StoredObject):
        fields = all(same(v, getattr(theirs, k)) for k, v in ours.fields.items())
        return ours.name == type(theirs).__name__ and fields
    if isinstance(ours, DType):
        return ours.to_torch() == theirs
    assert not isinstance(theirs, Enum) or isinstance(theirs, str)
    return list(ours) == list(theirs) if isinstance(ours, list) else ours == theirs


def raw(tensor: torch.Tensor) -> torch.Tensor:
    """Return the bytes of a tensor."""
    return tensor.contiguous().reshape(-1).view(torch.uint8)


@pytest.mark.parametrize("name", ALL)
def test_every_class_that_torchao_flattens_has_its_parts_and_attributes(tmp_path, name):
    """Parts have torchao's bytes, attributes its values."""
    found = read_files(tmp_path, {"model.safetensors": flattened({"a.weight": ALL[name]})})
    stored = found.stored["a.weight"]
    assert stored.name == type(ALL[name]).__name__
    names = {*ALL[name].tensor_data_names, *ALL[name].tensor_attribute_names}
    assert names <= stored.fields.keys()
    for field, value in stored.fields.items():
        assert same(value, getattr(ALL[name], field)), field


def test_a_plain_tensor_is_plain(tmp_path):
    """A tensor of type Tensor stays what it is."""
    bias = weight(4)
    found = read_files(tmp_path, {"model.safetensors": flattened({"a.bias": bias})})
    assert found.plain["a.bias"].load().equal(bias)
    assert found.shard_of == {"a.bias": "model.safetensors"}


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("where", ["first", "last", "all", "apart"])
def test_parts_and_metadata_may_lie_in_any_shard(tmp_path, count, where):
    """A tensor is whole wherever its parts and its metadata lie."""
    tensors, metadata = flattened(named(ALL))
    names = [f"model-{i}.safetensors" for i in range(count)]
    keys = sorted(tensors)
    shards = {n: {k: tensors[k] for k in keys[i::count]} for i, n in enumerate(names)}
    holders = {"first": names[:1], "last": names[-1:], "all": names, "apart": names[:1]}[where]
    files = {n: (shards[n], metadata if n in holders else {"format": "pt"}) for n in names}
    if where == "apart":
        listing = {"tensor_names": metadata["tensor_names"]}
        rest = {k: v for k, v in metadata.items() if k != "tensor_names"}
        files[names[0]], files[names[1]] = (shards[names[0]], listing), (shards[names[1]], rest)
    found = read_files(tmp_path, files)
    assert found.stored.keys() == named(ALL).keys()
    assert not found.plain
    for name, tensor in named(ALL).items():
        assert same(found.stored[name].fields["qdata"], tensor.qdata)
        assert found.shard_of[name] in names


def test_shards_may_list_their_own_tensors_only(tmp_path):
    """Lists of several shards are put together."""
    first, second = ({f"m{i}.weight": ALL["int8_rows"]} for i in range(2))
    files = {"1.safetensors": flattened(first), "2.safetensors": flattened(second)}
    assert read_files(tmp_path, files).shard_of == {
        "m0.weight": "1.safetensors",
        "m1.weight": "2.safetensors",
    }


def test_names_without_a_dot_have_keys_without_a_module(tmp_path):
    """A parameter of the model itself is read, too."""
    tensors, metadata = flattened({"a.weight": ALL["int8_rows"], "a.scale": weight(1)})
    bare = {key.removeprefix("a."): tensor for key, tensor in tensors.items()}
    names = {k.removeprefix("a."): v for k, v in metadata.items() if k != "tensor_names"}
    listing = {"tensor_names": json.dumps(list(names))}
    found = read_files(tmp_path, {"model.safetensors": (bare, names | listing)})
    assert found.stored.keys() == {"weight"}
    assert found.plain.keys() == {"scale"}


def test_names_that_begin_like_each_other_keep_their_parts(tmp_path):
    """No tensor gets a part of another whose name begins like its own."""
    tensors = {
        "m.w": ALL["int8_rows"],
        "m.w_1": ALL["float8_rows"],
        "m._w_extra": weight(3),
        "m.w_qdata": weight(3),
    }
    found = read_files(tmp_path, {"model.safetensors": flattened(tensors)})
    assert {n: s.name for n, s in found.stored.items()} == {
        "m.w": "Int8Tensor",
        "m.w_1": "Float8Tensor",
    }
    assert found.plain.keys() == {"m._w_extra", "m.w_qdata"}
    assert same(found.stored["m.w"].fields["scale"], ALL["int8_rows"].scale)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("PerRow", {"dim": -1}),
        ("PerTensor", {}),
        ("PerGroup", {"group_size": 32}),
        ("PerAxis", {"axis": 0}),
        ("PerToken", {}),
        ("PerBlock", {"block_size": [1, 32]}),
    ],
)
def test_every_granularity_is_read(tmp_path, name, data):
    """Granularities that torchao saves and cannot load are read, too."""
    tensors, metadata = flattened({"a.weight": ALL["float8_dynamic"]})
    text = metadata["a.weight"].replace(
        '{"_type": "PerTensor", "_data": {}}', json.dumps({"_type": name, "_data": data})
    )
    found = read_files(tmp_path, {"m.safetensors": (tensors, {**metadata, "a.weight": text})})
    kwargs = found.stored["a.weight"].fields["act_quant_kwargs"]
    assert kwargs.fields["granularity"] == StoredObject(name, data)


def test_an_enum_that_torchao_writes_and_cannot_load_is_read(tmp_path):
    """An activation quantization given as an enum is its member."""
    tensors, metadata = flattened({"a.weight": ALL["intx_tokens"]})
    name = "IntxUnpackedToInt8TensorActivationQuantization"
    data = json.loads(metadata["a.weight"])["_data"] | {
        "activation_quantization": {"_type": name, "_data": "INT8_ASYM_PER_TOKEN"}
    }
    files = {"m.safetensors": (tensors, changed(metadata, "a.weight", _data=data))}
    fields = read_files(tmp_path, files).stored["a.weight"].fields
    assert fields["activation_quantization"] == StoredEnum(name, "INT8_ASYM_PER_TOKEN")


@pytest.mark.parametrize("text", ["torch.bfloat16", "bfloat16"])
def test_a_dtype_may_be_a_text(tmp_path, text):
    """A dtype written as text is the dtype."""
    tensors, metadata = flattened({"a.weight": ALL["int8_rows"]})
    data = json.loads(metadata["a.weight"])["_data"] | {"dtype": text}
    files = {"m.safetensors": (tensors, changed(metadata, "a.weight", _data=data))}
    assert read_files(tmp_path, files).stored["a.weight"].fields["dtype"] is DType.BFLOAT16


def test_exponents_stored_as_bytes_have_their_own_type(tmp_path):
    """Scales stored as uint8 are e8m0 of the same bytes, which stay where they lie."""
    tensors, metadata = flattened({"a.weight": ALL["mxfp8"]})
    tensors["a._weight_scale"] = tensors["a._weight_scale"].view(torch.uint8)
    found = read_files(tmp_path, {"m.safetensors": (tensors, metadata)})
    scale = read_tensor(found.stored["a.weight"]).layout.scale
    assert scale.dtype is DType.FLOAT8_E8M0FNU
    assert scale.source is not None
    assert same(scale, ALL["mxfp8"].scale)


def test_a_file_of_014_has_keys_with_colons_and_no_lists_of_parts():
    """A file that torchao 0.14.1 wrote is read with its own form of keys."""
    header = read_header(OLD)
    found = read_flattened({OLD.name: header}, lazy_tensors(header))
    truth = load_file(DATA / "flattened" / "0.14.1.truth.safetensors")
    assert {n: s.name for n, s in found.stored.items()} == {
        "embed.weight": "IntxUnpackedToInt8Tensor",
        "m.w": "IntxUnpackedToInt8Tensor",
        "m.w_1": "Float8Tensor",
        "layers.0.up.weight": "Float8Tensor",
        "layers.0.down.weight": "Float8Tensor",
        "layers.0.gate.weight": "Float8Tensor",
        "layers.0.int4.weight": "Int4Tensor",
        "weight": "IntxUnpackedToInt8Tensor",
    }
    assert "act_pre_scale" in found.stored["layers.0.int4.weight"].fields
    for name in ("m._w_extra", "layers.0.up.bias", "logit_scale"):
        assert found.plain[name].load().equal(truth[name])
    assert found.metadata == {OLD.name: {"format": "pt"}}


@pytest.mark.parametrize("file", REAL, ids=lambda f: f"{f.parent.name}-{f.stem}")
def test_files_of_real_releases_are_read_whole(file):
    """Each stored tensor of a real file belongs to something."""
    header = read_header(file)
    assert is_torchao(header.metadata)
    found = read_flattened({file.name: header}, lazy_tensors(header))
    parts = [v for s in found.stored.values() for v in s.fields.values()]
    count = len(found.plain) + sum(isinstance(v, LazyTensor) for v in parts)
    assert count == len(header.tensors)
    assert not found.notes


@frozen
class _Odd:
    """Metadata of no known form."""


@pytest.mark.parametrize(
    "metadata",
    [
        None,
        {},
        _Odd(),
        {"format": "pt"},
        {"tensor_names": None},
        {"tensor_names": "a"},
        {"tensor_names": "1"},
        {"tensor_names": "{}"},
        {"tensor_names": "[]"},
        {"tensor_names": "[1, null, {}]"},
        {"tensor_names": "[" * 2000},
        {"tensor_names": '["a"]'},
        {"tensor_names": '["a"]', "a": "1"},
        {"tensor_names": '["a"]', "a": "null"},
        {"tensor_names": '["a"]', "a": '{"_type": 1}'},
        {"tensor_names": '["a"]', "a": '{"_type": "x"'},
        {"tensor_names": '["a"]', "a": 3},
    ],
)
def test_foreign_metadata_is_not_torchaos(metadata):
    """Metadata of any other form is not torchao's, and no error."""
    assert not is_torchao(metadata)


def test_weights_that_transformers_lists_and_does_not_store_are_noted(tmp_path):
    """A tied weight is listed twice and stored once."""
    tensors, metadata = flattened({"embed.weight": weight(4, 2), "head.weight": weight(4, 2)})
    del tensors["head.weight"]
    found = read_files(tmp_path, {"m.safetensors": (tensors, metadata)})
    assert found.plain.keys() == {"embed.weight"}
    (note,) = found.notes
    assert note == "head.weight is listed by torchao's metadata and not stored; is it tied?"
