"""What `--help`, `--version` and shell completion say."""

import os
import shlex
import subprocess
import sys

import click
import pytest

from qconfig.cli.main import VERBS, cli
from tests.cli.calls import call


def leaves():
    """Return every command that can be called, by the words one types."""
    found = {}
    for name in VERBS:
        command = cli.get_command(click.Context(cli), name)
        if isinstance(command, click.Group):
            found |= {f"{name} {sub}": c for sub, c in command.commands.items()}
        else:
            found[name] = command
    return found


LEAVES = leaves()


def test_verbs_are_listed_in_order():
    """The help lists all verbs, in the order of a working day."""
    result = call("--help")
    listed = result.stdout.partition("Commands:")[2].partition("\n\n")[0]
    assert [line.split()[0] for line in listed.strip().splitlines()] == list(VERBS)
    assert "..." not in listed
    assert result.exit_code == 0


@pytest.mark.parametrize("words", LEAVES)
def test_help_ends_with_an_example(words):
    """The help of every verb ends with an example of that verb."""
    result = call(*words.split(), "--help")
    assert result.exit_code == 0
    assert f"Example:\n  qconfig {words}" in result.stdout
    assert result.stdout.partition("Example:")[2].count("\n\n") == 0


@pytest.mark.parametrize("words", LEAVES)
def test_example_is_accepted(words):
    """Click accepts the example in the help of a verb."""
    command = LEAVES[words]
    arguments = shlex.split(command.example.removeprefix(f"qconfig {words}"))
    assert command.make_context(words, arguments).params


@pytest.mark.parametrize("words", LEAVES)
def test_every_verb_can_answer_in_json(words):
    """Every verb has --json, --quiet and --no-color."""
    options = {option for p in LEAVES[words].params for option in p.opts}
    assert {"--json", "--quiet", "-q", "--no-color"} <= options


def test_version():
    """`--version` says the name and the version."""
    result = call("--version")
    assert result.stdout.split()[0] == "qconfig"
    assert result.exit_code == 0


@pytest.mark.parametrize("words", [(), ("schema",)])
def test_without_a_verb_there_is_help(words):
    """A call without a verb shows the help on stderr and counts as a usage error."""
    result = call(*words)
    assert result.exit_code == 2
    assert "Commands:" in result.stderr
    assert result.stdout == ""


def complete(words, count):
    """Return what bash would be offered."""
    environment = {"_QCONFIG_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": count}
    code = "from qconfig.cli.main import main; main()"
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    return [line.partition(",")[2] for line in run.stdout.splitlines()]


def test_the_shell_completes_verbs():
    """The shell completes the name of a verb."""
    assert complete("qconfig ve", "1") == ["verify"]


def test_the_shell_completes_registered_names():
    """The shell completes the name of a config or layout."""
    assert complete("qconfig history Int8T", "2") == ["Int8TensorLayout"]
