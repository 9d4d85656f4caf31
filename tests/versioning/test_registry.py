"""The registry: identities, versions, steps."""

from threading import Event, Thread
from time import sleep
from typing import Any, cast

import pytest
from attrs import frozen

from qconfig.configs import Int8WeightOnlyConfig
from qconfig.errors import (
    FieldError,
    MigrationError,
    NewerVersionError,
    RegistrationError,
    UnknownNameError,
)
from qconfig.migrations.int8_weight_only_config import Int8WeightOnlyConfigV1
from qconfig.versioning import Config, Entry, Kind, Registry, registry
from qconfig.versioning.names import snake_name


@frozen
class SampleV1(Config):
    """First form."""

    size: int = 1


@frozen
class Sample(Config):
    """Second form."""

    length: int = 1


@frozen
class Other(Config):
    """Another name."""


@frozen
class Fresh(Config):
    """Registered nowhere."""


class NoAttrs(Config):
    """Not an attrs class."""


def rename(old: SampleV1) -> Sample:
    """Rename size."""
    return Sample(old.size)


def untyped(old):
    """Say nothing about classes."""


@pytest.fixture
def small():
    """A registry of its own, with two versions of one name."""
    own = Registry()
    own.add("Sample", 1, Kind.CONFIG, SampleV1)
    own.add("Sample", 2, Kind.CONFIG, Sample)
    own.add("Other", 1, Kind.CONFIG, Other)
    return own


def test_newest_version_is_the_default():
    """Without a version the newest is meant."""
    assert registry.get("Int8WeightOnlyConfig").cls is Int8WeightOnlyConfig


def test_unknown_name_names_the_nearest():
    """A slip in a name gives an error with the name that was meant."""
    with pytest.raises(UnknownNameError) as caught:
        registry.get("Int8WeightOnlyConfg", 1)
    assert str(caught.value) == (
        "/type: unknown type\n"
        "  found: 'Int8WeightOnlyConfg'\n"
        "  expected: a registered name\n"
        "  hint: did you mean 'Int8WeightOnlyConfig'?"
    )


@pytest.mark.parametrize("name", [None, 3, ["Int8WeightOnlyConfig"], {}])
def test_name_of_another_type_is_unknown(name):
    """A name that is no string is unknown, and nothing else happens."""
    with pytest.raises(UnknownNameError):
        registry.get(name)


def test_newer_version_gives_the_supported_range():
    """A version of the future gives its own error, with the versions that can be read."""
    with pytest.raises(NewerVersionError) as caught:
        registry.get("Int8WeightOnlyConfig", 99)
    assert str(caught.value) == (
        "/version: Int8WeightOnlyConfig version 99 is newer than this qconfig\n"
        "  found: 99\n"
        "  expected: Int8WeightOnlyConfig version 1 to 3\n"
        "  hint: upgrade qconfig"
    )
    assert caught.value.exit_code == 4


@pytest.mark.parametrize("version", [0, -1, "2", 2.0, True])
def test_version_is_a_positive_integer(version):
    """A version that is no positive integer is wrong, not newer."""
    with pytest.raises(FieldError):
        registry.get("Int8WeightOnlyConfig", version)


def test_class_that_is_not_registered_has_no_entry():
    """Asking for the entry of a class that nobody registered is an error."""
    with pytest.raises(UnknownNameError, match="class is not registered"):
        registry.entry_of(SampleV1)


def test_identity_is_taken_once(small):
    """Two classes cannot have one name and version."""
    with pytest.raises(RegistrationError) as caught:
        small.add("Sample", 2, Kind.CONFIG, Other)
    assert str(caught.value) == (
        "Sample v2 cannot be registered\n"
        "  found: 'Other'\n"
        "  expected: a version from 1 that is not taken"
    )


def test_only_attrs_classes_are_registered(small):
    """A class without attrs is refused with the cure."""
    with pytest.raises(RegistrationError, match=r"hint: add @attrs\.frozen"):
        small.add("NoAttrs", 1, Kind.CONFIG, NoAttrs)


def test_step_is_found_by_its_annotations(small):
    """A step converts an object of the class that its annotation names."""
    small.add_step(rename, None)
    assert small.convert(SampleV1(7)) == Sample(7)


def test_step_exists_once(small):
    """A second step for one edge is refused: two branches cannot both define it."""
    small.add_step(rename, None)
    with pytest.raises(RegistrationError, match="two steps for Sample v1 -> Sample v2"):
        small.add_step(rename, None)


def test_step_needs_annotations(small):
    """A step without annotations is refused."""
    with pytest.raises(RegistrationError, match="untyped needs the form"):
        small.add_step(untyped, None)


def test_missing_step_is_named(small):
    """Where no step was written, the error says which edge is missing."""
    with pytest.raises(MigrationError, match="there is no step from Sample v2 to v1"):
        small.convert(Sample(), 1)


def test_missing_step_forward_is_a_mistake_of_its_author(small):
    """A document cannot help that the step to the present was never written."""
    message = "there is no step from Sample v1 to v2"
    with pytest.raises(RegistrationError, match=message):
        small.convert(SampleV1())
    with pytest.raises(RegistrationError, match=message):
        small.check_chains()


def test_gap_in_a_chain_is_found(small):
    """Versions 1, 2 and 4 do not make a chain."""
    small.add_step(rename, None)
    small.check_chains()
    small.add("Sample", 4, Kind.CONFIG, Fresh)
    with pytest.raises(RegistrationError, match="Sample has no version 3"):
        small.check_chains()


