"""docs/hostile-files.md says what readers do: its tables, and what they are made from."""

import importlib.metadata
import warnings

import pytest

from qconfig.errors import InexactWarning
from tests.docs.hostile_table import (
    PAGE,
    PEERS,
    TABLES,
    baseline,
    differs,
    marked,
    measured,
    reason,
    reasons,
)
from tests.hostile.reader_cases import cases
from tests.hostile.readers import OURS, TAKES
from tests.repository.sources import ROOT

TEXT = PAGE.read_text(encoding="utf-8")
STORED = baseline()
INSTALLED = ("safetensors", "torchao")


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_the_baseline(name):
    """A table is made from the baseline: python -m tests.docs.hostile_table."""
    found = marked(name, TEXT)
    assert found is not None
    assert found[1].splitlines() == list(TABLES[name]())


def test_the_baseline_is_what_readers_do():
    """What qconfig and the installed libraries do with each input is what the page says."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InexactWarning)
        found = measured()
    stored = {
        key: {n: v for n, v in each.items() if n in (OURS, *INSTALLED)}
        for key, each in STORED["verdicts"].items()
    }
    assert found == stored


@pytest.mark.parametrize("name", INSTALLED)
def test_a_release_is_the_installed_one(name):
    """The page names the release of a library that was measured here."""
    assert STORED["releases"][name] == importlib.metadata.version(name)


def test_every_library_was_measured():
    """Each library has a release and a verdict on the sound checkpoint or config: it takes it."""
    assert {*STORED["releases"]} == {*PEERS}
    sound = [each for key, each in STORED["verdicts"].items() if key.endswith("nothing wrong")]
    assert {said for each in sound for said in each.values()} == {TAKES}
    assert {name for each in sound for name in each} == {OURS, *PEERS}


@pytest.mark.parametrize(
    "case", [c for c in cases() if differs(STORED["verdicts"][c.key])], ids=lambda c: c.key
)
def test_a_difference_has_a_reason(case):
    """Where a library differs from us the page says why we do what we do."""
    assert reason(case).endswith(".")


def test_no_reason_is_left_over():
    """What is given as a reason is shown."""
    shown = {reason(case) for case in cases() if differs(STORED["verdicts"][case.key])}
    assert {*reasons().values()} == shown


def test_keys_are_unique():
    """Each case has a name of its own in the baseline."""
    keys = [case.key for case in cases()]
    assert len(keys) == len({*keys})


def test_the_page_is_linked():
    """The index lists the page."""
    assert f"\n{PAGE.stem}\n" in (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
