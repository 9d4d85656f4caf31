import collections

import pytest
import torch
from torch import nn
from torch.distributed.checkpoint import DefaultSavePlanner, FileSystemReader, FileSystemWriter

from qconfig import quantize_
from qconfig.configs import Int4WeightOnlyConfig, Int8WeightOnlyConfig, IntQuantConfig
from qconfig.errors import CheckpointError, UsageError
from qconfig.integrations.distributed_checkpoint import (
    load_distributed,
    load_distributed_into,
    plain_state,
    save_distributed,
)
from qconfig.testing.subject import Subject, equal_packed


def weight(config=None, seed=0):
    """Return a quantized weight, int8 by default."""
    return Subject(config or Int8WeightOnlyConfig(), (32, 128)).build(seed)


class Net(nn.Module):
    """Two layers whose weights are one, and a third."""

    def __init__(self, *, quantized=True):
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Linear(64, 64)
        self.head = nn.Linear(64, 64, bias=False)
        self.last = nn.Linear(64, 32)
        self.register_buffer("count", torch.tensor(5))
        if quantized:
            quantize_(self, Int8WeightOnlyConfig())
        self.head.weight = self.embed.weight

    def forward(self, x):
        return self.last(self.head(self.embed(x)))


def test_nested_states(tmp_path):
    """A nested state comes back nested, quantized tensors in mappings and lists among values."""
    w = weight()
    state = {
        "model": {"layer.weight": w, "bias": torch.ones(3, dtype=torch.bfloat16)},
        "optimizer": {
            "state": {"layer.weight": {"step": torch.tensor(2)}},
            "groups": [{"lr": 0.5}],
        },
        "list": [w, torch.arange(3)],
        "step": 3,
        "words": ["a", "b"],
    }
    save_distributed(state, checkpoint_id=tmp_path)
    found = load_distributed(checkpoint_id=tmp_path)
    assert found.keys() == state.keys()
    assert equal_packed(found["model"]["layer.weight"], w)
    assert equal_packed(found["list"][0], w)
    assert torch.equal(found["list"][1], state["list"][1])
    assert torch.equal(found["model"]["bias"], state["model"]["bias"])
    assert found["optimizer"]["state"]["layer.weight"]["step"].item() == 2
    assert found["optimizer"]["groups"] == [{"lr": 0.5}]
    assert (found["step"], found["words"]) == (3, ["a", "b"])


DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int64,
    torch.uint16,
    torch.float16,
    torch.float64,
    torch.complex64,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.float8_e8m0fnu,
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_plain_tensors(dtype, tmp_path):
    """Tensors of any type pass as they are, those without dimensions and elements, too."""
    values = torch.tensor([[0.0, 1.0, 2.0]]).to(dtype)
    state = {"a": values, "scalar": values[0, 1].clone(), "none": values[:0].clone(), "w": weight()}
    save_distributed(state, checkpoint_id=tmp_path)
    found = load_distributed(checkpoint_id=tmp_path)
    for name in ("a", "scalar", "none"):
        assert found[name].dtype == dtype
        assert found[name].shape == state[name].shape
        assert found[name].to(torch.complex64).equal(state[name].to(torch.complex64))


