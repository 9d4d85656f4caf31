"""Files that torchao wrote, all the way: into our form, with the writer's values, and back."""

import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import qconfig
from tests.dialects.flattened_files import flattened, named, torchao_tensors, weight
from tests.torchao_files import CORPUS, DATA

OLD = DATA / "flattened"
GRANULARITY = "torchao writes this granularity into safetensors files and cannot load it"
# Swapped modules hold plain tensors, which become packed ones.
CURRENT = {
    file.stem: file
    for folder in (CORPUS / "torchao", DATA)
    for file in sorted(folder.glob("0.18.0/*.safetensors"))
    if not file.name.endswith(".inner.safetensors") and not file.name.startswith("module_swap")
}


def metadata_of(file: Path) -> dict[str, str]:
    """Return the metadata of a file."""
    with safe_open(file, "pt") as opened:
        metadata: dict[str, str] = opened.metadata()
    return metadata


def raw(tensor: torch.Tensor) -> torch.Tensor:
    """Return the bytes of a tensor."""
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def equal(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    """Return whether names, types, shapes and bytes agree."""
    return first.keys() == second.keys() and all(
        (t.dtype, t.shape) == (second[k].dtype, second[k].shape) and raw(t).equal(raw(second[k]))
        for k, t in first.items()
    )


@pytest.mark.parametrize("name", CURRENT)
def test_a_file_of_018_comes_back_from_our_form_byte_for_byte(tmp_path, name):
    """Upgraded to our form and converted back, tensors and metadata are what torchao wrote."""
    file = CURRENT[name]
    qconfig.upgrade_checkpoint(file, tmp_path / "ours")
    qconfig.convert_checkpoint(tmp_path / "ours", tmp_path / "theirs")
    back = tmp_path / "theirs" / file.name
    assert equal(load_file(file), load_file(back))
    before, after = metadata_of(file), metadata_of(back)
    names = [json.loads(m.pop("tensor_names")) for m in (before, after)]
    assert sorted(names[0]) == names[1]
    assert after == {"format": "pt", **before}


def test_torchaos_own_tensors_come_back_from_our_form_byte_for_byte(tmp_path):
    """The same for one tensor of each class, written when the test runs."""
    tensors, metadata = flattened(named(torchao_tensors()) | {"model.norm.bias": weight(8)})
    save_file(tensors, tmp_path / "model.safetensors", metadata=metadata)
    qconfig.upgrade_checkpoint(tmp_path / "model.safetensors", tmp_path / "ours")
    qconfig.convert_checkpoint(tmp_path / "ours", tmp_path / "theirs")
    back = tmp_path / "theirs" / "model.safetensors"
    assert equal(tensors, load_file(back))
    after = metadata_of(back)
    assert {k: v for k, v in after.items() if k in named(torchao_tensors())} == {
        k: v for k, v in metadata.items() if k in named(torchao_tensors())
    }


def test_a_file_of_014_has_the_values_of_its_writer(tmp_path):
    """Upgraded, every tensor dequantizes to what torchao 0.14.1 gave, bit for bit."""
    qconfig.upgrade_checkpoint(OLD / "0.14.1.safetensors", tmp_path / "ours")
    state = qconfig.load_checkpoint(tmp_path / "ours")
    truth = load_file(OLD / "0.14.1.truth.safetensors")
    # Of its Int4Tensor torchao 0.14 could not say the values on a CPU.
    assert state.keys() - truth.keys() == {"layers.0.int4.weight"}
    for name, expected in truth.items():
        value = state[name]
        values = value.dequantize() if isinstance(value, qconfig.MatrixTensor) else value
        assert values.dtype == expected.dtype
        assert raw(values).equal(raw(expected)), name


def test_what_018_would_lose_of_a_file_of_014_is_refused_by_name(tmp_path):
    """Only what the loader of 0.18 would lose or fail on stands in the way, and is named."""
    with pytest.raises(qconfig.QconfigError) as caught:
        qconfig.convert_checkpoint(OLD / "0.14.1.safetensors", tmp_path / "theirs")
    assert sorted((p.fqn, p.message.partition(":")[0]) for p in caught.value.problems) == [
        ("layers.0.gate.weight", GRANULARITY),
        ("m.w", "torchao would lose the tensor"),
        ("weight", "torchao loads no quantized tensor whose name has no dot"),
    ]
    assert not (tmp_path / "theirs").exists()
