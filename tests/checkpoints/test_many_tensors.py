"""Checkpoints of very many tensors: work that is linear in their number, and small headers."""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from qconfig import (
    FqnToConfig,
    Int8WeightOnlyConfig,
    Rule,
    inspect_checkpoint,
    load_checkpoint,
    quantize_checkpoint,
    upgrade_checkpoint,
    verify_checkpoint,
)
from qconfig.checkpoints.contents import ShardContents
from qconfig.checkpoints.write import write_checkpoint
from qconfig.codec.dtypes import DType
from qconfig.codec.safetensors_header import read_header
from qconfig.codec.tensor_values import LazyTensor
from qconfig.errors import ContainerError
from qconfig.limits import use_limits

CONFIG = FqnToConfig({"w8": Int8WeightOnlyConfig()}, (Rule("re:.*up_proj", "w8"),))
Verb = Callable[[Path, Path], Any]
VERBS: dict[str, Verb] = {
    "quantize": lambda source, target: quantize_checkpoint(source, target, CONFIG),
    "load": lambda source, _: load_checkpoint(source),
    "upgrade": upgrade_checkpoint,
    "verify": lambda source, _: verify_checkpoint(source),
    "inspect": lambda source, _: inspect_checkpoint(source),
}


def many(folder: Path, count: int) -> Path:
    """Write so many tiny weights of experts."""
    folder.mkdir(parents=True)
    names = [f"layers.{i // 10}.experts.{i % 10}.up_proj.weight" for i in range(count)]
    save_file({name: torch.ones(2, 4) for name in names}, folder / "model.safetensors")
    return folder


def calls_in(verb: Callable[[], Any]) -> int:
    """Return how many functions of Python are called while a verb runs."""
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        verb()
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize("name", list(VERBS))
def test_work_is_linear_in_the_number_of_tensors(tmp_path: Path, name: str) -> None:
    """A tensor more costs as many calls at 400 tensors as at 100."""
    verb = VERBS[name]
    calls = []
    for count in (50, 100, 200, 400):  # the first fills caches
        source = many(tmp_path / str(count), count)
        if name != "quantize":
            quantize_checkpoint(source, tmp_path / f"q{count}", CONFIG)
            source = tmp_path / f"q{count}"
        target = tmp_path / f"new{count}"
        calls.append(calls_in(partial(verb, source, target)))
    _, small, medium, large = calls
    assert large - medium <= 2.2 * (medium - small)


def test_a_header_says_the_layout_of_equal_tensors_once(tmp_path: Path) -> None:
    """A quantized weight of two inner tensors takes less than 350 bytes of the header."""
    starts = []
    for count in (100, 300):
        target = tmp_path / f"q{count}"
        quantize_checkpoint(many(tmp_path / str(count), count), target, CONFIG)
        starts.append(read_header(target / "model.safetensors").data_start)
    assert starts[1] - starts[0] < 200 * 350


def _never() -> torch.Tensor:
    raise AssertionError


def test_a_header_that_no_reader_takes_is_refused_before_anything_is_written(
    tmp_path: Path,
) -> None:
    """That of the second shard is checked before a tensor of the first is made."""
    small = ShardContents(plain={"a": LazyTensor(DType.INT8, (4,), _never)})
    names = [f"layers.{i}.weight" for i in range(100)]
    large = ShardContents(plain={n: LazyTensor(DType.INT8, (4,), _never) for n in names})
    with use_limits(header_bytes=1000), pytest.raises(ContainerError) as caught:
        write_checkpoint(tmp_path / "m", {"a.safetensors": small, "b.safetensors": large}, {})
    (problem,) = caught.value.problems
    assert problem.message == "the header is too long"
    assert "Limits.header_bytes" in (problem.expected or "")
    assert "smaller shards" in (problem.hint or "")
    assert list(tmp_path.iterdir()) == []
