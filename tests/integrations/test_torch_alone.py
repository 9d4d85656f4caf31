"""What torch does with quantized tensors by itself, as docs/distributed-checkpoint.md says."""

import pytest
import torch
from torch.distributed import checkpoint as dcp

from qconfig.codec.safetensors_header import read_header
from qconfig.configs import Int8WeightOnlyConfig
from qconfig.integrations.distributed_checkpoint import plain_state, save_distributed
from qconfig.testing.subject import Subject, equal_packed

W = Subject(Int8WeightOnlyConfig(), (32, 64)).build()

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled")


def test_a_tensor_is_pickled_whole(tmp_path):
    """A quantized tensor lies in torch's file as a pickle; the metadata have the type it shows."""
    saved = dcp.save({"w": W}, checkpoint_id=tmp_path)
    assert list(saved.state_dict_metadata) == ["w"]
    assert saved.state_dict_metadata["w"].properties.dtype == W.dtype
    (file,) = tmp_path.glob("*.distcp")
    assert b"rebuild_packed" in file.read_bytes()
    state = {"w": torch.empty_like(W)}
    dcp.load(state, checkpoint_id=tmp_path)
    assert equal_packed(state["w"], W)


def test_an_ordinary_destination_fails(tmp_path):
    """It can be read into a tensor of the same form and no other."""
    dcp.save({"w": W}, checkpoint_id=tmp_path)
    with pytest.raises(dcp.CheckpointException, match="copy_ between a packed and an ordinary"):
        dcp.load({"w": torch.zeros(32, 64)}, checkpoint_id=tmp_path)


def test_saving_in_the_background_fails(tmp_path):
    """`async_save` cannot stage a quantized tensor, and says so by our error."""
    with pytest.raises(Exception, match=r"does not support aten\.new_empty"):
        dcp.async_save({"w": W}, checkpoint_id=tmp_path).result()


def test_safetensors_fail(tmp_path):
    """The storage for Hugging Face cannot take it at all."""
    with pytest.raises(dcp.CheckpointException, match=r"safetensors.torch\.py"):
        dcp.save({"w": W}, storage_writer=dcp.HuggingFaceStorageWriter(str(tmp_path)))


def test_consolidation_fails_on_integers(tmp_path):
    """Torch's consolidation does not take our parts, which is why nothing here depends on it."""
    writer = dcp.HuggingFaceStorageWriter(
        str(tmp_path), save_distributed=True, enable_consolidation=True
    )
    with pytest.raises(dcp.CheckpointException, match="requires a floating point input type"):
        dcp.save(plain_state({"w": W}), storage_writer=writer)


def test_consolidation_drops_metadata(tmp_path):
    """What torch consolidates has no metadata in its header, not even torch's own."""
    writer = dcp.HuggingFaceStorageWriter(
        str(tmp_path), save_distributed=True, enable_consolidation=True
    )
    dcp.save({"a": torch.ones(3)}, storage_writer=writer)
    (whole,), (shard,) = tmp_path.glob("*.safetensors"), tmp_path.glob("*/*.safetensors")
    assert read_header(shard).metadata
    assert not read_header(whole).metadata


def test_torch_reads_our_parts(tmp_path):
    """Without qconfig, torch reads the parts of what was saved as ordinary tensors."""
    save_distributed({"m": {"w": W}}, checkpoint_id=tmp_path)
    state = {"m": {"w.qdata": torch.empty_like(W.qdata), "w.scale": torch.empty_like(W.scale)}}
    dcp.load(state, checkpoint_id=tmp_path)
    assert torch.equal(state["m"]["w.qdata"], W.qdata)
    assert torch.equal(state["m"]["w.scale"], W.scale)
