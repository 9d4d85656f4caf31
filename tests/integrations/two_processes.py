"""What each of two processes does in the tests of distributed checkpoints, and starting them."""

import json
import os
import subprocess
import sys
import traceback
from pathlib import Path

import pytest
import torch
from torch import distributed, nn
from torch.distributed.checkpoint import HuggingFaceStorageReader, HuggingFaceStorageWriter
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

from qconfig import quantize_
from qconfig.configs import (
    Float8WeightOnlyConfig,
    Int4WeightOnlyConfig,
    Int8WeightOnlyConfig,
    IntxWeightOnlyConfig,
    NVFP4WeightOnlyConfig,
    PerTensor,
)
from qconfig.errors import CheckpointError
from qconfig.integrations.distributed_checkpoint import (
    load_distributed,
    load_distributed_into,
    save_distributed,
)
from qconfig.testing.subject import Subject, equal_packed

SHAPE = (128, 256)
CONFIGS = {
    "float8": Float8WeightOnlyConfig(),
    "int4": Int4WeightOnlyConfig(),
    "int8": Int8WeightOnlyConfig(),
    "intx": IntxWeightOnlyConfig(),
    "nvfp4": NVFP4WeightOnlyConfig(),
}


def weight(name, seed=0):
    """Return a quantized weight, the same in every process."""
    return Subject(CONFIGS[name], SHAPE).build(seed)


def model():
    """Return a quantized model, the same in every process."""
    torch.manual_seed(0)
    made = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64, bias=False))
    quantize_(made, Int8WeightOnlyConfig())
    return made


def replicated(folder, rank, mesh):
    """Both save the same state and load it whole."""
    state = {name: weight(name) for name in CONFIGS}
    saved = save_distributed(state, checkpoint_id=folder / "same")
    assert sum(name.startswith("qconfig.") for name in saved.state_dict_metadata) == 1
    found = load_distributed(checkpoint_id=folder / "same")
    assert all(equal_packed(found[name], state[name]) for name in CONFIGS)


def own_parts(folder, rank, mesh):
    """Each saves a tensor of its own, and loads those of both."""
    own = {f"layer{rank}": {"weight": weight("int4", rank), "bias": torch.full((3,), rank)}}
    saved = save_distributed(own, checkpoint_id=folder / "own")
    assert sum(name.startswith("qconfig.") for name in saved.state_dict_metadata) == 2
    found = load_distributed(checkpoint_id=folder / "own")
    for other in range(2):
        layer = found[f"layer{other}"]
        assert equal_packed(layer["weight"], weight("int4", other))
        assert layer["bias"].tolist() == [other] * 3


def rows(folder, rank, mesh):
    """Each saves its rows; they are filled in place, and are one tensor when read whole."""
    whole = {name: weight(name) for name in CONFIGS}
    shards = {
        n: distribute_tensor(w, mesh, [Shard(0)], src_data_rank=None) for n, w in whole.items()
    }
    save_distributed(shards, checkpoint_id=folder / "rows")
    for name, found in load_distributed(checkpoint_id=folder / "rows").items():
        assert equal_packed(found, whole[name]), name
    others = {
        n: distribute_tensor(weight(n, 1), mesh, [Shard(0)], src_data_rank=None) for n in CONFIGS
    }
    load_distributed_into(others, checkpoint_id=folder / "rows")
    for name, found in others.items():
        assert equal_packed(found.to_local(), shards[name].to_local()), name


def gathered_rows(folder, rank, mesh):
    """A whole tensor that was saved is read into rows, and rows into a replicated tensor."""
    whole = weight("int4")
    save_distributed({"w": whole}, checkpoint_id=folder / "whole")
    other = distribute_tensor(weight("int4", 1), mesh, [Shard(0)], src_data_rank=None)
    load_distributed_into({"w": other}, checkpoint_id=folder / "whole")
    assert equal_packed(other.full_tensor(), whole)
    copies = distribute_tensor(weight("int4", 1), mesh, [Replicate()], src_data_rank=None)
    load_distributed_into({"int4": copies}, checkpoint_id=folder / "rows")
    assert equal_packed(copies.to_local(), whole)


