"""`qconfig schema` and `qconfig history`."""

import json
import subprocess

import jsonschema
import pytest

from tests.cli.calls import ROW, RULES, call, call_json


def test_show():
    """The newest schema of a name is printed, and accepts a document."""
    schema = json.loads(call("schema", "show", "Int8WeightOnlyConfig").stdout)
    jsonschema.validate(ROW, schema)
    assert schema["properties"]["version"]["const"] == 3


def test_show_version():
    """`--version` chooses an older one."""
    text = call("schema", "show", "Int8WeightOnlyConfig", "--version", "1").stdout
    assert json.loads(text)["properties"]["version"]["const"] == 1


def test_show_everything():
    """Without a name, the schema for editors is printed; it accepts every config."""
    schema = json.loads(call("schema", "show").stdout)
    jsonschema.validate(RULES, schema)
    jsonschema.validate(ROW, schema)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["PerGroup"], 2),
        (["--version", "1"], 2),
        (["FqnToConfg"], 3),
        (["FqnToConfig", "--version", "0"], 3),
        (["FqnToConfig", "--version", "99"], 4),
    ],
)
def test_show_refuses(words, code):
    """A value, a version without a name, and what is not registered are refused."""
    assert call("schema", "show", *words).exit_code == code


def test_export(tmp_path):
    """Every version has a file, and there is one more for editors."""
    result = call("schema", "export", tmp_path / "s")
    assert str(tmp_path / "s" / "fqn_to_config" / "v1.json") in result.stdout.splitlines()
    assert json.loads((tmp_path / "s" / "qconfig.json").read_text())["title"]


def test_export_where_a_file_is(config):
    """A target that is a file is an error of storage that names the path."""
    result = call("schema", "export", config)
    assert result.exit_code == 5
    assert str(config) in result.stderr


@pytest.fixture
def released(tmp_path):
    """Schemas as they are, to be edited."""
    call("schema", "export", tmp_path / "released")
    return tmp_path / "released"


def test_nothing_breaks(released):
    """The classes break nothing that they have just written."""
    result = call("schema", "breaking", "--against", released)
    assert result.exit_code == 0
    assert result.stdout.startswith(f"nothing breaks against {released} (")


def broken(released):
    """Give a released schema a field that the class does not have."""
    path = released / "int8_weight_only_config" / "v3.json"
    schema = json.loads(path.read_text())
    schema["properties"]["gone"] = {"type": "integer"}
    path.write_text(json.dumps(schema))
    return released


def test_breaking(released):
    """A field that is gone is a finding: file, pointer and kind; exit code 1."""
    result = call("schema", "breaking", "--against", broken(released))
    assert result.exit_code == 1
    line = result.stdout.splitlines()[0]
    assert line == (
        "int8_weight_only_config/v3.json#/properties/gone: field gone is gone (removed-field)"
    )


def test_breaking_json(released):
    """`--format json` and `--json` are the same."""
    words = ["schema", "breaking", "--against", broken(released)]
    code, document = call_json(*words)
    assert code == 1
    assert document["result"]["changes"][0]["kind"] == "removed-field"
    assert json.loads(call(*words, "--format", "json").stdout) == document


def test_breaking_github(released):
    """`--format github` prints workflow commands and nothing else."""
    words = ["schema", "breaking", "--against", broken(released), "--format", "github"]
    assert call(*words).stdout == (
        "::error file=schemas/int8_weight_only_config/v3.json,title=removed-field"
        "::/properties/gone: field gone is gone\n"
    )


def test_breaking_against_a_git_ref(released, tmp_path, monkeypatch):
    """A commit of the repository here can be compared with."""
    repository = tmp_path / "repository"
    repository.mkdir()
    broken(released).rename(repository / "schemas")
    git = ["git", "-C", str(repository), "-c", "user.name=t", "-c", "user.email=t@example.org"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "schemas"]):
        subprocess.run([*git, *words], check=True)
    monkeypatch.chdir(repository)
    assert call("schema", "breaking", "--against", "HEAD").exit_code == 1


@pytest.mark.parametrize("ref", ["no-such-ref", "--upload-pack=x", ""])
def test_breaking_against_nothing(ref):
    """A ref that git does not know, or that is none, is a usage error."""
    assert call("schema", "breaking", f"--against={ref}").exit_code == 2


def test_breaking_against_an_empty_folder(tmp_path):
    """A folder without schemas is a usage error: nothing would be compared."""
    assert call("schema", "breaking", "--against", tmp_path).exit_code == 2


def test_history():
    """The versions of a name, newest first, with the steps and what they drop."""
    lines = call("history", "Int8WeightOnlyConfig").stdout.splitlines()
    assert lines[0] == "Int8WeightOnlyConfig (config)"
    assert lines[1].startswith("  v3 (current)  ")
    assert any(line.startswith("    v2 -> v3  ") for line in lines)
    assert any("drops a granularity" in line for line in lines)
    assert lines[-1].startswith("  v1  ")


def test_history_of_everything():
    """Without a name, all configs and layouts are shown."""
    _, document = call_json("history")
    names = [entry["name"] for entry in document["result"]["names"]]
    assert {"FqnToConfig", "Int8TensorLayout", "Int8WeightOnlyConfig"} <= set(names)
    assert "PerGroup" not in names


def test_history_of_a_value():
    """A value has no history of its own."""
    result = call("history", "PerGroup")
    assert result.exit_code == 2
    assert "it has no versions and no schema" in result.stderr
