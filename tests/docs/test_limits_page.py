"""docs/limits.md says what `Limits` holds."""

import attrs

from qconfig.limits import Limits
from tests.docs.limits_table import NAME, PAGE, marked, meanings, rows


def test_the_table_is_made_from_the_class():
    """The table has every bound: python -m tests.docs.limits_table."""
    found = marked(NAME, PAGE.read_text(encoding="utf-8"))
    assert found is not None
    assert found[1].splitlines() == [*rows()]


def test_every_bound_is_described():
    """The docstring of the class says what each field bounds."""
    assert [*meanings()] == [field.name for field in attrs.fields(Limits)]
