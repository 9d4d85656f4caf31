"""Checks of sharded weights in two processes: FSDP2, and DTensor by rows and by columns.

    check_sharding([MyConfig(bits=3)])

The processes are started once for all configs, and talk over the loopback interface with gloo.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from qconfig.codec.converter import unstructure
from qconfig.testing.subject import ConformanceFailure
from qconfig.versioning import Config

PROCESSES = 2
_SECONDS = 300


def check_sharding(configs: Iterable[Config], *, shape: tuple[int, int] = (256, 512)) -> None:
    """Run the sharding checks of `qconfig.testing.sharding_checks` on configs.

    Args:
        configs: configs of linear weights.
        shape: (N, K) of the weights.

    Raises:
        ConformanceFailure: naming config, check and process of everything that failed.
    """
    documents = [unstructure(config) for config in configs]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        job = {"configs": documents, "shape": shape, "store": str(folder / "store")}
        (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
        workers = [_start(rank, folder) for rank in range(PROCESSES)]
        try:
            outputs = [worker.communicate(timeout=_SECONDS)[0] for worker in workers]
        finally:
            for worker in workers:
                worker.kill()
    problems = [
        f"process {rank}: {line}"
        for rank, output in enumerate(outputs)
        for line in output.splitlines()
        if line.startswith("FAILED ")
    ]
    for rank, (worker, output) in enumerate(zip(workers, outputs, strict=True)):
        if worker.returncode:
            problems.append(f"process {rank} ended with {worker.returncode}: {output[-2000:]}")
    if problems:
        raise ConformanceFailure("\n".join(problems))


def _start(rank: int, folder: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "qconfig.testing.sharding_checks", str(rank), str(folder)]
    environment = {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "PYTHONUTF8": "1"}
    return subprocess.Popen(  # noqa: S603 (our own module in our own interpreter)
        command,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
