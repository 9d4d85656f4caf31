"""Names that end: the last version has a step to another name."""

import pytest
from attrs import frozen

from qconfig.errors import RegistrationError
from qconfig.versioning import Config, Kind, Registry


@frozen
class OldV1(Config):
    """First form of a name that ends."""

    size: int = 1


@frozen
class OldV2(Config):
    """Last form of a name that ends."""

    size: int = 1


@frozen
class NewV1(Config):
    """First form of the name that goes on."""

    length: int = 1


@frozen
class New(Config):
    """Second form of the name that goes on."""

    length: int = 1
    unit: str = "m"


@frozen
class Another:
    """A value, which has no chain."""


def keep(old: OldV1) -> OldV2:
    """Keep the size."""
    return OldV2(old.size)


def succeed(old: OldV2) -> NewV1:
    """Call the size length."""
    return NewV1(old.size)


def measure(old: NewV1) -> New:
    """Say the unit."""
    return New(old.length)


def back(old: New) -> OldV1:
    """Go round in a circle."""
    return OldV1(old.length)


def early(old: OldV1) -> NewV1:
    """Leave before the last version."""
    return NewV1(old.size)


def cross(old: OldV2) -> Another:
    """Become a value."""
    return Another()


@pytest.fixture
def small() -> Registry:
    """Return a registry with both names and no steps across."""
    registry = Registry()
    registry.add("Old", 1, Kind.CONFIG, OldV1)
    registry.add("Old", 2, Kind.CONFIG, OldV2)
    registry.add("New", 1, Kind.CONFIG, NewV1)
    registry.add("New", 2, Kind.CONFIG, New)
    registry.add("Another", 1, Kind.VALUE, Another)
    registry.add_step(keep, None)
    registry.add_step(measure, None)
    return registry


def test_a_document_goes_on_under_the_name_that_succeeds(small: Registry) -> None:
    """Converting to what is current passes all steps of both names."""
    small.add_step(succeed, None)
    assert small.convert(OldV1(3)) == New(3)
    path = small.path(small.entry_of(OldV1))
    assert [step.function for step in path] == [keep, succeed, measure]


def test_a_version_of_the_ended_name_can_still_be_asked_for(small: Registry) -> None:
    """A number means a version of the own name, also where the name has ended."""
    small.add_step(succeed, None)
    assert small.convert(OldV1(3), 2) == OldV2(3)


def test_no_version_of_an_ended_name_is_current(small: Registry) -> None:
    """Only the newest of the name that goes on is."""
    small.add_step(succeed, None)
    small.check_chains()
    assert [str(e) for e in small.entries(Kind.CONFIG) if small.is_current(e)] == ["New v2"]
    assert str(small.current(small.entry_of(OldV1))) == "New v2"
    assert str(small.current(small.entry_of(New))) == "New v2"


def test_steps_across_are_among_the_steps(small: Registry) -> None:
    """Whoever lists the steps sees those that end a name."""
    small.add_step(succeed, "the old name")
    assert "Old v2 -> New v1" in [f"{s.source} -> {s.target}" for s in small.steps()]


def test_only_the_last_version_leads_to_another_name(small: Registry) -> None:
    """A name that has a version after the one that ends it is refused."""
    small.add_step(early, None)
    with pytest.raises(RegistrationError, match="Old has versions after the one"):
        small.check_chains()


def test_a_name_ends_once(small: Registry) -> None:
    """A second step across is refused."""
    small.add_step(succeed, None)
    with pytest.raises(RegistrationError, match="two steps for Old v1 -> New v1"):
        small.add_step(early, None)


def test_names_do_not_succeed_each_other(small: Registry) -> None:
    """A circle of names is refused."""
    small.add_step(succeed, None)
    with pytest.raises(RegistrationError, match="New would succeed itself"):
        small.add_step(back, None)


def test_a_config_does_not_become_a_value(small: Registry) -> None:
    """A step across stays among things of one kind that have versions."""
    with pytest.raises(RegistrationError, match="Old v2 -> Another v1 is not an edge"):
        small.add_step(cross, None)
