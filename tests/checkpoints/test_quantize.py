"""Quantizing a checkpoint file to file: same result as in memory, atomic, one tensor at a time."""

import errno
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import qconfig.codec.safetensors_writer as writer_module
from qconfig import (
    FqnToConfig,
    Int8WeightOnlyConfig,
    PerGroup,
    Rule,
    inspect_checkpoint,
    load_checkpoint,
    plan,
    quantize_,
    quantize_checkpoint,
    verify_checkpoint,
)
from qconfig.builders.base import builder_of
from qconfig.errors import (
    BuildError,
    CheckpointError,
    ContainerError,
    PlanError,
    QconfigError,
    StorageError,
)
from qconfig.migrations.int8_weight_only_config import Int8WeightOnlyConfigV1
from tests.checkpoints.builders import LINEARS, float_checkpoint, float_state_dict
from tests.checkpoints.test_upgrade import files_of

MIXED = FqnToConfig(
    configs={
        "row": Int8WeightOnlyConfig(),
        "group": Int8WeightOnlyConfig(granularity=PerGroup(16)),
    },
    rules=(Rule("layers.*.up", "group"), Rule("re:.*embed.*", None)),
    default="row",
)


class Tiny(torch.nn.Module):
    """The model of the float checkpoint."""

    def __init__(self) -> None:
        super().__init__()
        layer = torch.nn.Module()
        layer.up, layer.down = torch.nn.Linear(32, 64), torch.nn.Linear(64, 32)
        self.layers = torch.nn.ModuleList([layer])
        self.norm = torch.nn.Module()
        self.norm.weight = torch.nn.Parameter(torch.zeros(32))
        self.embed_tokens = torch.nn.Embedding(16, 32)


@pytest.mark.parametrize("shards", [1, 3])
def test_the_result_equals_quantizing_the_model(tmp_path: Path, shards: int) -> None:
    """Codes, scales and everything left alone are what `quantize_` gives in memory."""
    source = float_checkpoint(tmp_path / "float", shards=shards)
    quantize_checkpoint(source, tmp_path / "int8", MIXED)
    model = Tiny()
    model.load_state_dict(float_state_dict())
    quantize_(model, MIXED)
    stored, expected = load_checkpoint(tmp_path / "int8"), model.state_dict()
    assert stored.keys() == expected.keys()
    for name, tensor in expected.items():
        if name in LINEARS:
            assert torch.equal(stored[name].qdata, tensor.qdata)
            assert torch.equal(stored[name].scale, tensor.scale)
            assert stored[name].block_size == tensor.block_size
        else:
            assert torch.equal(stored[name], tensor)


def test_shards_and_other_files_keep_their_names(tmp_path: Path) -> None:
    """The new directory has the shards, index and further files of the old one."""
    source = float_checkpoint(tmp_path / "float", shards=3)
    quantize_checkpoint(source, tmp_path / "int8", MIXED)
    assert files_of(source).keys() == files_of(tmp_path / "int8").keys()
    assert (tmp_path / "int8/tokenizer.txt").read_text() == "a b c"


def test_config_json_gets_our_quantization_config(tmp_path: Path) -> None:
    """The config is stored, and whatever else stood there stays."""
    source = float_checkpoint(tmp_path / "float")
    quantize_checkpoint(source, tmp_path / "int8", MIXED)
    data = json.loads((tmp_path / "int8/config.json").read_text())
    assert (data["model_type"], data["x-mine"]) == ("tiny", [1])
    assert data["quantization_config"]["quant_method"] == "qconfig"
    assert data["quantization_config"]["config"]["type"] == "FqnToConfig"


def test_real_safetensors_reads_the_inner_tensors(tmp_path: Path) -> None:
    """The peer's library finds codes and scales under `<fqn>.<field>`."""
    source = float_checkpoint(tmp_path / "float")
    quantize_checkpoint(source, tmp_path / "int8", MIXED)
    tensors = load_file(tmp_path / "int8/model.safetensors")
    assert tensors["layers.0.up.weight.qdata"].shape == (64, 32)
    assert tensors["layers.0.up.weight.scale"].shape == (64, 2)