def fully_sharded_model(folder, rank, mesh):
    """A model under FSDP2 is saved, and loaded into another one."""
    first, second = model(), model()
    x = torch.randn(3, 64, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        expected = first(x)
        second[0].bias.zero_()
    for made in (first, second):
        fully_shard(made, mesh=mesh)
    save_distributed({"model": first, "step": 7}, checkpoint_id=folder / "fsdp")
    load_distributed_into(second, checkpoint_id=folder / "fsdp", key="model")
    with torch.no_grad():
        assert torch.equal(second(x), expected)


def columns_are_refused(folder, rank, mesh):
    """A tensor by columns is refused in each process, and so are rows that do not divide."""
    for value in (
        distribute_tensor(weight("int8"), mesh, [Shard(1)], src_data_rank=None),
        distribute_tensor(weight("int8")[:127], mesh, [Shard(0)], src_data_rank=None),
    ):
        with pytest.raises(CheckpointError, match="otherwise than by rows") as caught:
            save_distributed({"w": value}, checkpoint_id=folder / "columns")
        assert caught.value.fqn == "w"


def shared_scales(folder, rank, mesh):
    """Rows whose processes have a scale each are one tensor with several, of the same values."""
    whole = Subject(Int8WeightOnlyConfig(PerTensor()), SHAPE).build()
    shard = distribute_tensor(whole, mesh, [Shard(0)], src_data_rank=None)
    save_distributed({"w": shard}, checkpoint_id=folder / "scales")
    found = load_distributed(checkpoint_id=folder / "scales")["w"]
    assert torch.equal(found.dequantize(), whole.dequantize())


def errors_reach_both(folder, rank, mesh):
    """What one process cannot load, the other does not wait for."""
    state = {"int8": None} if rank else {"int8": torch.empty(2)}
    with pytest.raises(CheckpointError, match="stored quantized") as caught:
        load_distributed_into(state, checkpoint_id=folder / "same")
    assert caught.value.fqn == "int8"


def refusals_reach_both(folder, rank, mesh):
    """What one process cannot save, the other does not wait for, and no file is written."""
    w = weight("int8")
    with pytest.raises(CheckpointError, match="a meta tensor has no values") as caught:
        save_distributed({"w": w.to("meta") if rank else w}, checkpoint_id=folder / "refused")
    assert caught.value.fqn == "w"
    assert not list((folder / "refused").iterdir())


class Broken:
    """An object whose state dict cannot be made, by no error of ours."""

    def state_dict(self):
        raise RuntimeError("no state today")

    def load_state_dict(self, state_dict):
        del state_dict


def any_error_reaches_both(folder, rank, mesh):
    """An error of an object's own state dict in one process, the other does not wait for."""
    state = {"w": weight("int8"), "other": Broken() if rank else 3}
    with pytest.raises(CheckpointError, match="no state today"):
        save_distributed(state, checkpoint_id=folder / "broken")
    assert not list((folder / "broken").iterdir())


def hugging_face(folder, rank, mesh):
    """Rows pass through torch's storage for Hugging Face, a file for each process."""
    shard = distribute_tensor(weight("nvfp4"), mesh, [Shard(0)], src_data_rank=None)
    place = str(folder / "safetensors")
    writer = HuggingFaceStorageWriter(place, save_distributed=True)
    save_distributed({"w": shard, "b": torch.arange(3)}, storage_writer=writer)
    found = load_distributed(storage_reader=HuggingFaceStorageReader(place))
    assert equal_packed(found["w"], weight("nvfp4"))
    assert found["b"].tolist() == [0, 1, 2]


CHECKS = (
    replicated,
    own_parts,
    rows,
    gathered_rows,
    fully_sharded_model,
    columns_are_refused,
    shared_scales,
    errors_reach_both,
    refusals_reach_both,
    any_error_reaches_both,
    hugging_face,
)


def start(folder):
    """Run all checks in two processes; return by name of a check what went wrong, or nothing."""
    environment = {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "PYTHONUTF8": "1"}
    workers = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.integrations.two_processes", str(rank), str(folder)],
            env={**os.environ, **environment},
            cwd=Path(__file__).parents[2],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        outputs = [worker.communicate(timeout=300)[0] for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
    problems = {check.__name__: [] for check in CHECKS}
    for rank in range(2):
        result = folder / f"{rank}.json"
        if not result.exists():
            raise AssertionError(f"process {rank} ended early: {outputs[rank][-4000:]}")
        for name, text in json.loads(result.read_text(encoding="utf-8")).items():
            problems[name].append(f"process {rank}: {text}")
    return problems


def main(rank, folder):
    """Run all checks in this process, and write what failed into a file."""
    store = distributed.FileStore(str(folder / "store"), 2)
    distributed.init_process_group("gloo", store=store, rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    failed = {}
    for check in CHECKS:
        try:
            check(folder, rank, mesh)
        except Exception:  # noqa: BLE001 (whatever it is, it is reported)
            failed[check.__name__] = traceback.format_exc()
        distributed.barrier()
    distributed.destroy_process_group()
    (folder / f"{rank}.json").write_text(json.dumps(failed), encoding="utf-8")


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
    sys.stdout.flush()
    # Threads that torch's collectives have started may not be joined when the interpreter ends.
    os._exit(0)
