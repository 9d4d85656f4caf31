"""Run: `python -m tests.checkpoints.truncating JOB SOURCE`; prints how each attempt ended.

A job is done again and again, each time in a process of its own. In attempt N the shard is cut
short right before the N-th call that opens, maps, asks about or reads any file, until a job ends
before its N-th call. Every line is `error`, `done`, `signal <number>` or a foreign exception.
"""

import mmap
import os
import shutil
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from qconfig import (
    Int8WeightOnlyConfig,
    inspect_checkpoint,
    load_checkpoint,
    quantize_checkpoint,
    upgrade_checkpoint,
    verify_checkpoint,
)
from qconfig.errors import QconfigError
from qconfig.tensors import Int8Tensor

SHARD = "model.safetensors"
LEFT = 64
CALLS = ((os, "open"), (os, "fstat"), (os, "preadv"), (os, "copy_file_range"), (mmap, "mmap"))
ENDS = {0: "done", 10: "error", 11: "more"}


def load_into_model(source: Path, mmap: bool) -> None:
    """Load into a model, which looks at what it is given."""
    model = torch.nn.ModuleDict({"old": torch.nn.Linear(2048, 64, bias=False)})
    load_checkpoint(source, model=model, mmap=mmap, ignore=("new.weight", "norm.weight"))


def verify(source: Path) -> None:
    """Verify, with the first problem raised."""
    for problem in verify_checkpoint(source).problems:
        raise problem


JOBS: dict[str, Callable[[Path, Path], Any]] = {
    "load": lambda source, _: load_checkpoint(source),
    "load-copy": lambda source, _: load_checkpoint(source, mmap=False),
    "load-model": lambda source, _: load_into_model(source, mmap=True),
    "quantize": lambda source, target: quantize_checkpoint(source, target, Int8WeightOnlyConfig()),
    "upgrade": upgrade_checkpoint,
    "verify": lambda source, _: verify(source),
    "inspect": lambda source, _: inspect_checkpoint(source),
}


def cut_before(number: int, shard: Path) -> None:
    """Make the `number`-th call of any of CALLS cut the shard before it does its work."""
    left = number

    def counted(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0:
                os.truncate(shard, LEFT)
            return original(*args, **kwargs)

        return call

    for module, name in CALLS:
        setattr(module, name, counted(getattr(module, name)))


def attempt(job: str, source: Path, target: Path, number: int) -> int:
    """Do the job in this process; return its exit status."""
    shard = source / SHARD
    size = shard.stat().st_size
    cut_before(number, shard)
    try:
        JOBS[job](source, target)
    except QconfigError:
        return 10
    return 0 if shard.stat().st_size == size else 11


def main(job: str, source: Path) -> None:
    """Attempt until a job ends undisturbed."""
    spare = source.parent / "spare"
    shutil.copytree(source, spare)
    end, number = "", 0
    while end != "done" and not end.startswith(("signal", "foreign")):
        number += 1
        shutil.copy2(spare / SHARD, source / SHARD)
        target = source.parent / f"target{number}"
        child = os.fork()
        if child == 0:
            try:
                os._exit(attempt(job, source, target, number))
            except BaseException:  # noqa: BLE001 (the parent says what it was)
                traceback.print_exc()
                os._exit(12)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        end = ENDS.get(code, f"signal {-code}" if code < 0 else "foreign exception")
        sys.stdout.write(f"{end}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    torch.set_num_threads(1)
    Int8Tensor.__doc__  # noqa: B018 (imports what is imported lazily before files are counted)
    main(sys.argv[1], Path(sys.argv[2]))
