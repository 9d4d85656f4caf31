"""Ctrl-C and SIGTERM, sent to the command itself between two shards."""

import fcntl
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from tests.cli.calls import ROW, call, write
from tests.faults.expectations import leftover_of
from tests.faults.operations import NAMES, digest_of

PIPE = 4096
MANY = 120
"""Tensors in the later shards, whose events do not fit into a pipe."""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A checkpoint of which the command cannot finish the second shard before somebody reads."""
    folder = tmp_path / "source"
    folder.mkdir()
    weight_map = {}
    for i, name in enumerate(NAMES):
        tensors = {f"layers.{i}.up.weight": torch.ones(16, 16)}
        if i:
            tensors |= {f"layers.{i}.norms.{j:03}.bias": torch.ones(4) for j in range(MANY)}
        save_file(tensors, folder / name)
        weight_map |= dict.fromkeys(tensors, name)
    write(folder / "model.safetensors.index.json", {"weight_map": weight_map})
    write(folder / "config.json", {})
    return folder


def interrupted(number: int, *arguments: object) -> tuple[int, str]:
    """Send a signal to the command when its first shard is finished; return its end and its words.

    It waits in the second shard then, because nobody reads what it says.
    """
    read, said = os.pipe()
    fcntl.fcntl(said, fcntl.F_SETPIPE_SZ, PIPE)
    process = subprocess.Popen(
        [sys.executable, "-c", "from qconfig.cli import run; run()", *map(str, arguments)],
        stdout=subprocess.DEVNULL,
        stderr=said,
    )
    os.close(said)
    with os.fdopen(read, "rb", buffering=0) as file:
        words = b""
        while b'"event": "shard"' not in words:
            part = file.read(PIPE)
            assert part, words.decode()
            words += part
        process.send_signal(number)
        while part := file.read(PIPE):
            words += part
    return process.wait(), words.decode()


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["ctrl-c", "sigterm"]
)
def test_a_signal_leaves_what_can_go_on(source, tmp_path, number, code):
    """The command says how to go on; the same command does, with the shard that was finished."""
    config = write(tmp_path / "quant.json", ROW)
    final = tmp_path / "final" / "target"
    assert call("quantize", source, final, "-c", config).exit_code == 0
    target = tmp_path / "target"
    arguments = ("quantize", source, target, "-c", config, "--log-json")
    ended, words = interrupted(number, *arguments)
    assert ended == code, words
    *_, last = [json.loads(line) for line in words.splitlines()]
    assert last["event"] == "interrupted"
    assert "run the same again" in json.dumps(last)
    assert not target.exists()
    inode = (leftover_of(target) / "content" / NAMES[0]).stat().st_ino
    result = call(*arguments)
    assert result.exit_code == 0, result.stderr
    events = [json.loads(line) for line in result.stderr.splitlines()]
    assert NAMES[0] not in {e["shard"] for e in events if e["event"] == "tensor"}
    assert (target / NAMES[0]).stat().st_ino == inode
    assert digest_of(target) == digest_of(final)
    assert not leftover_of(target).exists()
