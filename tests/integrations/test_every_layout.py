"""Every registered packed layout, and every older version, through torch's own storages."""

from pathlib import Path

import pytest
import torch
from torch.distributed.checkpoint import HuggingFaceStorageReader, HuggingFaceStorageWriter

from qconfig import load_checkpoint
from qconfig.checkpoints.open import open_checkpoint
from qconfig.checkpoints.record import METADATA_KEY, inner_name, write_record
from qconfig.codec.digests import digest
from qconfig.codec.layout_values import present_fields
from qconfig.integrations.distributed_checkpoint import load_distributed, save_distributed
from qconfig.integrations.plain_state import storable
from qconfig.tensors.classes import has_layout
from qconfig.testing.conformance import fake_quantized_configs, packing_configs, required_fields
from qconfig.testing.subject import Subject, equal_packed
from qconfig.versioning import registry
from tests.testing.variants import FAKE_QUANTIZED, SHAPE, TILED_SHAPE, TILES, VARIANTS

SUBJECTS = [
    *(Subject(c(), SHAPE) for c in packing_configs() if not required_fields(c)),
    *(Subject(c) for c in VARIANTS),
    *(Subject(c()) for c in fake_quantized_configs()),
    *(Subject(c) for c in FAKE_QUANTIZED),
    *(Subject(c, TILED_SHAPE) for c in TILES),
]
OLD = [
    path
    for path in sorted((Path(__file__).parents[1] / "golden").glob("*_layout/v*/*.safetensors"))
    if not path.name.endswith(".upgraded.safetensors")
]


@pytest.fixture(scope="module")
def state():
    """Return a tensor of every builder, and of variants of its config."""
    return {f"{i}.weight": subject.build() for i, subject in enumerate(SUBJECTS)}


def same(found, expected):
    """Return the names of tensors that differ in form, in a bit of a part or in a value."""
    assert found.keys() == expected.keys()
    return [
        name
        for name, tensor in expected.items()
        if not equal_packed(found[name], tensor)
        or not torch.equal(found[name].dequantize(), tensor.dequantize())
    ]


def test_files_of_torch(state, tmp_path):
    """Tensors of every builder come back from torch's files with every bit and value."""
    save_distributed(state, checkpoint_id=tmp_path)
    assert not same(load_distributed(checkpoint_id=tmp_path), state)


@pytest.mark.parametrize("by_process", [False, True])
def test_files_of_safetensors(state, tmp_path, by_process):
    """They do so from torch's storage for Hugging Face, without consolidation."""
    writer = HuggingFaceStorageWriter(str(tmp_path), save_distributed=by_process)
    save_distributed(state, storage_writer=writer)
    found = load_distributed(storage_reader=HuggingFaceStorageReader(str(tmp_path)))
    assert not same(found, state)


def test_every_current_layout_is_tried(state):
    """There is a tensor of each current layout that has a builder."""
    tried = {type(t).layout_class for t in state.values()}
    built = {
        Subject(c(), SHAPE).build().layout_class
        for c in packing_configs()
        if not required_fields(c)
    }
    assert built <= tried
    assert all(has_layout(t) for t in state.values())


@pytest.mark.parametrize("path", OLD, ids=lambda p: "-".join(p.parts[-3:]))
def test_older_layouts_are_upgraded(path, tmp_path):
    """A state in the layout of any version is read as load_checkpoint reads its file."""
    checkpoint = open_checkpoint(path)
    layouts = checkpoint.layouts
    plain = {name: tensor.load() for name, tensor in checkpoint.plain.items()}
    for fqn, layout in layouts.items():
        for field in present_fields(layout):
            plain[inner_name(fqn, field)] = storable(getattr(layout, field).load())
    text = write_record(layouts, {}).encode()
    plain[f"{METADATA_KEY}.{digest(text)}"] = torch.tensor(list(text), dtype=torch.uint8)
    save_distributed_as_it_is(plain, tmp_path)
    found = load_distributed(checkpoint_id=tmp_path)
    expected = load_checkpoint(path)
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        if not has_layout(tensor):
            assert torch.equal(found[name], tensor)
        elif registry.is_current(registry.entry_of(type(layouts[name]))):
            # load_checkpoint leaves out zero points of 0; what was saved here comes back whole.
            assert torch.equal(found[name].dequantize(), tensor.dequantize())
        else:
            assert equal_packed(found[name], tensor)


def save_distributed_as_it_is(plain, folder):
    """Save ordinary tensors with torch alone."""
    with pytest.warns(UserWarning, match="assuming the intent is to save in a single process"):
        torch.distributed.checkpoint.save(plain, checkpoint_id=folder)
