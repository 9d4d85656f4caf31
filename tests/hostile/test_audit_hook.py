"""Invariant I1: data names no code; a hook that Python calls for each event watches all reading.

In a process of its own, because a hook cannot be removed.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hostile import samples as s
from tests.hostile.reader_cases import configs, torchao_tensors
from tests.hostile.test_items import ITEMS

ROOT = Path(__file__).parents[2]

# Everything that qconfig may import or compile is there before the watch begins: what happens
# afterwards is caused by data.
WATCH = """
import json, os, sys, sysconfig
from pathlib import Path
import torch
from click.testing import CliRunner
from qconfig import load_checkpoint, load_config
from qconfig.cli.main import VERBS, cli
from qconfig.errors import QconfigError

given, warm, cases = json.loads(sys.stdin.read())
RUNNER = CliRunner()

def look(kind, path):
    verbs = ["validate"] if kind == "config" else ["validate", "inspect", "verify"]
    for verb in verbs:
        result = RUNNER.invoke(cli, [verb, path, "--json"])
        if not isinstance(result.exception, SystemExit | None):
            raise result.exception
    try:
        load_config(path) if kind == "config" else load_checkpoint(path)
    except QconfigError:
        pass

for case in warm:
    look(*case)
look("config", "no/such.json")
look("config", "no/such.yaml")
look("config", "no/such.toml")
look("checkpoint", "no/such")

NEVER = ("exec", "compile", "socket.", "subprocess.", "os.system", "os.exec", "os.posix_spawn",
    "os.fork", "os.spawn", "pty.", "ctypes.dlopen", "code.__new__", "pickle.", "marshal.",
    "urllib.", "webbrowser.", "shutil.", "os.remove", "os.rename", "os.mkdir", "os.rmdir",
    "os.link", "os.symlink", "os.truncate", "os.chmod", "os.chown", "tempfile.")
events, watching = [], False

def hook(event, arguments):
    if not watching:
        return
    if event == "import":
        events.append(f"import {arguments[0]}")
    elif event.startswith(NEVER):
        events.append(f"{event} {arguments!r:.200}")
    elif event == "open":
        path, _, flags = arguments
        if isinstance(path, int):
            return
        real = os.path.realpath(os.fsdecode(path))
        inside = real.startswith(given + os.sep) or real == os.path.realpath(os.devnull)
        writes = bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
        if not inside or writes:
            events.append(f"open {path} {flags}")

sys.addaudithook(hook)
found = {}
for kind, path in cases:
    before, watching = set(sys.modules), True
    try:
        look(kind, path)
    finally:
        watching = False
    new = [f"module {name}" for name in set(sys.modules) - before]
    if events or new:
        found[path] = [*events, *new]
        events.clear()
watching = True
for forbidden in ("import no_such_module", "open(os.__file__).close()", "__import__('shutil')"):
    try:
        exec(forbidden)
    except ImportError:
        pass
watching = False
json.dump({"looked_at": len(cases), "found": found, "control": events}, sys.stdout)

"""


def code_in_documents() -> list[str]:
    """Return configs that would run something in a reader that trusts them."""
    names = [
        "os.system",
        "torch.nn.Linear",
        "qconfig.cli.main",
        "__import__('os').system",
        "..evil",
    ]
    return [
        *(json.dumps({"type": name, "version": 1}) for name in names),
        *(json.dumps({"_type": name, "_version": 1, "_data": {}}) for name in names),
        json.dumps({"_target_": "os.system", "type": "FqnToConfig", "version": 2}),
        json.dumps({"type": "Int8WeightOnlyConfig", "version": 3, "__class__": "os.system"}),
    ]


def foreign_configs() -> list[dict[str, object]]:
    """Return contents of config.json that name code."""
    return [
        {"auto_map": {"AutoModel": "evil.Evil"}, "trust_remote_code": True},
        {"architectures": ["os.system"], "_attn_implementation_internal": "a/b"},
        {"quantization_config": {"quant_method": "os.system", "config": {"type": "evil"}}},
        {"quantization_config": {"quant_method": "qconfig", "config": {"type": "os.system"}}},
    ]


@pytest.fixture
def files(tmp_path):
    """Every item of the page, and documents that name code, with the kind of each."""
    cases = []
    for i, item in enumerate(ITEMS):
        (tmp_path / str(i)).mkdir()
        path = item.make(tmp_path / str(i) / "source")
        cases.append(("config" if path.suffix == ".json" else "checkpoint", path))
    for i, text in enumerate(code_in_documents()):
        path = tmp_path / f"{i}.json"
        path.write_text(text)
        cases.append(("config", path))
    yaml = tmp_path / "evil.yaml"
    yaml.write_text('type: !!python/object/apply:os.system ["true"]\n')
    cases.append(("config", yaml))
    for i, content in enumerate(foreign_configs()):
        make = s.text("config.json", json.dumps(content))
        cases.append(("checkpoint", make(tmp_path / f"foreign-{i}")))
    (tmp_path / "foreign-0" / "evil.py").write_text("raise SystemExit('imported')\n")
    for i, case in enumerate(in_words_of_torchao()):
        cases += [(kind_of(path), path) for path in case.make(tmp_path / f"read-{i}").values()]
    return cases


def in_words_of_torchao():
    """Return what is written as torchao writes it: configs and tensors."""
    return [*configs(), *torchao_tensors()]


def kind_of(path):
    """Return how a path is looked at."""
    return "config" if path.suffix == ".json" else "checkpoint"


def test_data_names_no_code(files, tmp_path):
    """Reading hostile files imports, compiles and starts nothing, and opens no other file."""
    warm = [
        ("checkpoint", s.sharded()(tmp_path / "warm-float")),
        ("checkpoint", s.scale_elsewhere(tmp_path / "warm-old")),
        ("checkpoint", s.quantized(lambda *_: None)(tmp_path / "warm-new")),
        ("checkpoint", s.scaled(-1.0)(tmp_path / "warm-bad")),
        ("config", s.group_size("-1")(tmp_path / "warm-config")),
        ("config", s.document('{"type": "FqnToConfig", "version": 2}')(tmp_path / "warm-rules")),
    ]
    (tmp_path / "warm.yaml").write_text("type: Nope\nversion: 1\n")
    (tmp_path / "warm.toml").write_text('type = "Nope"\nversion = 1\n')
    (tmp_path / "warm-form.json").write_text('{"_type": "Int8WeightOnlyConfig", "_data": {}}')
    warm += [("config", tmp_path / n) for n in ("warm.yaml", "warm.toml", "warm-form.json")]
    for i, case in enumerate(in_words_of_torchao()):
        if case.what == "nothing wrong":
            made = case.make(tmp_path / f"warm-{i}").values()
            warm += [(kind_of(path), path) for path in made]
    data = [[(kind, str(path)) for kind, path in each] for each in (warm, files)]
    done = subprocess.run(
        [sys.executable, "-c", WATCH],
        input=json.dumps([str(tmp_path.resolve()), *data]),
        text=True,
        capture_output=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["looked_at"] == len(files)
    assert report["found"] == {}
    control = " ".join(report["control"])
    assert all(what in control for what in ("import no_such_module", "exec ", "compile ", "open "))