def test_step_keeps_to_its_annotation(small):
    """A step that returns another class than it declares is caught before the next one."""

    def forget(old: SampleV1) -> Sample:
        return cast("Any", old)

    small.add_step(forget, None)
    with pytest.raises(RegistrationError, match="step Sample v1 -> Sample v2 returns another"):
        small.convert(SampleV1())


@pytest.mark.parametrize(
    ("name", "version", "message"),
    [
        (5, 1, "not a name for a class"),
        ("", 1, "not a name for a class"),
        ("../Other", 1, "not a name for a class"),
        ("Ot her", 1, "not a name for a class"),
        ("Fresh", "1", "Fresh v1 cannot be registered"),
        ("Fresh", True, "Fresh vTrue cannot be registered"),
        ("Fresh", 1.0, "Fresh v1.0 cannot be registered"),
        ("Fresh", 0, "Fresh v0 cannot be registered"),
        ("sample", 1, "sample and Sample would share the file sample"),
    ],
)
def test_identity_is_a_name_and_a_number(small, name, version, message):
    """A name is a word, whose file no other name has; a version is an integer from 1."""
    with pytest.raises(RegistrationError, match=message):
        small.add(name, version, Kind.CONFIG, Fresh)


def test_class_has_one_identity(small):
    """A class under two names would be written under one of them by chance."""
    with pytest.raises(RegistrationError, match="Sample is registered already"):
        small.add("Second", 1, Kind.CONFIG, Sample)


def test_name_stays_of_one_kind(small):
    """A config cannot become a layout in its next version."""
    with pytest.raises(RegistrationError, match="Sample is a config"):
        small.add("Sample", 3, Kind.LAYOUT, Fresh)


def test_step_with_unknown_annotations_is_refused(small):
    """An annotation that names nothing is a mistake in the registration, not a NameError."""

    def lost(old: SampleV1):
        pass

    lost.__annotations__["return"] = "Nowhere"
    with pytest.raises(RegistrationError, match="annotations of a step cannot be read"):
        small.add_step(lost, None)


def test_failed_loading_fails_again(small):
    """After a failure the registry does not pass for complete: every lookup says what was wrong."""

    def loader():
        raise RegistrationError("plug-in broken")

    small.on_first_use(loader)
    for _ in range(2):
        with pytest.raises(RegistrationError, match="plug-in broken"):
            small.get("Sample")


def test_threads_wait_for_the_loader(small):
    """While one thread fills the registry, another does not see a part of it."""
    started, found = Event(), []

    def loader():
        started.set()
        sleep(0.05)
        small.add("Fresh", 1, Kind.CONFIG, Fresh)

    small.on_first_use(loader)
    first = Thread(target=small.get, args=("Fresh",))
    second = Thread(target=lambda: started.wait() and found.append(small.get("Fresh").name))
    for thread in (first, second):
        thread.start()
    for thread in (first, second):
        thread.join()
    assert found == ["Fresh"]


def test_version_of_any_length_is_refused(small):
    """A version with more digits than Python prints is a newer version like any other."""
    with pytest.raises(NewerVersionError, match="Sample version an int too long to print"):
        small.get("Sample", 10**5000)


def test_loader_runs_once_and_late(small):
    """What fills the registry runs before the first lookup, and only then."""
    calls = []
    small.on_first_use(lambda: calls.append(1))
    assert not calls
    small.get("Sample")
    small.get("Sample")
    assert calls == [1]


def test_every_edge_has_exactly_one_step():
    """Each version that is not current has its one step: to the next, or to another name."""
    forward = [
        step.source
        for step in registry.steps()
        if step.source.name != step.target.name or step.source.version < step.target.version
    ]
    expected = [entry for entry in registry.entries() if not registry.is_current(entry)]
    assert sorted(forward, key=str) == sorted(expected, key=str)


def test_versions_have_no_holes():
    """The versions of a name are 1, 2, 3, … without a gap."""
    for name in {entry.name for entry in registry.entries()}:
        found = [entry.version for entry in registry.versions(name)]
        assert found == list(range(1, len(found) + 1))


@pytest.mark.parametrize(
    "step", list(registry.steps()), ids=lambda s: f"{s.source}-{s.target.version}"
)
def test_step_says_what_it_does(step):
    """Each step has a docstring, and either is lossless or says what it drops."""
    assert step.doc.endswith(".")
    assert step.lossless or step.drops


def test_retired_class_is_named_after_its_version():
    """A class that is no longer current carries its version in its name and lies in migrations."""
    for entry in registry.entries():
        if not registry.is_current(entry):
            assert entry.cls.__name__ == f"{entry.name}V{entry.version}"
            assert entry.cls.__module__ == f"qconfig.migrations.{snake_name(entry.name)}"


def test_convert_leaves_the_old_object_alone():
    """An upgrade makes a new object and does not touch the old one."""
    old = Int8WeightOnlyConfigV1(group_size=32)
    registry.convert(old)
    assert old == Int8WeightOnlyConfigV1(group_size=32)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("FqnToConfig", "fqn_to_config"),
        ("Int8TensorLayout", "int8_tensor_layout"),
        ("NVFP4TensorLayout", "nvfp4_tensor_layout"),
        ("MXTensorLayout", "mx_tensor_layout"),
        ("AWQConfig", "awq_config"),
    ],
)
def test_file_names(name, expected):
    """Names become folder names word by word, abbreviations in one piece."""
    assert snake_name(name) == expected


def test_no_two_names_share_a_folder():
    """Schemas and golden files of two names never lie in one folder."""
    names = {entry.name for entry in registry.entries()}
    assert len({snake_name(name) for name in names}) == len(names)


def test_entry_in_words():
    """An entry shows its name and version."""
    assert str(Entry("Sample", 2, Kind.CONFIG, Sample)) == "Sample v2"
