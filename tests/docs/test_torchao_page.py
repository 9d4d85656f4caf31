"""docs/old-torchao-checkpoints.md says what the code does: its tables, its output, its keys."""

import re
import shutil

import pytest

from qconfig.checkpoints.upgrade import upgrade_checkpoint
from qconfig.dialects.torchao.pickles import SUFFIXES
from tests.cli.calls import call
from tests.docs.torchao_tables import AROUND, PAGE, TABLES, marked, span
from tests.torchao_pickles import PICKLES

TEXT = PAGE.read_text(encoding="utf-8")
OLD = PICKLES / "0.4.0" / "direct_mxfp4__bf16.pt"
SHOWN = re.findall(r"^```console\n\$ qconfig (.+)\n((?:[^$`].*\n)+)```$", TEXT, re.MULTILINE)


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_what_the_code_reads_by(name):
    """A table of classes or configs is made from the code: python -m tests.docs.torchao_tables."""
    found = marked(name, TEXT)
    assert found is not None
    assert found[1].splitlines() == list(TABLES[name]())


@pytest.mark.parametrize("name", AROUND)
def test_classes_around_a_weight_are_told_of(name):
    """Classes that are in no table, as they only say something of another one, are on the page."""
    assert f"`{name}`" in TEXT


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_names_of_pickles_are_told(suffix):
    """The page lists what the name of a pickle ends in."""
    assert f"`{suffix}`" in TEXT


@pytest.mark.parametrize(("command", "expected"), SHOWN)
def test_output_is_what_the_command_prints(command, expected, tmp_path, monkeypatch):
    """What stands under a command is what it prints for a file of torchao 0.4."""
    shutil.copyfile(OLD, tmp_path / "old.pt")
    monkeypatch.chdir(tmp_path)
    assert call(*command.split()).stdout == expected


def test_some_output_is_shown():
    """The page shows the output of a command."""
    assert SHOWN


def test_keys_of_the_report_are_told():
    """The page has the keys of a report, and of each tensor in it."""
    report = upgrade_checkpoint(OLD, None, dry_run=True).to_dict()
    section = TEXT.split("### The report")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (`.+?) \|", section, re.MULTILINE)
    told = {key for row in rows for key in re.findall(r"`(\w+)`", row)}
    assert told == report.keys() | report["tensors"][0].keys()
    assert all(f"`{key}`" in section for key in report["tensors"][0]["origin"])


@pytest.mark.parametrize(
    ("releases", "expected"),
    [
        (["0.12"], "0.12"),
        (["0.9", "0.10 to 0.16"], "0.9 to 0.16"),
        (["0.15 and later", "0.14"], "0.14 and later"),
    ],
)
def test_ranges_of_releases_are_joined(releases, expected):
    """Modules that a class lay in one after the other give one range of releases."""
    assert span(releases) == expected