def test_the_index_lists_every_stored_tensor(tmp_path: Path) -> None:
    """Index and headers agree, and total_size is the bytes of all tensors."""
    source = float_checkpoint(tmp_path / "float", shards=3)
    quantize_checkpoint(source, tmp_path / "int8", MIXED)
    index = json.loads((tmp_path / "int8/model.safetensors.index.json").read_text())
    stored: dict[str, torch.Tensor] = {}
    for shard in set(index["weight_map"].values()):
        stored |= load_file(tmp_path / "int8" / shard)
    assert stored.keys() == index["weight_map"].keys()
    assert index["metadata"]["total_size"] == sum(t.nbytes for t in stored.values())


def test_threads_write_the_same_bytes(tmp_path: Path) -> None:
    """One job a shard in a pool gives the files that one after the other gives."""
    source = float_checkpoint(tmp_path / "float", shards=3)
    quantize_checkpoint(source, tmp_path / "serial", MIXED)
    with ThreadPoolExecutor(3) as pool:
        quantize_checkpoint(source, tmp_path / "pool", MIXED, executor=pool)
    assert files_of(tmp_path / "serial") == files_of(tmp_path / "pool")


def test_the_plan_foretells_every_byte(tmp_path: Path) -> None:
    """The plan's sizes are the stored sizes."""
    source = float_checkpoint(tmp_path / "float")
    foretold = plan(source, MIXED)
    quantize_checkpoint(source, tmp_path / "int8", MIXED)
    assert (
        sum(e.bytes_after for e in foretold.entries)
        == inspect_checkpoint(tmp_path / "int8").total_bytes
    )


def test_a_single_file_can_be_quantized(tmp_path: Path) -> None:
    """A file alone gives a directory with it, an index and config.json; neighbours stay behind."""
    save_file(float_state_dict(), tmp_path / "m.safetensors")
    (tmp_path / "neighbour").write_text("x")
    quantize_checkpoint(tmp_path / "m.safetensors", tmp_path / "out" / "int8", MIXED)
    names = ["config.json", "m.safetensors", "model.safetensors.index.json"]
    assert sorted(files_of(tmp_path / "out/int8")) == names
    assert verify_checkpoint(tmp_path / "out/int8").ok


def test_a_quantized_checkpoint_is_refused(tmp_path: Path) -> None:
    """Quantizing twice is an error, not a second loss."""
    source = float_checkpoint(tmp_path / "float")
    quantize_checkpoint(source, tmp_path / "int8", MIXED)
    with pytest.raises(CheckpointError, match="quantized already"):
        quantize_checkpoint(tmp_path / "int8", tmp_path / "again", MIXED)
    assert not (tmp_path / "again").exists()


def test_a_rule_without_a_match_writes_nothing(tmp_path: Path) -> None:
    """A misspelt name is found before the first byte is written."""
    source = float_checkpoint(tmp_path / "float")
    config = FqnToConfig(
        configs={"row": Int8WeightOnlyConfig()}, rules=(Rule("layers.0.upp", "row"),)
    )
    with pytest.raises(PlanError, match=r"layers\.0\.up"):
        quantize_checkpoint(source, tmp_path / "int8", config)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["float"]


def test_a_group_size_that_does_not_divide_is_named(tmp_path: Path) -> None:
    """Hostile input 31: every FQN with its K, and nothing is written."""
    source = float_checkpoint(tmp_path / "float")
    config = Int8WeightOnlyConfig(granularity=PerGroup(24))
    with pytest.raises(QconfigError) as caught:
        quantize_checkpoint(source, tmp_path / "int8", config)
    text = str(caught.value)
    assert "group_size does not divide the last dimension" in text
    assert [p.fqn for p in caught.value.problems] == ["layers.0.down.weight", "layers.0.up.weight"]
    assert "a divisor of K = 32" in text
    assert sorted(p.name for p in tmp_path.iterdir()) == ["float"]