def test_packed_fp4_tensors(tmp_path):
    """Two codes of fp4 a byte pass as they are."""
    values = torch.arange(6, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
    save_distributed({"a": values, "w": weight()}, checkpoint_id=tmp_path)
    found = load_distributed(checkpoint_id=tmp_path)["a"]
    assert torch.equal(found.view(torch.uint8), values.view(torch.uint8))


def test_ties_are_stored_once(tmp_path):
    """Tensors that are one under two names are stored once, and are one again."""
    plain, w = torch.ones(3), weight()
    state = {"m": {"a": w, "b": w, "c": plain, "d": plain}}
    saved = save_distributed(state, checkpoint_id=tmp_path)
    names = {n for n in saved.state_dict_metadata if not n.startswith("qconfig.")}
    assert names == {"m.a.qdata", "m.a.scale", "m.c"}
    found = load_distributed(checkpoint_id=tmp_path, key="m")
    assert found["a"] is found["b"]
    assert found["c"] is found["d"]


def test_one_part_by_key(tmp_path):
    """With a key, only what lies under it is read and returned."""
    save_distributed({"model": {"w": weight()}, "step": 3}, checkpoint_id=tmp_path)
    assert list(load_distributed(checkpoint_id=tmp_path, key="model")) == ["w"]
    with pytest.raises(CheckpointError, match="nothing is stored under the key"):
        load_distributed(checkpoint_id=tmp_path, key="other")


def test_fill_in_place(tmp_path):
    """A state is filled in place where forms agree; older values, None and meta are replaced."""
    w, four = weight(), weight(Int4WeightOnlyConfig())
    state = {"w": w, "tied": w, "four": four, "b": torch.ones(3), "meta": torch.ones(2), "step": 3}
    save_distributed(state, checkpoint_id=tmp_path)
    mine = {
        "w": weight(seed=1),
        "tied": weight(seed=2),
        "four": None,
        "b": torch.zeros(3),
        "meta": torch.empty(2, device="meta"),
        "step": 0,
    }
    before = dict(mine)
    load_distributed_into(mine, checkpoint_id=tmp_path)
    assert all(mine[name] is before[name] for name in ("w", "tied", "b"))
    assert equal_packed(mine["w"], w)
    assert equal_packed(mine["tied"], w)
    assert equal_packed(mine["four"], four)
    assert mine["b"].tolist() == [1.0] * 3
    assert mine["meta"].tolist() == [1.0] * 2
    assert mine["step"] == 3


def test_another_form_is_replaced(tmp_path):
    """A quantized tensor of another form than what is stored gives way to it."""
    save_distributed({"w": weight()}, checkpoint_id=tmp_path)
    mine = {"w": weight(Int4WeightOnlyConfig())}
    load_distributed_into(mine, checkpoint_id=tmp_path)
    assert equal_packed(mine["w"], weight())


def test_fake_quantized_tensors_are_replaced(tmp_path):
    """A fake-quantized tensor is one again, with a value and all of its scale."""
    w = weight(IntQuantConfig())
    save_distributed({"w": w}, checkpoint_id=tmp_path)
    mine = {"w": weight(IntQuantConfig(), 1)}
    load_distributed_into(mine, checkpoint_id=tmp_path)
    assert equal_packed(mine["w"], w)


def test_models(tmp_path):
    """A model is saved, and loaded into one that is quantized, one that is not, and one on meta."""
    source = Net()
    x = torch.randn(2, 64)
    save_distributed({"model": source, "step": 1}, checkpoint_id=tmp_path / "state")
    save_distributed(source, checkpoint_id=tmp_path / "model")
    with torch.device("meta"):
        empty = Net(quantized=False)
    for target in (Net(), Net(quantized=False), empty):
        with torch.no_grad():
            target.last.bias.fill_(7.0)
        load_distributed_into(target, checkpoint_id=tmp_path / "state", key="model")
        assert torch.equal(target(x), source(x))
        assert target.head.weight is target.embed.weight
    load_distributed_into(target, checkpoint_id=tmp_path / "model")
    assert torch.equal(target(x), source(x))


def test_stateful_objects(tmp_path):
    """Models and optimizers in a state give their state dicts, and get them."""
    source, target = Net(), Net()
    optimizer = torch.optim.SGD([source.last.bias], lr=0.25, momentum=0.5)
    other = torch.optim.SGD([target.last.bias], lr=0.1, momentum=0.5)
    with torch.no_grad():
        source.last.bias.fill_(2.0)
    save_distributed({"model": source, "optimizer": optimizer}, checkpoint_id=tmp_path)
    state = {"model": target, "optimizer": other}
    load_distributed_into(state, checkpoint_id=tmp_path)
    assert state["model"] is target
    assert target.last.bias.tolist() == [2.0] * 32
    assert other.param_groups[0]["lr"] == 0.25


def test_writers_and_planners_of_torch(tmp_path):
    """Storage and planner of torch, set as one likes, are taken."""
    writer = FileSystemWriter(tmp_path, thread_count=2, single_file_per_rank=False)
    planner = DefaultSavePlanner(dedup_save_to_lowest_rank=True)
    save_distributed({"w": weight()}, storage_writer=writer, planner=planner)
    assert len(list(tmp_path.glob("*.distcp"))) == 3
    found = load_distributed(storage_reader=FileSystemReader(tmp_path))
    assert equal_packed(found["w"], weight())


def test_async_save(tmp_path):
    """What plain_state gives can be saved by torch in the background."""
    state = plain_state({"model": {"w": weight()}, "step": 3})
    with pytest.warns(UserWarning, match="single process"):
        torch.distributed.checkpoint.async_save(state, checkpoint_id=tmp_path).result()
    assert equal_packed(load_distributed(checkpoint_id=tmp_path)["model"]["w"], weight())


def test_states_without_quantized_tensors(tmp_path):
    """An ordinary state has no record, and is torch's own."""
    saved = save_distributed({"a": torch.ones(2)}, checkpoint_id=tmp_path)
    assert list(saved.state_dict_metadata) == ["a"]
    assert load_distributed(checkpoint_id=tmp_path)["a"].tolist() == [1.0, 1.0]


def test_ordered_dicts_are_mappings(tmp_path):
    """A state dict as a module gives it, an OrderedDict, is taken apart too."""
    save_distributed(
        collections.OrderedDict(m=collections.OrderedDict(w=weight())), checkpoint_id=tmp_path
    )
    assert equal_packed(load_distributed(checkpoint_id=tmp_path)["m"]["w"], weight())


def test_misuse_is_told(tmp_path):
    """No place, a place without reader, and a key for a state are errors of use."""
    with pytest.raises(UsageError, match="no place is given"):
        save_distributed({})
    with pytest.raises(UsageError, match="not a path"):
        load_distributed(checkpoint_id="s3://bucket/state")
    with pytest.raises(UsageError, match="a key is for a model"):
        load_distributed_into({}, checkpoint_id=tmp_path, key="model")
