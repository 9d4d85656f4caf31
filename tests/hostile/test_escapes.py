"""Whatever a name, path or string says, no verb prints a character that steers a terminal."""

import json
import re
from pathlib import Path

import pytest
import torch

from tests.checkpoints.builders import checkpoint_of, current_layout, float_checkpoint, v1_layout
from tests.cli.calls import ROW, call

EVIL = "\x1b[31m\x07\u202e\u200b\x85\n\rx"
FORMS = {
    "text": ["{}"],
    "json": ["{}", "--json"],
    "report": ["{}", "--report", "{home}/report.json"],
    "log": ["{}", "--log-json"],
    "profile": ["{}", "--profile"],
    "markdown": ["{}", "--markdown"],
    "summary": ["{}", "--no-tensors"],
}
RULES = {
    "type": "FqnToConfig",
    "version": 2,
    "configs": {EVIL: ROW},
    "rules": [
        {"match": EVIL, "use": EVIL, "optional": True},
        {"match": f"re:.*{re.escape(EVIL)}", "use": None, "optional": True},
        {"match": "*", "use": EVIL, "modules": [EVIL], "optional": True},
    ],
    "default": EVIL,
    "fused": [[EVIL, "up"]],
}
TORCHAO = {
    "_type": "ModuleFqnToConfig",
    "_version": 1,
    "_data": {
        "module_fqn_to_config": {
            EVIL: {"_type": "Int8WeightOnlyConfig", "_version": 2, "_data": {"group_size": None}}
        }
    },
}


@pytest.fixture
def home(tmp_path):
    """A folder with a hostile name, with checkpoints and configs that hold hostile strings."""
    folder = tmp_path / f"h{EVIL}"
    folder.mkdir()
    (folder / "rules.json").write_text(json.dumps(RULES))
    (folder / "torchao.json").write_text(json.dumps(TORCHAO))
    (folder / "wrong.json").write_text(json.dumps({"type": EVIL, "version": 1, EVIL: EVIL}))
    float_checkpoint(folder / "float", shards=2)
    (folder / "float" / f"carried{EVIL}").write_text("")
    config = {"model_type": EVIL, EVIL: [EVIL]}
    (folder / "float" / "config.json").write_text(json.dumps(config))
    checkpoint_of(folder / "new", {"a.weight": current_layout()}, {"b": torch.ones(2)})
    checkpoint_of(folder / "old", {"a.weight": v1_layout()})
    float_checkpoint(folder / "foreign")
    foreign = {"quantization_config": {"quant_method": EVIL, EVIL: EVIL}}
    (folder / "foreign" / "config.json").write_text(json.dumps(foreign))
    return folder


def calls(home: Path) -> dict[str, list[object]]:
    """Return the words of every call, those of verbs that write with a target that is new."""
    rules, target = home / "rules.json", home / "target"
    found: dict[str, list[object]] = {
        "history": ["history", EVIL],
        "schema": ["schema", "show", EVIL],
        "unknown": [EVIL],
        "no-file": ["inspect", home / "nothing"],
        "limit": ["inspect", home / "new", "--limit", EVIL],
        "dialect": ["inspect", home / "new", "--from", EVIL],
        "writer": ["inspect", home / "new", "--writer", EVIL],
        "explain": ["explain", rules, EVIL],
        "explain-wrong": ["explain", home / "wrong.json", EVIL],
        "diff-configs": ["diff", rules, home / "torchao.json"],
        "diff": ["diff", home / "float", home / "new"],
        "doctor": ["doctor", home],
        "upgrade-config": ["upgrade", home / "torchao.json"],
        "convert-config": ["convert", rules, "--to", "torchao"],
        "quantize": ["quantize", home / "float", target, "--config", rules],
        "upgrade": ["upgrade", home / "old", target],
        "convert": ["convert", home / "new", target, "--to", "torchao"],
    }
    for name in ("float", "new", "old", "foreign", "rules.json", "torchao.json", "wrong.json"):
        found |= {f"{verb} {name}": [verb, home / name] for verb in ("validate", "inspect")}
        if "." not in name:
            found[f"verify {name}"] = ["verify", home / name]
            found[f"plan {name}"] = ["plan", home / name, rules]
    return found


NAMES = [*calls(Path())]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", NAMES)
def test_nothing_steers_a_terminal(name, form, home):
    """Control, format and bidi characters come out as escapes, on stdout, stderr and in reports."""
    options = [word.format("", home=home) for word in FORMS[form]][1:]
    result = call(*calls(home)[name], *options)
    report = home / "report.json"
    written = report.read_text() if report.exists() else ""
    for text in (result.stdout, result.stderr, written):
        assert [c for c in text if not (c.isprintable() or c == "\n")] == []


@pytest.mark.parametrize("name", ["quantize", "upgrade", "convert", "plan float", "inspect new"])
def test_hostile_strings_are_no_hindrance(name, home):
    """A path or string with such characters is no reason to fail."""
    result = call(*calls(home)[name])
    assert result.exit_code == 0, result.output
