"""Invariant I1: data names no code; a hook that Python calls for each event watches all reading.

In a process of its own, because a hook cannot be removed.
"""

import json
import subprocess
import sys
from pathlib import Path

from qconfig.codec.documents import FORMATS
from tests.cli.calls import ROW, RULES
from tests.hostile import samples as s
from tests.hostile.calls import prepare
from tests.hostile.reader_cases import configs, torchao_tensors
from tests.hostile.test_items import ALL

ROOT = Path(__file__).parents[2]


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


def foreign_files(home: Path) -> list[tuple[str, Path]]:
    """Return documents and config.json that name code, and what is in the words of torchao."""
    found = []
    for i, text in enumerate(code_in_documents()):
        path = home / f"{i}.json"
        path.write_text(text)
        found.append(("config", path))
    for i, content in enumerate(foreign_configs()):
        make = s.text("config.json", json.dumps(content))
        found.append(("checkpoint", make(home / f"foreign-{i}")))
    (home / "foreign-0" / "evil.py").write_text("raise SystemExit('imported')\n")
    for i, case in enumerate([*configs(), *torchao_tensors()]):
        paths = case.make(home / f"read-{i}").values()
        found += [(kind_of(path), path) for path in paths]
    return found


def kind_of(path: Path) -> str:
    """Return how a path is looked at."""
    return "config" if path.suffix in FORMATS else "checkpoint"


def warm_files(home: Path) -> list[tuple[str, Path]]:
    """Return files of every kind, sound and wrong: whatever is imported late is, after these."""
    texts = {
        "a.yaml": "type: Nope\nversion: 1\n",
        "b.yaml": "a: [\n",
        "c.toml": 'type = "Nope"\nversion = 1\n',
        "d.json": '{"_type": "Int8WeightOnlyConfig", "_data": {}}',
        "e.json": json.dumps(ROW),
        "f.json": json.dumps(RULES | {"rules": [{"match": "re:[", "use": None}]}),
    }
    for name, text in texts.items():
        (home / name).write_text(text)
    made = [
        s.sharded()(home / "float"),
        s.scale_elsewhere(home / "old"),
        s.quantized(lambda *_: None)(home / "new"),
        s.scaled(-1.0)(home / "bad"),
        s.group_size("-1")(home / "config"),
        s.named("\u00e9", "e\u0301")(home / "twins"),
        s.named("a\x1bb")(home / "escape"),
        *(home / name for name in texts),
        *(home / name for name in ("no.json", "no.yaml", "no.toml", "none")),
    ]
    sound = [case for case in [*configs(), *torchao_tensors()] if case.what == "nothing wrong"]
    for i, case in enumerate(sound):
        made += case.make(home / f"sound-{i}").values()
    return [(kind_of(path), path) for path in made]


def test_data_names_no_code(tmp_path):
    """Reading hostile files imports, compiles and starts nothing, and opens no other file."""
    folders = {name: tmp_path / name for name in ("warm", "cases", "targets", "other")}
    for folder in folders.values():
        folder.mkdir()
    cases = foreign_files(folders["cases"])
    for i, item in enumerate(ALL):
        home = folders["cases"] / f"item-{i}"
        home.mkdir()
        path = item.make(home / "source")
        cases.append((kind_of(path), path))
    warm = warm_files(folders["warm"])
    prepare(tmp_path)
    job = {
        "given": str(tmp_path.resolve()),
        "writable": str(folders["targets"].resolve()),
        "model": str(tmp_path / "other" / "model"),
        "config": str(tmp_path / "other" / "any.json"),
        "warm": [(kind, str(path)) for kind, path in warm],
        "cases": [(kind, str(path)) for kind, path in cases],
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.hostile.watch"],
        input=json.dumps(job),
        text=True,
        capture_output=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["looked_at"] == len(cases)
    assert report["found"] == {}
    control = " ".join(report["control"])
    expected = ("import ('no_such", "exec ", "compile ", "open ", "os.listdir ", "os.system ")
    expected += ("os.mkdir ", "socket.gethostbyname ", "ctypes.dlopen ", "subprocess.Popen ")
    assert [what for what in expected if what not in control] == []
