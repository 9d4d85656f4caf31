"""What each of the processes that `check_sharding` starts does."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.nn.functional import linear

from qconfig.codec.converter import structure_any
from qconfig.errors import LayoutError, UnsupportedOperationError
from qconfig.testing.sharding import PROCESSES
from qconfig.testing.subject import Subject, has_no_views, require, require_close


def fully_sharded(subject: Subject, mesh: Any) -> None:
    """Under FSDP2 a process holds its rows, and forwards give what they gave before."""
    if has_no_views(subject.build(), lambda t: t.chunk(mesh.size())):
        return
    layers = [subject.quantized_linear(seed) for seed in range(2)]
    x = subject.activation(5)
    with torch.no_grad():
        expected = [layer(x) for layer in layers]
    for layer in layers:
        fully_shard(layer, mesh=mesh)
    for turn in range(3):
        for layer, output in zip(layers, expected, strict=True):
            with torch.no_grad():
                require_close(layer(x), output, f"forward {turn}")
    state: Any = nn.ModuleList(layers).state_dict()["0.weight"]
    rows = subject.shape[0] // mesh.size()
    require(tuple(state.to_local().shape) == (rows, subject.shape[1]), "the shard has other rows")
    require(
        type(state.to_local()) is type(subject.build()),
        f"the shard is a {type(state.to_local()).__name__}",
    )


def rows_and_columns(subject: Subject, mesh: Any) -> None:
    """With DTensor, row and column shards give what their pieces give one by one, or refuse."""
    weight, x = subject.build(), subject.activation(6)
    for dim in (0, 1):
        try:
            pieces = weight.chunk(mesh.size(), dim)
        except (LayoutError, UnsupportedOperationError):
            continue
        parts = x.chunk(mesh.size(), 1) if dim else [x] * mesh.size()
        products = [linear(a, w) for a, w in zip(parts, pieces, strict=True)]
        expected = sum(products[1:], products[0]) if dim else torch.cat(products, 1)
        sharded = distribute_tensor(weight, mesh, [Shard(dim)], src_data_rank=None)
        placement = Shard(1) if dim else Replicate()
        local = DTensor.from_local(parts[mesh.get_rank()], mesh, [placement])
        with torch.no_grad():
            found: Any = linear(local, sharded)
        require_close(found.full_tensor(), expected, f"shards of dimension {dim}")


def gathered(subject: Subject, mesh: Any) -> None:
    """`full_tensor` gathers shards of either dimension into a packed tensor of the same values."""
    weight = subject.build()
    for dim in (0, 1):
        try:
            weight.chunk(mesh.size(), dim)
        except (LayoutError, UnsupportedOperationError):
            continue
        sharded = distribute_tensor(weight, mesh, [Shard(dim)], src_data_rank=None)
        full: Any = sharded.full_tensor()
        require(type(full) is type(weight), f"dimension {dim} gives a {type(full).__name__}")
        same = torch.equal(full.dequantize(), weight.dequantize())
        require(same, f"shards of dimension {dim} have other values")


CHECKS: tuple[Callable[[Subject, Any], None], ...] = (fully_sharded, rows_and_columns, gathered)


def main(rank: int, folder: Path) -> int:
    """Run all checks on the configs of `job.json`, print what failed, return how many did."""
    job = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    store = distributed.FileStore(job["store"], PROCESSES)  # type: ignore[attr-defined]
    distributed.init_process_group("gloo", store=store, rank=rank, world_size=PROCESSES)
    mesh = init_device_mesh("cpu", (PROCESSES,))
    failures = 0
    for document in job["configs"]:
        subject = Subject(structure_any(document), tuple(job["shape"]))
        for check in CHECKS:
            try:
                check(subject, mesh)
            except Exception as error:  # noqa: BLE001 (whatever it is, it is reported)
                failures += 1
                message = f"{type(subject.config).__name__} {check.__name__}: {error}"
                sys.stdout.write("FAILED " + message.replace("\n", " ") + "\n")
    distributed.destroy_process_group()
    return int(failures > 0)


if __name__ == "__main__":
    code = main(int(sys.argv[1]), Path(sys.argv[2]))
    sys.stdout.flush()
    # Threads that torch's collectives have started may not be joined when the interpreter ends,
    # which ends the process with an abort.
    os._exit(code)
