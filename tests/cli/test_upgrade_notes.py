"""`qconfig upgrade` on torchao's configs: notes, the report, and who wrote a document."""

import json

import pytest

from tests.cli.calls import ROW, call, call_json, write
from tests.dialects.envelope_samples import envelope

BROKEN = envelope("ModuleFqnToConfig", 1, module_fqn_to_config={"re:(a": None})
MAP = envelope("ModuleFqnToConfig", 1, module_fqn_to_config={"re:a.*": None})
ONE = envelope("Int8DynamicActivationInt8WeightConfig", 1, weight_only_decode=True)


def test_notes_are_printed(tmp_path):
    """What is not carried is told on stderr with its place; the document goes to stdout."""
    result = call("upgrade", write(tmp_path / "a.json", ONE))
    assert result.exit_code == 0
    assert "note: /_data/weight_only_decode: torchao left the activation" in result.stderr
    assert json.loads(result.stdout)["type"] == "Int8DynamicActivationInt8WeightConfig"


def test_report_holds_the_notes(tmp_path):
    """The report has pointer and text of each note."""
    report = tmp_path / "report.json"
    call("upgrade", write(tmp_path / "a.json", ONE), "--report", report)
    (note,) = json.loads(report.read_text("utf-8"))["result"]["notes"]
    assert note["pointer"] == "/_data/weight_only_decode"


def test_writer_is_named(tmp_path):
    """A named release says that its patterns had no effect."""
    code, document = call_json("upgrade", write(tmp_path / "a.json", MAP), "--writer=torchao==0.13")
    assert code == 0
    assert document["result"]["document"]["rules"] == []


def test_writer_of_a_document_of_ours(tmp_path):
    """Our own documents say who wrote them: a writer is refused."""
    result = call("upgrade", write(tmp_path / "a.json", ROW), "--writer", "torchao==0.13")
    assert result.exit_code != 0
    assert "expected: no writer, for qconfig says its versions itself" in result.stderr


def test_writer_that_is_none(tmp_path):
    """A release that cannot be one is refused with the form."""
    result = call("upgrade", write(tmp_path / "a.json", MAP), "--writer", "0.13")
    assert result.exit_code != 0
    assert "torchao==0.13" in result.stderr


@pytest.mark.parametrize("command", [["upgrade"], ["convert", "--to=torchao"], ["validate"]])
def test_a_pattern_that_the_writer_ignored_may_be_broken(command, tmp_path):
    """A document is read once, with the writer: what is left out is not looked at."""
    path = write(tmp_path / "a.json", BROKEN)
    assert call(*command, path).exit_code == 3
    assert call(*command, path, "--writer", "torchao==0.13").exit_code == 0


def test_what_is_read_with_a_writer_is_linted(tmp_path):
    """A release that knew patterns is no way around a broken one."""
    result = call("upgrade", write(tmp_path / "a.json", BROKEN), "--writer", "torchao==0.14")
    assert result.exit_code == 3


@pytest.mark.parametrize("command", [["upgrade"], ["convert", "--to=torchao"], ["validate"]])
def test_a_release_of_the_future_is_refused(command, tmp_path):
    """Nobody knows what it means; without a writer the fields decide."""
    result = call(*command, write(tmp_path / "a.json", MAP), "--writer", "torchao==99.1")
    assert result.exit_code == 2
    said = result.stdout + result.stderr
    assert "a release that is not known yet" in said
    assert "a release up to torchao==0.18" in said
    assert "hint: leave the writer out" in said


def test_convert_tells_the_notes_of_a_config(tmp_path):
    """What is not carried into the other form is told there, too."""
    result = call("convert", write(tmp_path / "a.json", ONE), "--to", "torchao")
    assert "note: /_data/weight_only_decode: " in result.stderr
