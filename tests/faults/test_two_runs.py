"""Two runs on one target at a time."""

import os
import re
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from qconfig.errors import UsageError
from tests.cli.calls import call
from tests.faults.expectations import leftover_of
from tests.faults.operations import CONFIGS, OPERATIONS, digest_of


@pytest.mark.parametrize("config", CONFIGS)
def test_the_second_is_refused(ask, tmp_path, config):
    """It is told who writes there, and since when; the first ends as if nothing was."""
    target = tmp_path / "place" / "target"
    held = ask("hold", operation="quantize", home=tmp_path)
    with pytest.raises(UsageError, match="another run") as caught:
        OPERATIONS["quantize"].run(tmp_path / "source", target, config=config)
    assert re.search(rf"process {held['pid']}\b.* \d+ s", str(caught.value))
    assert caught.value.exit_code == 2
    assert ask("let_go", pid=held["pid"]) == 0
    assert digest_of(target) == held["final"]
    assert not leftover_of(target).exists()


def test_a_run_in_the_same_process_is_refused(tmp_path):
    """A second thread is refused like a second process."""
    source, target = tmp_path / "source", tmp_path / "target"
    OPERATIONS["quantize"].make(source)
    refused = []

    def again(event):
        if event.kind == "shard" and not refused:
            with pytest.raises(UsageError, match=f"process {os.getpid()}") as caught:
                OPERATIONS["quantize"].run(source, target)
            refused.append(caught.value)

    with ThreadPoolExecutor(1) as pool:
        pool.submit(OPERATIONS["quantize"].run, source, target, listener=again).result()
    assert refused
    assert target.is_dir()


def test_doctor_leaves_a_run_that_lives(ask, tmp_path):
    """What a run works with is not removed, and is listed as in use."""
    target = tmp_path / "place" / "target"
    held = ask("hold", operation="quantize", home=tmp_path)
    listed = call("doctor", target.parent)
    assert str(held["pid"]) in listed.stdout
    removed = call("doctor", "--remove", target.parent)
    assert removed.exit_code != 0
    assert leftover_of(target).exists()
    assert ask("let_go", pid=held["pid"]) == 0
    assert digest_of(target) == held["final"]


def test_a_run_that_is_dead_holds_nothing(ask, tmp_path):
    """When the first is killed, the second goes on with what it left."""
    target = tmp_path / "place" / "target"
    held = ask("hold", operation="quantize", home=tmp_path)
    os.kill(held["pid"], signal.SIGKILL)
    assert ask("let_go", pid=held["pid"]) == -signal.SIGKILL
    OPERATIONS["quantize"].run(tmp_path / "source", target)
    assert digest_of(target) == held["final"]
    assert not leftover_of(target).exists()
