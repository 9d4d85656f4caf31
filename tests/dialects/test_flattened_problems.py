"""Flattened tensors that are incomplete, contradictory, unlisted or malformed: all reported."""

import json

import pytest
import torch
from safetensors.torch import save_file

from qconfig.checkpoints.open import open_checkpoint
from qconfig.codec.safetensors_header import read_header
from qconfig.codec.safetensors_reader import lazy_tensors
from qconfig.dialects.torchao.safetensors_read import read_flattened
from qconfig.errors import CheckpointError, QconfigError
from tests.dialects.flattened_files import (
    changed,
    flattened,
    read_files,
    torchao_tensors,
    weight,
)

INT8 = torchao_tensors()["int8_rows"]
NAME = "a.weight"


@pytest.fixture
def parts():
    """The parts and the metadata of an int8 weight and a bias."""
    return flattened({NAME: INT8, "a.bias": weight(16)})


def problem_of(tmp_path, tensors, metadata) -> QconfigError:
    """Return the only problem of a file."""
    with pytest.raises(QconfigError) as caught:
        read_files(tmp_path, {"model.safetensors": (tensors, metadata)})
    (problem,) = caught.value.problems
    return problem


@pytest.mark.parametrize("part", ["qdata", "scale", "zero_point"])
def test_a_missing_part_is_named_with_its_key(tmp_path, parts, part):
    """The error for a lost part has the tensor, the key and the file."""
    tensors, metadata = parts
    del tensors[f"a._weight_{part}"]
    problem = problem_of(tmp_path, tensors, metadata)
    assert problem.message == "a part of the tensor is missing"
    assert problem.fqn == NAME
    assert problem.found == repr(f"no a._weight_{part}")
    assert problem.file == str(tmp_path / "model.safetensors")
    assert problem.hint == "open the directory, whose other files may hold it"


def test_a_part_missing_in_all_shards_says_which_were_looked_at(tmp_path, parts):
    """The error for a part that no shard has lists the shards."""
    tensors, metadata = parts
    bias = {"a.bias": tensors.pop("a.bias")}
    del tensors["a._weight_scale"]
    with pytest.raises(CheckpointError) as caught:
        read_files(tmp_path, {"1.safetensors": (tensors, metadata), "2.safetensors": (bias, {})})
    assert caught.value.expected == "scale in one of 1.safetensors, 2.safetensors"
    assert caught.value.hint == "a file was cut or left out; fetch the checkpoint again"


def test_a_listed_tensor_without_description_is_named(tmp_path, parts):
    """A name without metadata, on which torchao fails in its JSON reader, is an error of ours."""
    tensors, metadata = parts
    del metadata[NAME]
    problem = problem_of(tmp_path, tensors, metadata)
    assert problem.message == "torchao's metadata lists the tensor and does not describe it"
    assert problem.fqn == NAME
    assert problem.pointer == "/__metadata__/a.weight"


def test_a_described_tensor_that_nobody_lists_is_named(tmp_path, parts):
    """A description whose name is not listed is not passed over."""
    tensors, metadata = parts
    metadata["tensor_names"] = json.dumps(["a.bias"])
    problem = problem_of(tmp_path, tensors, metadata)
    assert problem.message == "tensor_names does not list a tensor that is described"
    assert problem.fqn == NAME


@pytest.mark.parametrize("key", ["a.other", "b._weight_scale", "b.weight:qdata", "_w_qdata"])
def test_a_tensor_that_nobody_describes_is_named(tmp_path, parts, key):
    """A stored tensor without metadata is not taken for a plain one."""
    tensors, metadata = parts
    tensors[key] = torch.ones(2)
    problem = problem_of(tmp_path, tensors, metadata)
    assert problem.message == "torchao's metadata does not list the tensor"
    assert problem.fqn == key


