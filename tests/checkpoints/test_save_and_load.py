"""Saving and loading: same bits, same types, ties kept, models that run."""

from pathlib import Path

import pytest
import torch

from qconfig import (
    Int8Tensor,
    Int8WeightOnlyConfig,
    PerGroup,
    PerTensor,
    inspect_checkpoint,
    load_checkpoint,
    quantize_,
    quantize_checkpoint,
    save_checkpoint,
    verify_checkpoint,
)
from qconfig.errors import CheckpointError, QconfigError, UsageError
from tests.checkpoints.builders import checkpoint_of, v1_layout


def model(*, tied: bool = False) -> torch.nn.Sequential:
    """Return two linears with a nonlinearity; tied ones share their weight."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 32))
    if tied:
        net[2].weight = net[0].weight
    return net


@pytest.mark.parametrize("mmap", [True, False])
@pytest.mark.parametrize("granularity", [PerTensor(), PerGroup(8)], ids=str)
def test_a_quantized_model_comes_back_bit_for_bit(
    tmp_path: Path, mmap: bool, granularity: object
) -> None:
    """A loaded model computes what the saved one computed."""
    config = Int8WeightOnlyConfig(granularity=granularity)
    net = model()
    quantize_(net, config)
    x = torch.randn(5, 32)
    expected = net(x)
    save_checkpoint(net, tmp_path / "m", config=config)
    fresh = model()
    load_checkpoint(tmp_path / "m", model=fresh, mmap=mmap)
    assert isinstance(fresh[0].weight, Int8Tensor)
    assert not fresh[0].weight.requires_grad
    assert torch.equal(fresh(x), expected)


def test_plain_parameters_train_on(tmp_path: Path) -> None:
    """Only packed tensors lose their gradients; a bias keeps its own."""
    net = model()
    quantize_(net, Int8WeightOnlyConfig())
    save_checkpoint(net, tmp_path / "m")
    fresh = model()
    load_checkpoint(tmp_path / "m", model=fresh)
    assert fresh[0].bias.requires_grad


@pytest.mark.parametrize("quantized", [True, False])
def test_ties_are_stored_once_and_come_back(tmp_path: Path, quantized: bool) -> None:
    """Two names of one tensor are one tensor in the file and one object after loading."""
    net = model(tied=True)
    if quantized:
        quantize_(net, Int8WeightOnlyConfig())
    save_checkpoint(net, tmp_path / "m")
    found = inspect_checkpoint(tmp_path / "m")
    assert found.ties == {"2.weight": "0.weight"}
    assert "2.weight" not in {t.fqn for t in found.tensors}
    fresh = model(tied=True)
    state_dict = load_checkpoint(tmp_path / "m", model=fresh)
    assert state_dict["0.weight"] is state_dict["2.weight"]
    assert fresh[0].weight is fresh[2].weight


def test_ties_survive_quantizing_a_file(tmp_path: Path) -> None:
    """The further names of a tensor are those of what it becomes, and the plan says so."""
    save_checkpoint(model(tied=True), tmp_path / "float")
    plan = quantize_checkpoint(tmp_path / "float", tmp_path / "int8", Int8WeightOnlyConfig())
    assert {e.fqn: e.tied_to for e in plan.entries if e.tied_to} == {"2.weight": "0.weight"}
    assert inspect_checkpoint(tmp_path / "int8").ties == {"2.weight": "0.weight"}
    assert verify_checkpoint(tmp_path / "int8").ok
    state_dict = load_checkpoint(tmp_path / "int8")
    assert state_dict["0.weight"] is state_dict["2.weight"]


def test_tensors_that_share_codes_only_are_no_tie(tmp_path: Path) -> None:
    """Two that show the same codes under other dtypes come back as two."""
    net = model()
    quantize_(net, Int8WeightOnlyConfig())
    weight = net[0].weight
    save_checkpoint({"a": weight, "b": weight.to(torch.float16)}, tmp_path / "m")
    dtypes = {name: t.dtype for name, t in load_checkpoint(tmp_path / "m").items()}
    assert dtypes == {"a": torch.float32, "b": torch.float16}


def test_shards_are_cut_at_a_size(tmp_path: Path) -> None:
    """No shard but one of a single tensor exceeds the limit, and an index is written."""
    net = model()
    save_checkpoint(net, tmp_path / "m", max_shard_bytes=5000)
    found = inspect_checkpoint(tmp_path / "m")
    assert list(found.shards) == [
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
    ]
    state_dict = load_checkpoint(tmp_path / "m")
    for name, tensor in net.state_dict().items():
        assert torch.equal(state_dict[name], tensor)


def test_a_shard_size_must_be_positive(tmp_path: Path) -> None:
    """Zero is refused."""
    with pytest.raises(UsageError, match="max_shard_bytes must be positive"):
        save_checkpoint(model(), tmp_path / "m", max_shard_bytes=0)


def test_views_and_strides_are_stored_compactly(tmp_path: Path) -> None:
    """A transposed or sliced tensor has its own elements in the file and no more."""
    base = torch.arange(64.0).reshape(8, 8)
    save_checkpoint({"t": base.t(), "s": base[:, 2:4], "half": base[:4]}, tmp_path / "m")
    state_dict = load_checkpoint(tmp_path / "m")
    assert torch.equal(state_dict["t"], base.t())
    assert torch.equal(state_dict["s"], base[:, 2:4])
    assert inspect_checkpoint(tmp_path / "m").total_bytes == (64 + 16 + 32) * 4


def test_what_is_no_tensor_is_named(tmp_path: Path) -> None:
    """An entry that cannot be stored is refused before anything is written."""
    with pytest.raises(CheckpointError, match="extra"):
        save_checkpoint({"w": torch.zeros(1), "extra": {"a": 1}}, tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_would_be_taken_twice_is_refused(tmp_path: Path) -> None:
    """A plain tensor under the name of an inner tensor cannot be told apart later."""
    net = model()
    quantize_(net, Int8WeightOnlyConfig())
    state_dict = dict(net.state_dict()) | {"0.weight.scale": torch.zeros(1)}
    with pytest.raises(CheckpointError, match="two tensors would be stored under one name"):
        save_checkpoint(state_dict, tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


def test_an_old_layout_loads_as_todays_tensor(tmp_path: Path) -> None:
    """Version 1 of a file is version 5 in memory, with the same values."""
    layout = v1_layout()
    source = checkpoint_of(tmp_path / "m", {"a.weight": layout})
    tensor = load_checkpoint(source)["a.weight"]
    assert isinstance(tensor, Int8Tensor)
    expected = layout.int_data.to(torch.bfloat16) * layout.scale[:, None]
    assert torch.equal(tensor.dequantize(), expected)


def test_a_model_with_other_names_stays_as_it_was(tmp_path: Path) -> None:
    """Names that do not fit are all named, and the model does not change."""
    net = model()
    stored = dict(net.state_dict())
    stored["1.bias"] = stored.pop("2.bias")
    stored["0.bias"] = torch.zeros(3)
    save_checkpoint(stored, tmp_path / "m")
    before = {n: p.clone() for n, p in net.named_parameters()}
    with pytest.raises(QconfigError) as caught:
        load_checkpoint(tmp_path / "m", model=net)
    assert [(p.fqn, p.message) for p in caught.value.problems] == [
        ("2.bias", "the checkpoint lacks a tensor of the model"),
        ("1.bias", "the model has no such tensor"),
        ("0.bias", "the tensor has another shape than the model's"),
    ]
    assert all(torch.equal(p, before[n]) for n, p in net.named_parameters())


def test_names_can_be_left_out(tmp_path: Path) -> None:
    """A buffer that old files hold and today's model does not have is ignored by its name."""
    net = model()
    save_checkpoint(dict(net.state_dict()) | {"position_ids": torch.arange(3)}, tmp_path / "m")
    with pytest.raises(CheckpointError, match="pass its name in `ignore` to leave it out"):
        load_checkpoint(tmp_path / "m", model=net)
    load_checkpoint(tmp_path / "m", model=net, ignore=["position_ids"])


