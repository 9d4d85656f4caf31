"""Invariant I1 for pickles: a hook that Python calls for each event watches their reading.

In a process of its own, because a hook cannot be removed.
"""

import json
import subprocess
import sys
from pathlib import Path

import torch

from tests.codec.torch_samples import of_pickle, saved
from tests.hostile.pickle_samples import hostile

ROOT = Path(__file__).parents[2]

WATCH = """
import json, os, sys
import torch
from qconfig.codec.torch_files import read_torch_file
from qconfig.errors import QconfigError

warm, paths = json.loads(sys.stdin.read())

def look(path):
    try:
        for tensor in read_torch_file(path, {}).root.values():
            tensor.value.load()
    except QconfigError as error:
        return str(error)

look(warm)
look("no/such.pt")
events, watched = [], None

def hook(event, arguments):
    if watched is None or event.startswith(("object.", "sys._getframe", "gc.", "builtins.id")):
        return
    if event == "open" and os.fsdecode(arguments[0]) == watched and not arguments[2] & 3:
        return
    events.append(f"{watched}: {event} {arguments!r:.200}")

sys.addaudithook(hook)
before, read = set(sys.modules), 0
for path in paths:
    watched = path
    read += look(path) is None
    watched = None
found, events[:] = list(events), []
found += [f"module {name}" for name in set(sys.modules) - before]
watched = "control"
for forbidden in ("import no_such_module", "open(os.__file__).close()", "os.system('true')"):
    try:
        exec(forbidden)
    except ImportError:
        pass
json.dump({"read": read, "found": found, "control": events}, sys.stdout)
"""


def test_reading_pickles_runs_nothing(tmp_path):
    """No import, no call, no process, no socket, and no other file, for good and bad files."""
    tensors = {"a": torch.ones(2), "b": torch.arange(6).view(2, 3).t()}
    warm, good = (str(saved(tensors, tmp_path / f"{n}.pt")) for n in ("warm", "good"))
    paths = [good]
    for i, data in enumerate(hostile().values()):
        path = tmp_path / f"{i}.pt"
        path.write_bytes(of_pickle(data))
        paths.append(str(path))
    done = subprocess.run(
        [sys.executable, "-c", WATCH],
        input=json.dumps([warm, paths]),
        text=True,
        capture_output=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["found"] == []
    assert report["read"] == 1
    control = " ".join(report["control"])
    assert all(what in control for what in ("import", "exec", "compile", "open", "os.system"))