def test_a_part_that_its_tensor_does_not_list_is_named(tmp_path, parts):
    """A part that exists and is not listed is not dropped."""
    tensors, metadata = parts
    tensors["a._weight_act_pre_scale"] = torch.ones(64)
    problem = problem_of(tmp_path, tensors, metadata)
    assert problem.fqn == "a._weight_act_pre_scale"
    assert problem.expected == "a description of a.weight that lists it"


def test_a_part_left_out_of_the_list_is_named(tmp_path, parts):
    """A list of parts without one that the class needs is an error."""
    tensors, metadata = parts
    metadata = changed(metadata, NAME, _tensor_data_names=["qdata", "zero_point"])
    with pytest.raises(CheckpointError) as caught:
        read_files(tmp_path, {"model.safetensors": (tensors, metadata)})
    first = caught.value.problems[0]
    assert first.message == "the metadata lists the parts of the tensor, and not all of them"
    assert first.expected == "qdata, scale at least"


def test_a_part_that_the_class_does_not_have_is_named(tmp_path, parts):
    """An unknown part gets an error with the nearest known one."""
    tensors, metadata = parts
    names = ["qdata", "scale", "zero_point", "zero_points"]
    problem = problem_of(tmp_path, tensors, changed(metadata, NAME, _tensor_data_names=names))
    assert problem.message == "Int8Tensor has no such part"
    assert problem.found == "'zero_points'"
    assert problem.hint == "did you mean 'zero_point'?"


def test_a_class_that_torchao_never_flattened_is_named(tmp_path, parts):
    """A class outside of torchao's list is refused by name."""
    tensors, metadata = parts
    problem = problem_of(tmp_path, tensors, changed(metadata, NAME, _type="Int4PreshuffledTensor"))
    assert problem.message == "torchao stores no tensors of this class in safetensors files"
    assert problem.found == "'Int4PreshuffledTensor'"


def test_a_key_that_two_tensors_claim_is_named(tmp_path, parts):
    """One stored tensor cannot be a part and a plain tensor."""
    tensors, metadata = parts
    metadata["a._weight_scale"] = '{"_type": "Tensor"}'
    metadata["tensor_names"] = json.dumps([NAME, "a.bias", "a._weight_scale"])
    problem = problem_of(tmp_path, tensors, metadata)
    assert problem.message == "a tensor belongs to two"
    assert problem.fqn == "a._weight_scale"


def test_descriptions_that_differ_between_shards_are_named(tmp_path, parts):
    """Two shards with other metadata for one tensor are a contradiction."""
    tensors, metadata = parts
    bias = {"a.bias": tensors.pop("a.bias")}
    other = changed(metadata, NAME, _type="Float8Tensor")
    files = {"1.safetensors": (tensors, metadata), "2.safetensors": (bias, other)}
    with pytest.raises(CheckpointError, match="two shards describe the tensor, and not alike"):
        read_files(tmp_path, files)


