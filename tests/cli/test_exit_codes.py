"""Exit codes, and what stands behind them."""

import os

import pytest

import qconfig.checkpoints.inspect
from qconfig.cli.main import cli
from tests.cli.calls import ROW, call, in_process, write

MAIN = "from qconfig.cli.main import main; main()"


def raising(error):
    """Return a function that raises."""

    def fail(*_: object, **__: object):
        raise error

    return fail


def test_fine(config):
    """A verb that finds nothing wrong exits with 0."""
    assert call("validate", config).exit_code == 0


def test_findings(old_model):
    """Something to do is 1: a dry run of an upgrade that is needed."""
    assert call("upgrade", old_model, "--dry-run").exit_code == 1


@pytest.mark.parametrize(
    "words",
    [
        ["plan"],
        ["nothing"],
        ["validate"],
        ["history", "--nope"],
        ["quantize", "a", "b"],
        ["quantize", "a", "b", "--config", "c", "--jobs", "0"],
        ["upgrade", "a", "--out"],
        ["schema", "breaking", "--against", "x", "--format", "xml"],
        ["schema", "show", "--version", "one"],
    ],
)
def test_usage(words):
    """A call that cannot be understood exits with 2 and says so on stderr alone."""
    result = call(*words)
    assert result.exit_code == 2
    assert "error: " in result.stderr
    assert result.stdout == ""


def test_invalid(tmp_path):
    """An invalid document is 3."""
    path = write(tmp_path / "bad.json", ROW | {"granularty": None})
    assert call("validate", path).exit_code == 3


def test_newer(tmp_path):
    """A document of a newer version is 4."""
    assert call("validate", write(tmp_path / "new.json", ROW | {"version": 99})).exit_code == 4


@pytest.mark.parametrize(
    "words",
    [
        ["validate", "{}.json"],
        ["inspect", "{}"],
        ["verify", "{}"],
        ["diff", "{}.json", "{}.json"],
        ["upgrade", "{}.json"],
        ["explain", "{}.json", "a"],
    ],
)
def test_missing_file(words, tmp_path):
    """A file that is not there is 5."""
    assert call(*(word.format(tmp_path / "none") for word in words)).exit_code == 5


def test_the_system_refuses(monkeypatch, old_model):
    """An error of the system about a file is 5 and names the file."""
    error = PermissionError(13, "Permission denied", "somewhere")
    monkeypatch.setattr(qconfig.checkpoints.inspect, "inspect_checkpoint", raising(error))
    result = call("inspect", old_model)
    assert result.exit_code == 5
    assert result.stderr == "error: somewhere: the system refused: Permission denied\n"


def test_interrupt(monkeypatch, old_model):
    """Ctrl-C is 130 and leaves no traceback."""
    monkeypatch.setattr(
        qconfig.checkpoints.inspect, "inspect_checkpoint", raising(KeyboardInterrupt)
    )
    result = call("inspect", old_model)
    assert result.exit_code == 130
    assert result.stderr.strip() == "interrupted; what was begun is removed"


def test_a_bug_is_shown(monkeypatch, old_model):
    """An exception that is not ours goes through, for its traceback."""
    monkeypatch.setattr(
        qconfig.checkpoints.inspect, "inspect_checkpoint", raising(ZeroDivisionError)
    )
    with pytest.raises(ZeroDivisionError):
        cli.main(["inspect", str(old_model)])


def test_a_closed_pipe_is_quiet():
    """A reader that goes away, such as head, ends the call without a word."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        run = in_process(
            "schema", "show", code=MAIN, capture_output=False, stdout=writer, stderr=-1
        )
    finally:
        os.close(writer)
    assert (run.returncode, run.stderr) == (141, "")


def test_without_the_extra():
    """Where click is not installed, the command says what to install."""
    code = "import sys; sys.modules['click'] = None; from qconfig.cli import run; run()"
    run = in_process("--version", code=code)
    assert run.returncode == 2
    assert run.stderr == "error: the command needs the extra cli: pip install 'qconfig[cli]'\n"


def test_with_the_extra():
    """The command that is installed is the one that is tested."""
    run = in_process("--version", code="from qconfig.cli import run; run()")
    assert (run.returncode, run.stdout[:8]) == (0, "qconfig ")


def test_nothing_there():
    """What is not there is 5, whatever it would have been."""
    result = call("validate", "nowhere")
    assert result.exit_code == 5
    assert "nowhere: no such file or directory" in result.output
