"""`--log-json` and `--profile`: the same events as lines for programs, and as a table."""

import json
from pathlib import Path

import pytest

from qconfig.checkpoints.events import Event, EventKind, Phase
from qconfig.cli.output import Output
from qconfig.cli.progress import progress
from qconfig.cli.time_spent import TimeSpent
from tests.checkpoints.builders import float_checkpoint
from tests.cli.calls import call, in_process

LOG = Output("quantize", as_json=False, quiet=False, color=None, log_json=True)
MAIN = "from qconfig.cli.main import main; main()"


def log_of(result):
    """Return the lines of stderr, each of which must be one JSON object."""
    return [json.loads(line) for line in result.stderr.splitlines()]


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_log_is_one_object_a_line(config, tmp_path, jobs):
    """Events begin with start, end with done, and say what every line has to."""
    source = float_checkpoint(tmp_path / "m", shards=3)
    log = log_of(call("quantize", source, tmp_path / "t", "-c", config, "--log-json", "-j", jobs))
    assert log[0]["event"] == "start"
    done = next(line for line in log if line["event"] == "done")
    assert done["done"] == done["total"] == log[0]["total"]
    keys = {"bytes", "done", "total", "seconds", "rate", "spent"}
    for line in log:
        assert (line["qconfig"], line["command"]) == (1, "quantize")
        assert "job" not in line or keys <= set(line)


def test_names_are_escaped(capsys):
    """A name that could steer a terminal is an escape of JSON, on one line."""
    name = "layers.0.up\x1b[2J\n\u202e.weight"
    with progress(LOG) as listen:
        listen(Event(kind=EventKind.TENSOR, job="quantize", tensor=name))
    (line,) = capsys.readouterr().err.splitlines()
    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line)["tensor"] == name


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_errors_are_lines_too(float_model, config, more):
    """The error that ends the call is an object of the log, and with --json on stdout as well."""
    result = call("quantize", float_model, float_model, "-c", config, "--log-json", *more)
    (line,) = log_of(result)
    assert (line["event"], line["exit_code"]) == ("error", result.exit_code)
    assert line["error"]["error"] == "UsageError"
    assert bool(result.stdout) == bool(more)


def test_a_call_that_cannot_be_understood_is_a_line(float_model):
    """An unknown option is an object of the log, without the text of usage."""
    (line,) = log_of(call("verify", float_model, "--log-json", "--bogus"))
    assert line["event"] == "error"
    assert "--bogus" in line["error"]["message"]


def test_notes_are_lines_too(old_model, tmp_path):
    """Notes are objects of the log; --quiet leaves them out and keeps events."""
    result = call("upgrade", old_model, "--dry-run", "--log-json")
    assert {line["event"] for line in log_of(result)} == {"start", "done", "note"}
    result = call("upgrade", old_model, "--dry-run", "--log-json", "-q")
    assert {line["event"] for line in log_of(result)} == {"start", "done"}


def test_an_interrupt_is_a_line(float_model, config, tmp_path):
    """Ctrl-C ends a log with an object, and nothing is left."""
    code = (
        "import os, signal, qconfig.cli.output as o\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "log = o.Output.log\n"
        "def press(self, content):\n"
        "    log(self, content)\n"
        "    if content['event'] == 'tensor': os.kill(os.getpid(), signal.SIGINT)\n"
        "o.Output.log = press\n"
    )
    words = ["quantize", float_model, tmp_path / "t", "-c", config, "--log-json"]
    run = in_process(*words, code=code + MAIN)
    assert run.returncode == 130, run.stderr
    assert [line["event"] for line in log_of(run)] == ["start", "tensor", "interrupted"]
    assert not (tmp_path / "t").exists()


def test_a_log_that_cannot_be_written_ends_the_work(float_model, config, tmp_path):
    """Where stderr is full, the call fails with 5 and leaves no target."""
    words = ["quantize", float_model, tmp_path / "t", "-c", config, "--log-json"]
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        run = in_process(*words, code=MAIN, capture_output=False, stderr=full)
    assert run.returncode == 5
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    "words", [["verify"], ["upgrade", "--verify"], ["convert", "--to", "torchao"]], ids=str
)
def test_profile_of_every_verb(words, old_model, tmp_path):
    """Each verb that reads or writes values prints all parts of its time to stderr."""
    target = [] if words == ["verify"] else [tmp_path / "t"]
    result = call(words[0], old_model, *target, *words[1:], "--profile", "-q")
    table = result.stderr.splitlines()
    assert table[0].split() == ["job", "part", "seconds", "share"]
    rows = [line.split()[:2] for line in table if line.startswith(words[0] + " ")]
    assert rows == [[words[0], str(phase)] for phase in Phase]
    assert table[-1].startswith(f"{words[0]}: ")


def test_profile_leaves_stdout_alone(float_model, config, tmp_path):
    """With --json, stdout is the one object that it always is."""
    words = ["quantize", float_model, tmp_path / "t", "-c", config, "--profile", "--json"]
    result = call(*words)
    assert json.loads(result.stdout)["command"] == "quantize"
    assert "compute" in result.stderr


def test_a_profile_in_a_log_is_a_line(current_model):
    """With --log-json the table is an object for each job."""
    log = log_of(call("verify", current_model, "--log-json", "--profile"))
    (line,) = [line for line in log if line["event"] == "profile"]
    assert (line["job"], set(line["spent"])) == ("verify", {str(phase) for phase in Phase})


def test_shares_are_those_of_all_threads(capsys):
    """Seconds of threads are added up, and shares are of their sum."""
    spent = TimeSpent()
    for phase, seconds in ((Phase.READ, 1.0), (Phase.WRITE, 2.0), (Phase.READ, 1.0)):
        spent(Event(kind=EventKind.SHARD, job="quantize", spent={phase: seconds}))
    spent(Event(kind=EventKind.DONE, job="quantize", done=3_000_000, seconds=3.0, rate=1e6))
    spent.show(Output("quantize", as_json=False, quiet=False, color=None))
    assert capsys.readouterr().err.splitlines() == [
        "job       part     seconds  share",
        "quantize  read        2.00   50 %",
        "quantize  compute     0.00    0 %",
        "quantize  write       2.00   50 %",
        "quantize  flush       0.00    0 %",
        "quantize  other       0.00    0 %",
        "quantize: 3 MB in 3.00 s, 1 MB/s since its start",
    ]


def test_a_log_takes_the_place_of_the_bar(capsys, monkeypatch):
    """On a terminal a log has no bar between its lines."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with progress(LOG) as listen:
        listen(Event(kind=EventKind.START, job="quantize"))
    (line,) = capsys.readouterr().err.splitlines()
    assert json.loads(line)["event"] == "start"
