"""Every file of the collection is read as well as it ever was; see `load_table` here.

Without the collection beside the repository the rows are skipped; what the docs say of them is
checked against the baseline all the same.
"""

import pytest

from tests.compatibility.load_docs import PAGE, README, baseline, page_table, put, readme_text
from tests.compatibility.load_table import RANKS, artifacts, row_of

ROWS = baseline()
FILES = list(artifacts())
# Other processors and numbers of threads sum in another order.
_SLACK = 2


@pytest.mark.skipif(not FILES, reason="the collection of real files is not beside the repository")
@pytest.mark.parametrize("artifact", FILES, ids=lambda a: f"{a.release}/{a.name}")
def test_no_row_worsens(artifact) -> None:
    """A file is in the state of the baseline or a better one, as near, and never wrong."""
    row = row_of(artifact)
    before, _, gap = ROWS.get(artifact.release, {}).get(artifact.name, ("refused", "", 1.0))
    assert RANKS.index(row.state) >= max(RANKS.index(before), RANKS.index("refused")), row.detail
    assert row.gap <= _SLACK * gap, row.detail


def test_no_file_of_the_baseline_has_wrong_numbers() -> None:
    """The baseline holds files that are equal, bounded, or refused; none is wrong."""
    assert {state for each in ROWS.values() for state, _, _ in each.values()} <= set(RANKS[1:])


def test_the_page_shows_the_table() -> None:
    """The page on old checkpoints has the numbers of the baseline."""
    text = PAGE.read_text("utf-8")
    assert put(PAGE, "load table", "\n".join(page_table(ROWS))) == text
    assert page_table(ROWS)[-1] in text


def test_the_readme_has_the_totals() -> None:
    """So has the README."""
    text = README.read_text("utf-8")
    assert put(README, "load totals", readme_text(ROWS)) == text
    assert readme_text(ROWS) in text
