"""What the author of a class hears before the first document is read."""

from collections.abc import Callable, Mapping
from datetime import datetime
from enum import Enum, IntEnum, StrEnum
from typing import Any, Literal

import attrs
import pytest
from attrs import frozen

from qconfig.configs import FqnToConfig, PerRow, Rule
from qconfig.errors import FieldError, RegistrationError
from qconfig.versioning import Config, Entry, Kind, attribute
from qconfig.versioning.class_check import check_class


class Numbers(IntEnum):
    ONE = 1


class Mixed(Enum):
    ONE = 1
    TWO = "two"


class Words(StrEnum):
    ONE = "one"


@frozen
class Unregistered:
    """A value that nobody registered."""


def entry(annotation, **field):
    """Return a config with one field, as if it were registered."""
    body = {"__annotations__": {"field": annotation}, "field": attribute("A field.", **field)}
    cls = frozen(type("Sample", (Config,), body | {"__doc__": "A sample."}))
    return Entry("Sample", 1, Kind.CONFIG, cls)


@pytest.mark.parametrize(
    "annotation",
    [
        bool,
        "int",
        float | None,
        Words,
        PerRow,
        Config,
        Literal["a", 1] | None,
        tuple[tuple[int, ...], ...],
        dict[str, Config | None],
    ],
)
def test_types_that_documents_hold(annotation):
    """The types that the manual names are accepted, as strings too."""
    check_class(entry(annotation))


@pytest.mark.parametrize(
    "annotation",
    [
        Any,
        bytes,
        complex,
        datetime,
        list[int],
        set[int],
        tuple[int, int],
        tuple,
        dict[int, int],
        Mapping[str, int],
        Callable,
        int | str,
        PerRow | int,
        Numbers,
        Mixed,
        Literal[Words.ONE],
        Unregistered,
        Unregistered | None,
    ],
)
def test_types_that_documents_do_not_hold(annotation):
    """A type for which there is no rule is refused, where a library would guess or crash."""
    with pytest.raises(RegistrationError, match="documents cannot hold a field of this type") as e:
        check_class(entry(annotation))
    assert e.value.fqn == "Sample v1.field"


def test_annotations_that_name_nothing():
    """A name that is imported for type checkers only is reported with its cure."""
    with pytest.raises(RegistrationError, match="annotations of Sample cannot be read") as caught:
        check_class(entry("Nowhere"))
    assert "TYPE_CHECKING" in caught.value.hint


@pytest.mark.parametrize(
    ("annotation", "bounds", "message"),
    [
        (str, {"minimum": 1}, "a minimum is for integer or number, not for string"),
        (int, {"pattern": "a"}, "a pattern is for string, not for integer"),
        (int, {"min_length": 1}, "only strings, tuples and mappings have a length"),
        (str, {"pattern": "("}, "its pattern is no regular expression"),
    ],
)
def test_bounds_fit_their_type(annotation, bounds, message):
    """A bound that the values cannot be compared with is refused before a value comes."""
    with pytest.raises(RegistrationError, match=message):
        check_class(entry(annotation, **bounds))


@pytest.mark.parametrize("bounds", [{"min_length": 1}, {"max_length": 3}])
@pytest.mark.parametrize("annotation", [str, tuple[int, ...], dict[str, int], str | None])
def test_lengths(annotation, bounds):
    """Strings, tuples and mappings have a length, optional ones too."""
    check_class(entry(annotation, **bounds))


@pytest.mark.parametrize("default", [{}, {"factory": tuple}])
def test_added_fields_have_a_default_to_leave_out(default):
    """Readers of the first release of a version know nothing of the field."""
    with pytest.raises(RegistrationError, match="an added field needs a default"):
        entry(tuple[int, ...], added=True, **default)


@pytest.mark.parametrize("default", [{}, {"factory": tuple}])
def test_incidental_fields_have_a_default(default):
    """What a builder stores has it, whatever a config says."""
    with pytest.raises(RegistrationError, match="an incidental field needs a default"):
        entry(tuple[int, ...], incidental=True, **default)


def test_default_depends_on_no_other_field():
    """A default that is computed from other fields cannot stand in a schema."""
    default = attrs.Factory(lambda self: self.other, takes_self=True)
    with pytest.raises(RegistrationError, match="a default cannot depend on other fields"):
        check_class(entry(int, default=default))


def test_annotations_in_strings_are_checked_too():
    """A class of a module with `from __future__ import annotations` refuses wrong values, too."""
    cls = entry("int").cls
    assert cls(1).field == 1
    with pytest.raises(FieldError, match="field has a wrong type"):
        cls("1")


@frozen
class Tagged(Config):
    """A config with a field that is called like a tag."""

    type: str = attribute("Taken.", default="a")


@frozen
class Private(Config):
    """A config whose constructor takes the field under another name."""

    _size: int = attribute("Private.", default=1)


@frozen
class Computed(Config):
    """A config whose constructor does not take the field."""

    size: int = attrs.field(init=False, default=1)


@pytest.mark.parametrize(
    ("cls", "message"),
    [
        (Tagged, "documents have a key of this name already"),
        (Private, "the constructor does not take the field under its own name"),
        (Computed, "the constructor does not take the field under its own name"),
    ],
)
def test_names_of_fields(cls, message):
    """A field has a name that documents have room for and the constructor takes."""
    with pytest.raises(RegistrationError, match=message):
        check_class(Entry(cls.__name__, 1, Kind.CONFIG, cls))


def test_untagged_values_may_have_a_type():
    """What documents do not tag has the name free."""
    check_class(Entry("Tagged", 1, Kind.VALUE, Tagged, tagged=False))


@pytest.mark.parametrize("cls", [FqnToConfig, Rule, PerRow])
def test_our_own_pass(cls):
    """Our own classes are like this."""
    kind = Kind.CONFIG if issubclass(cls, Config) else Kind.VALUE
    check_class(Entry(cls.__name__, 1, kind, cls, tagged=cls is not Rule))
