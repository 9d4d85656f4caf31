"""What goes where: the JSON envelope, notes, colours, and characters that steer terminals."""

import json

import jsonschema
import pytest
import torch
from safetensors.torch import save_file

from qconfig.cli.output import OUTPUT_VERSION, Output, human_bytes, shape_text
from tests.checkpoints.builders import checkpoint_of, current_layout
from tests.cli.calls import ROW, RULES, call, call_json, write

TEXTS = ("error", "message", "file", "fqn", "pointer", "found", "expected", "hint")
ENVELOPE = {
    "type": "object",
    "properties": {
        "qconfig": {"const": OUTPUT_VERSION},
        "command": {"type": "string"},
        "result": {"type": "object"},
        "error": {
            "type": "object",
            "properties": {
                **{key: {"type": "string"} for key in TEXTS},
                "problems": {"type": "array", "items": {"$ref": "#/properties/error"}},
            },
            "required": ["error", "message"],
            "additionalProperties": False,
        },
    },
    "required": ["qconfig", "command"],
    "oneOf": [{"required": ["result"]}, {"required": ["error"]}],
    "additionalProperties": False,
}

ANSWERS = [
    "validate {config} {old_model}",
    "plan {float_model} {config}",
    "explain {config} layers.0.up",
    "quantize {float_model} {tmp_path}/new --config {config}",
    "inspect {old_model}",
    "upgrade {old_model} {tmp_path}/new",
    "upgrade {config}",
    "verify {current_model}",
    "diff {old_model} {current_model}",
    "schema show",
    "schema export {tmp_path}/schemas",
    "schema breaking --against {schemas}",
    "history",
]


@pytest.fixture
def schemas(tmp_path):
    """An exported schemas folder."""
    call("schema", "export", tmp_path / "exported")
    return tmp_path / "exported"


@pytest.mark.parametrize("line", ANSWERS)
def test_envelope(line, places, schemas):
    """Every verb answers `--json` in one envelope that names the verb."""
    code, document = call_json(*(word.format(**places, schemas=schemas) for word in line.split()))
    jsonschema.validate(document, ENVELOPE)
    assert "result" in document
    assert line.startswith(document["command"])
    assert code in (0, 1)


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (["inspect", "nothing/"], 5, "StorageError"),
        (["history", "Int8WeightOnlyConfg"], 3, "UnknownNameError"),
        (["schema", "show", "FqnToConfig", "--version", "99"], 4, "NewerVersionError"),
        (["upgrade", "a/", "b", "--out", "c"], 2, "UsageError"),
        (["plan", "only-one"], 2, "UsageError"),
        (["nothing"], 2, "UsageError"),
    ],
)
def test_error_envelope(words, code, error):
    """An error is in the same envelope, on stdout, with its own exit code."""
    found, document = call_json(*words)
    jsonschema.validate(document, ENVELOPE)
    assert (found, document["error"]["error"]) == (code, error)


def test_several_problems_are_in_the_error(tmp_path):
    """An error that collects several has each of them in `problems`."""
    path = write(tmp_path / "bad.json", ROW | {"a": 1, "b": 2})
    code, document = call_json("explain", path, "layers.0.up")
    jsonschema.validate(document, ENVELOPE)
    assert code == 3
    assert [p["pointer"] for p in document["error"]["problems"]] == ["/a", "/b"]


def test_error_text(tmp_path):
    """An error's text has the place, what was found, what is allowed and what to do."""
    result = call("schema", "show", "Int8WeightOnlyConfg")
    assert result.stdout == ""
    assert result.stderr == (
        "error: /type: unknown type\n"
        "  found: 'Int8WeightOnlyConfg'\n"
        "  expected: a registered name\n"
        "  hint: did you mean 'Int8WeightOnlyConfig'?\n"
    )


def test_usage_error_text():
    """A usage error shows the form of the call and where help is."""
    assert call("plan", "model").stderr == (
        "Usage: qconfig plan [OPTIONS] MODEL CONFIG\n"
        "Try 'qconfig plan --help' for help.\n\n"
        "error: Missing argument 'CONFIG'.\n"
    )


def test_notes_go_to_stderr(old_model):
    """A note is on stderr, so that stdout holds the result alone."""
    result = call("inspect", old_model)
    assert "qconfig upgrade" in result.stderr
    assert "qconfig upgrade" not in result.stdout