def test_a_tied_name_need_not_be_stored(tmp_path: Path) -> None:
    """A file with one of two tied names fills both, as Hugging Face stores them."""
    net = model(tied=True)
    stored = dict(net.state_dict())
    del stored["2.weight"]
    save_checkpoint(stored, tmp_path / "m")
    fresh = model(tied=True)
    load_checkpoint(tmp_path / "m", model=fresh)
    assert fresh[0].weight is fresh[2].weight
    assert torch.equal(fresh[2].weight, net[0].weight)


def test_zero_points_that_are_all_zero_are_dropped_on_loading(tmp_path: Path) -> None:
    """Torchao stores zero points of 0; without them the value is equal and the linear faster."""
    source = checkpoint_of(tmp_path / "m", {"a.weight": v1_layout()})
    assert load_checkpoint(source)["a.weight"].zero_point is None


def test_zero_points_that_matter_are_kept_on_loading(tmp_path: Path) -> None:
    """One zero point other than 0 keeps them all."""
    layout = v1_layout()
    layout.zero_point[2] = 5
    source = checkpoint_of(tmp_path / "m", {"a.weight": layout})
    assert load_checkpoint(source)["a.weight"].zero_point.flatten().tolist()[:3] == [0, 0, 5]


def test_saving_does_not_change_the_model(tmp_path: Path) -> None:
    """The parameters are the same objects afterwards."""
    net = model()
    quantize_(net, Int8WeightOnlyConfig())
    before = dict(net.named_parameters())
    save_checkpoint(net, tmp_path / "m")
    assert all(p is before[n] for n, p in net.named_parameters())
