"""Each call that changes a file fails in each way; then the same run goes through."""

from typing import Any

import pytest

from tests.faults.calls import Kind
from tests.faults.operations import NEW_SHARDS, OPERATIONS

REFUSED = (Kind.NO_SPACE, Kind.IO, Kind.INTERRUPTED, Kind.LATE)
RARE = (Kind.QUOTA, Kind.READ_ONLY)
SHORT = (Kind.SHORT, Kind.SHORT_THEN_FULL)
LASTING = (Kind.FULL, Kind.DEAD)
STOPPED = tuple(kind for kind in Kind if kind.stops)
KILLED = tuple(kind for kind in Kind if kind.kills)
OF_ALL = (REFUSED, SHORT, LASTING, STOPPED)
OF_ONE = (RARE, KILLED)


def sweep(operation: str, kinds: tuple[Kind, ...], **settings: Any) -> Any:
    """Return a parameter of tests: what the server is asked for, with a name for it."""
    asked = {"what": "every_call", "operation": operation, "kinds": kinds, **settings}
    return pytest.param(asked, id="-".join([operation, *kinds]).replace(" ", "_"))


def test_groups_are_all_kinds():
    """No way to fail is left out."""
    assert sorted(kind for kinds in OF_ALL + OF_ONE for kind in kinds) == sorted(Kind)


@pytest.mark.parametrize(
    "asked",
    [sweep(name, kinds) for name in OPERATIONS if name != NEW_SHARDS for kinds in OF_ALL]
    + [sweep("quantize", kinds) for kinds in OF_ONE]
    + [sweep(NEW_SHARDS, (Kind.IO,))],
)
def test_every_call(reply):
    """The source stays, the target is whole or absent, and a second run ends as if nothing was."""
    assert reply["wrong"] == []
    assert reply["calls"] > 40
    assert reply["struck"] > 20


@pytest.mark.parametrize(
    "asked",
    [sweep(name, (Kind.IO, Kind.STOP_BEFORE), parents="a/b") for name in ("quantize", "save")],
)
def test_parents_that_are_missing(reply):
    """The same holds where the folders above the target have to be made."""
    assert reply["wrong"] == []


@pytest.mark.parametrize(
    "asked",
    [
        sweep("quantize", (Kind.NO_SPACE, Kind.LATE), jobs=2),
        sweep("upgrade", (Kind.DEAD, Kind.STOP_BEFORE), jobs=2),
        sweep("convert", (Kind.KILL_AFTER,), jobs=2),
    ],
)
def test_threads(reply):
    """The same holds for two threads, of whichever call happens to have the number."""
    assert reply["wrong"] == []
    assert reply["struck"] > 10