@pytest.mark.parametrize("option", ["--quiet", "-q"])
def test_quiet(option, old_model):
    """A quiet call has no notes, and the same result."""
    result = call("inspect", old_model, option)
    assert result.stderr == ""
    assert result.stdout == call("inspect", old_model).stdout


def test_colours():
    """An error has colours where the terminal takes them."""
    assert "\x1b[31m" in call("history", "nothing", color=True).stderr


def test_no_color_option():
    """`--no-color` takes the colours away."""
    assert "\x1b" not in call("history", "nothing", "--no-color", color=True).stderr


@pytest.mark.parametrize("words", [["history", "nothing"], ["nothing"], ["history"]])
def test_no_color_variable(words):
    """NO_COLOR takes the colours away."""
    result = call(*words, color=True, env={"NO_COLOR": "1"})
    assert "\x1b" not in result.output


# A space that is not the common one is let through in names; the other characters are refused.
SPACE = "a\u2003b"
HOSTILE = "a\x1b[2Jb\u202ec\x9bd"


def hostile_calls(folder):
    """Yield calls on files whose names and contents would steer a terminal."""
    file = write(folder / f"{HOSTILE}.json", RULES | {"configs": {HOSTILE: ROW}})
    rule = {"match": f"{HOSTILE}.*", "use": HOSTILE}
    rules = write(folder / "r.json", {**RULES, "configs": {HOSTILE: ROW}, "rules": [rule]})
    named = checkpoint_of(folder / "named", {f"{SPACE}.weight": current_layout()})
    plain = checkpoint_of(folder / "plain", {}, {f"{SPACE}.weight": torch.zeros(4, 4)})
    refused = folder / "refused.safetensors"
    save_file({HOSTILE: torch.zeros(4, 4)}, refused)
    yield "validate", refused
    yield "inspect", refused
    yield "validate", file
    yield "validate", folder / HOSTILE
    yield "explain", rules, f"{HOSTILE}.weight"
    yield "explain", rules, HOSTILE, "--module-class", HOSTILE
    yield "diff", rules, write(folder / "s.json", RULES)
    yield "upgrade", rules
    yield "upgrade", file, folder / f"{HOSTILE}.toml"
    yield "inspect", named
    yield "inspect", named, "--markdown"
    yield "diff", named, plain
    yield "verify", named
    yield "plan", plain, write(folder / "d.json", ROW), "--all"
    yield "plan", plain, rules
    yield "schema", "breaking", "--against", HOSTILE
    yield "history", HOSTILE
    yield (HOSTILE,)
    yield "plan", "a", "b", HOSTILE


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_no_data_steers_the_terminal(options, tmp_path):
    """No name, path or value reaches stdout or stderr with a character that steers terminals."""
    for words in hostile_calls(tmp_path):
        if options and "--markdown" in words:
            continue
        result = call(*words, *options)
        assert all(c.isprintable() for c in result.output.replace("\n", "")), words


def test_a_printed_config_stays_json(tmp_path):
    """A config that is printed with escapes is still JSON with the same content."""
    rules = {**RULES, "configs": {HOSTILE: ROW}, "rules": [{"match": HOSTILE, "use": HOSTILE}]}
    result = call("upgrade", write(tmp_path / "r.json", rules))
    assert json.loads(result.stdout)["rules"][0]["match"] == HOSTILE


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (1024, "1.02 kB"),
        (999_499, "999 kB"),
        (999_500, "1 MB"),
        (90_900_000, "90.9 MB"),
        (4_000_000_000, "4 GB"),
        (1_500_000_000_000, "1.5 TB"),
        (12_345_000_000_000_000, "12345 TB"),
    ],
)
def test_human_bytes(count, text):
    """Sizes have three digits and decimal units."""
    assert human_bytes(count) == text


def test_shape_text():
    """Shapes read like products; a scalar has a word."""
    assert [shape_text(s) for s in ((), (3,), (3, 4))] == ["scalar", "3", "3 × 4"]


def test_no_nan_in_json(capsys):
    """JSON on stdout is JSON: a number that JSON lacks is a bug."""
    with pytest.raises(ValueError, match="JSON compliant"):
        Output("x", as_json=True, quiet=False, color=None).result(float("nan"))
