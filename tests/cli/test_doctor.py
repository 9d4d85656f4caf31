"""`qconfig doctor` lists what interrupted runs left, and removes it."""

import json
import os

import pytest
import torch

from qconfig import Int8WeightOnlyConfig, quantize_checkpoint, save_checkpoint
from qconfig.checkpoints.events import EventKind
from qconfig.checkpoints.leftovers import find_leftovers, remove_leftover
from qconfig.codec.run_lock import RunLock
from qconfig.errors import StorageError, UsageError
from tests.cli.calls import call


@pytest.fixture
def interrupted(tmp_path):
    """A folder with a checkpoint of two shards, and a run that ended after the first of them."""
    model = {f"layers.{i}.weight": torch.ones(32, 32) for i in range(2)}
    save_checkpoint(model, tmp_path / "float", max_shard_bytes=4096)

    def stop(event):
        if event.kind is EventKind.SHARD:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        quantize_checkpoint(
            tmp_path / "float", tmp_path / "int8", Int8WeightOnlyConfig(), listener=stop
        )
    return tmp_path


def test_a_leftover_says_what_it_is_of(interrupted):
    """How much is finished, of what, and how to go on."""
    result = call("doctor", interrupted)
    assert result.exit_code == 1
    assert result.stdout == (
        f"{interrupted}/.int8.qconfig-tmp\n"
        "  1 finished shard of 2, 1.15 kB of 2.3 kB, of "
        f"{interrupted}/float\n"
        f"  to go on, quantize {interrupted}/int8 as before\n"
    )
    assert result.stderr == "note: to remove what no run works on: --remove\n"


def test_json_has_all_of_it(interrupted):
    """Programs see the same."""
    result = call("doctor", "--json", interrupted / "int8")
    (left,) = json.loads(result.stdout)["result"]["left"]
    assert left == {
        "path": f"{interrupted}/.int8.qconfig-tmp",
        "target": f"{interrupted}/int8",
        "state": "resumable",
        "running": None,
        "job": "quantize",
        "source": f"{interrupted}/float",
        "finished": ["model-00001-of-00002.safetensors"],
        "finished_bytes": 1152,
        "shards": 2,
        "bytes": 2304,
    }


def test_what_is_left_can_be_removed(interrupted):
    """Nothing but the sources stays."""
    result = call("doctor", interrupted, "--remove")
    assert (result.exit_code, result.stdout) == (0, f"removed {interrupted}/.int8.qconfig-tmp\n")
    assert [p.name for p in interrupted.iterdir()] == ["float"]
    assert call("doctor", interrupted).stdout == "nothing is left of other runs\n"


def test_what_a_run_works_on_is_not_removed(interrupted):
    """Its process is named, and `--remove` leaves it."""
    lock = RunLock.take(interrupted / ".int8.qconfig-tmp" / "lock")
    result = call("doctor", interrupted, "--remove")
    assert result.exit_code == 1
    assert f"being written by process {os.getpid()} on " in result.stdout
    (leftover,) = find_leftovers(interrupted)
    assert leftover.state == "running"
    with pytest.raises(UsageError, match="the run goes on"):
        remove_leftover(leftover)
    lock.release()


@pytest.mark.parametrize("name", [".int8.qconfig-tmp-0a1b2c3d", ".int8.qconfig-tmp"])
def test_what_says_nothing_is_useless(tmp_path, name):
    """A directory of an old release, or one that was only just made."""
    (tmp_path / name).mkdir()
    (tmp_path / name / "content").mkdir()
    (leftover,) = find_leftovers(tmp_path)
    assert (leftover.state, leftover.target) == ("useless", tmp_path / "int8")
    assert "nothing in it is finished" in call("doctor", tmp_path).stdout
    remove_leftover(leftover)
    assert list(tmp_path.iterdir()) == []


_OTHERS = ["qconfig-tmp", ".qconfig-tmp", ".a.qconfig-tmp-x", "a.qconfig-tmp"]


@pytest.mark.parametrize("name", _OTHERS)
def test_other_directories_are_left(tmp_path, name):
    """Only what a run of ours makes has our names."""
    (tmp_path / name).mkdir()
    assert find_leftovers(tmp_path) == []


def test_a_link_is_never_followed(tmp_path):
    """It could lead to anything."""
    (tmp_path / "kept").mkdir()
    (tmp_path / ".int8.qconfig-tmp").symlink_to(tmp_path / "kept")
    assert find_leftovers(tmp_path) == []


def test_a_place_that_is_not_there_is_an_error(tmp_path):
    """A wrong name is not taken for a clean directory."""
    with pytest.raises(StorageError, match="no such directory"):
        find_leftovers(tmp_path / "a" / "b")
    assert find_leftovers(tmp_path / "a") == []


def test_a_leftover_that_is_named_twice_is_removed_once(interrupted):
    """By its folder and by its target."""
    result = call("doctor", interrupted, interrupted / "int8", "--remove")
    assert (result.exit_code, result.stdout) == (0, f"removed {interrupted}/.int8.qconfig-tmp\n")


def test_a_journal_that_cannot_be_read_is_said(interrupted):
    """Nothing is known of what a newer release left."""
    (interrupted / ".int8.qconfig-tmp" / "journal").write_text('{"qconfig_journal": 99}\n')
    (leftover,) = find_leftovers(interrupted)
    assert leftover.state == "unknown"
    assert "its journal cannot be read: a newer release" in call("doctor", interrupted).stdout
    remove_leftover(leftover)
    assert [p.name for p in interrupted.iterdir()] == ["float"]


def test_files_of_others_are_not_removed(tmp_path):
    """What stays is said, after everything else has been removed."""
    for name in ("a", "b"):
        (tmp_path / f".{name}.qconfig-tmp").mkdir()
    (tmp_path / ".a.qconfig-tmp" / "mine").write_text("x")
    result = call("doctor", tmp_path, "--remove")
    assert (result.exit_code, result.stdout) == (5, f"removed {tmp_path}/.b.qconfig-tmp\n")
    assert f"{tmp_path}/.a.qconfig-tmp: the file system refused" in result.stderr
    assert (tmp_path / ".a.qconfig-tmp" / "mine").read_text() == "x"


def test_a_leftover_may_be_named_by_its_own_path(interrupted):
    """As the doctor prints it."""
    result = call("doctor", interrupted / ".int8.qconfig-tmp")
    assert result.stdout.startswith(f"{interrupted}/.int8.qconfig-tmp\n")


def test_a_name_of_nothing_is_said(tmp_path):
    """A typing error is no good news."""
    result = call("doctor", tmp_path / "a")
    assert (result.exit_code, result.stderr) == (0, f"note: there is no {tmp_path}/a\n")