def test_descriptions_that_say_the_same_in_other_words_are_one(tmp_path, parts):
    """Metadata repeated in each shard may differ in the order of keys."""
    tensors, metadata = parts
    bias = {"a.bias": tensors.pop("a.bias")}
    other = {k: json.dumps(json.loads(v), sort_keys=True) for k, v in metadata.items()}
    files = {"1.safetensors": (tensors, metadata), "2.safetensors": (bias, other)}
    assert read_files(tmp_path, files).stored.keys() == {NAME}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[]", "not the description of a tensor"),
        ("{}", "not the description of a tensor"),
        ('{"_type": null}', "not the description of a tensor"),
        ('{"_type": "Int8Tensor", "_data": []}', "_data is not an object"),
        ('{"_type": "Int8Tensor", "_version": 2}', "unknown field"),
        ('{"_type": "Int8Tensor", "_tensor_data_names": 1}', "not a list of names"),
        ('{"_type": "Int8Tensor", "_tensor_data_names": [[]]}', "not a list of names"),
        ('{"_type": "Int8Tensor", "_tensor_data_names": ["scale", "scale"]}', "list of names"),
        ('{"_type": "Int8Tensor", "_data": {"x": NaN}}', "NaN"),
        ('{"_type": "Int8Tensor", "_data": {"x": {"_type": "load"}}}', "unknown type"),
        ('{"_type": "Int8Tensor", "_data": {"x": {"_data": 1}}}', "not a value of torchao's"),
        ('{"_type": "Int8Tensor", "_data": {"x": {"_type": 1}}}', "not a value of torchao's"),
        (
            '{"_type": "Int8Tensor", "_data": {"x": {"_type": "torch.dtype", "_data": "load"}}}',
            "unknown torch.dtype",
        ),
        (
            '{"_type": "Int8Tensor", "_data": {"x": {"_type": "MappingType", "_data": "mro"}}}',
            "unknown MappingType",
        ),
        (
            '{"_type": "Int8Tensor", "_data": {"x": {"_type": "PerRow", "_data": {"dims": 1}}}}',
            "PerRow has no such field",
        ),
    ],
)
def test_a_malformed_description_is_named_and_nothing_is_called(tmp_path, parts, text, message):
    """Wrong metadata is an error with tensor and pointer, and no name in it is looked up."""
    tensors, metadata = parts
    problem = problem_of(tmp_path, tensors, metadata | {NAME: text})
    assert message in problem.message
    assert problem.fqn == NAME
    assert problem.pointer.startswith("/__metadata__/a.weight")


@pytest.mark.parametrize("text", ["{", "{}", "[1]", '"a.weight"'])
def test_a_malformed_listing_is_named(tmp_path, parts, text):
    """A list of names that is none is an error."""
    tensors, metadata = parts
    save_file(tensors, tmp_path / "m.safetensors", metadata=metadata | {"tensor_names": text})
    header = read_header(tmp_path / "m.safetensors")
    with pytest.raises(QconfigError) as caught:
        read_flattened({"m.safetensors": header}, lazy_tensors(header))
    assert caught.value.problems[0].message == "tensor_names is not a list of names"


@pytest.mark.parametrize("text", ['["a.weight"', "[" * 100_000, '{"a": 1}', None])
def test_a_listing_that_is_lost_does_not_make_the_parts_plain(tmp_path, parts, text):
    """Descriptions of quantized tensors are torchao's, even where nobody lists them."""
    tensors, metadata = parts
    del metadata["tensor_names"]
    if text is not None:
        metadata["tensor_names"] = text
    save_file(tensors, tmp_path / "model.safetensors", metadata)
    with pytest.raises(QconfigError) as caught:
        open_checkpoint(tmp_path)
    assert any("tensor_names" in problem.message for problem in caught.value.problems)


def test_metadata_of_others_with_a_type_is_not_torchaos(tmp_path):
    """What another library describes by `_type` is none of torchao's classes."""
    metadata = {"a": '{"_type": {"x": 1}}', "b": '{"_type": "Lora"}', "c": "_type"}
    save_file({"a.weight": weight(4, 4)}, tmp_path / "model.safetensors", metadata)
    assert open_checkpoint(tmp_path).dialect == "qconfig"


def test_a_class_name_that_is_no_text_is_passed_over(tmp_path, parts):
    """An unlisted text whose `_type` is an object describes nothing."""
    tensors, metadata = parts
    found = read_files(tmp_path, {"m": (tensors, metadata | {"x": '{"_type": {"y": 1}}'})})
    assert found.metadata["m"] == {"x": '{"_type": {"y": 1}}'}


def test_all_problems_come_at_once(tmp_path):
    """Problems of several tensors are one error."""
    tensors, metadata = flattened({f"m{i}.weight": INT8 for i in range(4)})
    del tensors["m0._weight_qdata"], tensors["m1._weight_scale"], metadata["m2.weight"]
    tensors["m3.more"] = torch.ones(1)
    with pytest.raises(CheckpointError) as caught:
        read_files(tmp_path, {"model.safetensors": (tensors, metadata)})
    assert [p.fqn for p in caught.value.problems] == [
        "m0.weight",
        "m1.weight",
        "m2.weight",
        "m3.more",
    ]