def test_weights_that_are_not_finite_are_named(tmp_path: Path) -> None:
    """A NaN in a weight stops the run with the tensor's name, and nothing is left."""
    tensors = float_state_dict()
    tensors["layers.0.up.weight"][3, 5] = float("nan")
    save_file(tensors, tmp_path / "m.safetensors")
    with pytest.raises(BuildError, match=r"layers\.0\.up\.weight"):
        quantize_checkpoint(tmp_path / "m.safetensors", tmp_path / "int8", MIXED)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.safetensors"]


@pytest.mark.parametrize("point", range(1, 12))
def test_any_failing_write_leaves_source_and_target_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: int
) -> None:
    """ENOSPC at the n-th write: an error of ours, the source as it was, no target."""
    source = float_checkpoint(tmp_path / "float")
    before = files_of(source)
    calls = 0
    original = writer_module.write_all

    def failing(*args: object) -> None:
        nonlocal calls
        calls += 1
        if calls == point:
            raise OSError(errno.ENOSPC, "No space left on device")
        original(*args)

    monkeypatch.setattr(writer_module, "write_all", failing)
    error: QconfigError | None = None
    try:
        quantize_checkpoint(source, tmp_path / "int8", MIXED)
    except QconfigError as caught:
        error = caught
    if error is None:
        assert calls < point
    else:
        assert isinstance(error, StorageError)
        assert error.exit_code == 5
        assert sorted(p.name for p in tmp_path.iterdir()) == ["float"]
    assert files_of(source) == before


def test_one_weight_at_a_time_is_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a weight is built, the tensors of the one before it are gone."""
    import gc
    import weakref

    source = float_checkpoint(tmp_path / "float")
    builder = type(builder_of(Int8WeightOnlyConfig()))
    original = builder.build
    alive: list[weakref.ref[torch.Tensor]] = []

    def watched(self: object, config: object, weight: torch.Tensor) -> torch.Tensor:
        gc.collect()
        assert [r for r in alive if r() is not None] == []
        built = original(self, config, weight)
        alive.extend(weakref.ref(t) for t in (weight, built.qdata, built.scale))
        return built

    monkeypatch.setattr(builder, "build", watched)
    quantize_checkpoint(source, tmp_path / "int8", MIXED)
    assert len(alive) == 6


def test_a_failing_shard_of_a_pool_leaves_nothing(tmp_path: Path) -> None:
    """One bad shard among several in a pool fails the run with its tensor's name."""
    source = float_checkpoint(tmp_path / "float", shards=3)
    shard = source / "model-00001-of-00003.safetensors"
    tensors = load_file(shard)
    tensors["layers.0.up.weight"][0, 0] = float("inf")
    save_file(tensors, shard, {"format": "pt"})
    with ThreadPoolExecutor(2) as pool, pytest.raises(BuildError, match=r"layers\.0\.up\.weight"):
        quantize_checkpoint(source, tmp_path / "int8", MIXED, executor=pool)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["float"]


def test_a_source_that_is_replaced_meanwhile_is_told(tmp_path: Path) -> None:
    """Another file of equal size in the place of a shard is noticed before anything is kept."""
    source = float_checkpoint(tmp_path / "float")
    shard = source / "model.safetensors"

    def replace(*_: object) -> None:
        raw = shard.read_bytes()
        shard.unlink()
        shard.write_bytes(raw[:-4] + b"\0\0\0\0")

    with pytest.raises(ContainerError, match="the file has changed since its header was read"):
        quantize_checkpoint(source, tmp_path / "int8", MIXED, progress=replace)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["float"]


def test_a_config_of_an_old_version_is_stored_in_todays(tmp_path: Path) -> None:
    """A retired config class may be passed; what the checkpoint carries is current."""
    config = Int8WeightOnlyConfigV1(group_size=16)
    quantize_checkpoint(float_checkpoint(tmp_path / "float"), tmp_path / "int8", config)
    stored = inspect_checkpoint(tmp_path / "int8").quantization_config["config"]
    assert (stored["version"], stored["granularity"]) == (3, {"type": "PerGroup", "group_size": 16})
