"""What a state_dict may hold besides tensors, and what errors and notes say of it."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torchao.quantization import Int8WeightOnlyConfig, quantize_

from qconfig import upgrade_checkpoint
from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import LazyTensor
from qconfig.dialects.torchao.stored import Stored, StoredEnum, StoredFunction, StoredObject
from qconfig.dialects.torchao.tensors.table import read_tensor
from qconfig.errors import ContainerError, QconfigError
from tests.dialects.stored_samples import K, N, affine, int8, lazy, member, stored


def refused(value: Any, tmp_path: Path, *, dry_run: bool = False) -> QconfigError:
    """Save a value, try to upgrade the file, and return the error."""
    torch.save(value, tmp_path / "old.pt")
    with pytest.raises(QconfigError) as caught:
        upgrade_checkpoint(tmp_path / "old.pt", tmp_path / "new", dry_run=dry_run)
    assert not (tmp_path / "new").exists()
    return caught.value


def test_attributes_of_a_tensor_are_noted(tmp_path: Path) -> None:
    """Safetensors has no place for what somebody set on a tensor: a note says what is lost."""
    tensor = torch.ones(2)
    tensor.partition = 3
    torch.save({"a": tensor}, tmp_path / "old.pt")
    report = upgrade_checkpoint(tmp_path / "old.pt", tmp_path / "new")
    assert report.notes[0] == "a has Python attributes, which are not carried: partition"


def test_attributes_of_a_state_dict_are_noted(tmp_path: Path) -> None:
    """But for the one that torch puts on each, which says versions of modules."""
    state = torch.nn.Linear(2, 2).state_dict()
    state.tag = "final"  # type: ignore[attr-defined]
    torch.save(state, tmp_path / "old.pt")
    report = upgrade_checkpoint(tmp_path / "old.pt", tmp_path / "new")
    assert report.notes[0] == "old.pt has Python attributes, which are not carried: tag"


def test_a_directory_without_pickles_is_refused(tmp_path: Path) -> None:
    """The error says which names are looked for."""
    with pytest.raises(ContainerError, match="no pickled checkpoint here") as caught:
        upgrade_checkpoint(tmp_path, tmp_path / "new", dialect="torchao-pickle")
    assert "pytorch_model.bin" in caught.value.expected


def test_a_bare_tensor_is_described(tmp_path: Path) -> None:
    """A tensor without a name is no state_dict, and the error says what it is."""
    layers = torch.nn.Sequential(torch.nn.Linear(32, 16))
    quantize_(layers, Int8WeightOnlyConfig(version=2))
    error = refused(layers[0].weight, tmp_path)
    assert error.message == "not a state_dict"
    assert error.found == "a torchao.quantization.Int8Tensor of float32 (16, 32)"


def test_bytes_are_refused_with_a_reason(tmp_path: Path) -> None:
    """What `_extra_state` often holds is named."""
    error = refused({"a": torch.ones(2), "b._extra_state": b"x"}, tmp_path)
    assert error.found == "'_codecs.encode'"
    assert error.hint == "bytes are not read, nor are numpy's values, which hold some"


def test_a_storage_is_no_value(tmp_path: Path) -> None:
    """A storage in place of a tensor is refused by its kind."""
    error = refused({"a": torch.ones(2).untyped_storage()}, tmp_path)
    assert error.found == "'Storage'"


@pytest.mark.parametrize(
    "state",
    [
        {"a": torch.ones(2, dtype=torch.complex128)},
        {"a\x1b": torch.ones(2)},
        {"__metadata__": torch.ones(2)},
        {"e\u0301": torch.ones(2), "\u00e9": torch.ones(2)},
    ],
    ids=["complex128", "control", "metadata", "normal forms"],
)
def test_a_dry_run_finds_what_cannot_be_written(state: Any, tmp_path: Path) -> None:
    """A dry run ends in the error that the real one would end in."""
    dry = refused(state, tmp_path, dry_run=True)
    assert dry.message == refused(state, tmp_path).message


def test_a_name_twice_in_the_new_file_is_found_by_a_dry_run(tmp_path: Path) -> None:
    """A plain tensor that has the name of a quantized one's part is refused, with the file."""
    layers = torch.nn.Sequential(torch.nn.Linear(32, 16))
    quantize_(layers, Int8WeightOnlyConfig(version=2))
    state = {"a": layers[0].weight, "a.qdata": torch.ones(1)}
    error = refused(state, tmp_path, dry_run=True)
    assert error.message == "two tensors would be stored under one name"
    assert error.file == str(tmp_path / "old.pt")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (LazyTensor(DType.INT8, (2, 3), int), "a tensor of int8 (2, 3)"),
        (Stored("Int8Tensor", None, None, None), "Int8Tensor(…)"),
        (StoredEnum("MappingType", "SYMMETRIC"), "MappingType.SYMMETRIC"),
        (StoredFunction("_int8_asymm"), "_int8_asymm"),
        (StoredObject("PerRow", {"dim": -1}), "PerRow(…)"),
    ],
)
def test_errors_show_no_inner_workings(value: Any, text: str) -> None:
    """A value in place of a number is said in words, without addresses of functions."""
    tensor = stored("PlainAQTTensorImpl", "torchao.dtypes", int_data=value, scale=lazy(N))
    with pytest.raises(QconfigError) as caught:
        read_tensor(affine(tensor, quant_min=value), None)
    assert caught.value.found == text


def test_a_member_of_another_enum_is_no_domain() -> None:
    """`zero_point_domain` is a ZeroPointDomain or None."""
    tensor = stored("PlainAQTTensorImpl", "torchao.dtypes", int_data=int8(N, K), scale=lazy(N))
    with pytest.raises(ContainerError) as caught:
        read_tensor(affine(tensor, zero_point_domain=member("MappingType", "SYMMETRIC")), None)
    assert caught.value.pointer == "/zero_point_domain"
    assert caught.value.expected == "INT, FLOAT or NONE"
