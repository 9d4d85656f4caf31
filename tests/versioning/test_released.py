"""What a release has fixed stays as it is, and nobody forgets a release."""

import json

import attrs
import pytest

from qconfig.versioning.released import (
    Tree,
    digest,
    findings,
    lock_text,
    parse_lock,
    release_order,
    snapshot_text,
    writable,
)
from qconfig.versioning.schema import schema_text
from tests.regenerate import SCHEMAS, package_version, schema_tree


def test_the_repository_keeps_the_rules():
    """Schema files, snapshots and lock of this repository break no rule."""
    assert [str(finding) for finding in findings(schema_tree(), package_version())] == []


def test_lock_is_what_sha256sum_writes():
    """The lock file can be checked with sha256sum."""
    text = (SCHEMAS / "released" / "SHA256SUMS").read_text("utf-8")
    assert lock_text(parse_lock(text)) == text


def schema(**fields):
    """Return a small closed schema with these fields."""
    return {"type": "object", "properties": fields, "required": [], "additionalProperties": False}


OLD = schema(a={"type": "integer", "default": 1})
WIDER = schema(a={"type": "integer", "default": 1}, b={"type": "string", "default": ""})
OTHER = schema(a={"type": "string", "default": "1"})
V1, V2 = "sample/v1.json", "sample/v2.json"


def tree(*, generated, files=None, current=(V1,), released=None):
    """Return a tree whose files follow the classes and whose lock is right, unless said."""
    snapshots = {
        release: snapshot_text(release, schemas).encode()
        for release, schemas in (released or {}).items()
    }
    texts = {path: schema_text(s).encode() for path, s in (files or generated).items()}
    lock = {release: digest(text) for release, text in snapshots.items()}
    return Tree(texts, generated, frozenset(current), snapshots, lock)


def messages(tree, version="1.0.dev0"):
    """Return the findings as text."""
    return [str(finding) for finding in findings(tree, version)]


def test_release_without_snapshot():
    """A version that is not a development one needs a snapshot; the finding says how to make it."""
    assert messages(tree(generated={V1: OLD}), "1.0") == [
        "schemas/released/1.0.json: release 1.0 has no snapshot; run: python -m tests.regenerate"
    ]


def test_development_version_needs_no_snapshot():
    """Between releases, a .dev version is fine without one."""
    assert messages(tree(generated={V1: OLD}), "1.1.dev0") == []


def test_changed_snapshot():
    """A snapshot that differs from its checksum is a finding."""
    good = tree(generated={V1: OLD}, released={"1.0": {V1: OLD}})
    text = good.snapshots["1.0"].replace(b'"default": 1', b'"default": 1 ')
    assert messages(attrs.evolve(good, snapshots={"1.0": text})) == [
        "schemas/released/1.0.json: a released snapshot has changed; restore it from git"
    ]


def test_lost_snapshot():
    """A snapshot that the lock knows and that is gone is a finding."""
    good = tree(generated={V1: OLD}, released={"1.0": {V1: OLD}})
    assert messages(attrs.evolve(good, snapshots={})) == [
        "schemas/released/1.0.json: a released snapshot is gone; restore it from git"
    ]


def test_snapshot_that_is_not_locked():
    """A snapshot without a checksum is a finding."""
    good = tree(generated={V1: OLD}, released={"1.0": {V1: OLD}})
    assert messages(attrs.evolve(good, lock={})) == [
        (
            "schemas/released/1.0.json: the snapshot is not in SHA256SUMS; "
            "run: python -m tests.regenerate"
        )
    ]


def test_version_without_a_file():
    """A registered version without a schema file is a finding."""
    good = tree(generated={V1: OLD})
    assert messages(attrs.evolve(good, files={})) == [
        (
            "schemas/sample/v1.json: a registered version has no schema file; "
            "run: python -m tests.regenerate"
        )
    ]


def test_file_that_is_out_of_date():
    """A file that differs from its class is a finding while the version is current."""
    assert messages(tree(generated={V1: WIDER}, files={V1: OLD})) == [
        "schemas/sample/v1.json: the file differs from the class; run: python -m tests.regenerate"
    ]


def test_file_without_a_class():
    """A schema file that no class stands behind is a finding."""
    assert messages(tree(generated={V1: OLD}, files={V1: OLD, V2: OLD})) == [
        "schemas/sample/v2.json: no class is registered for this file"
    ]


def test_compatible_change_of_a_current_version():
    """A current version may get an optional field after a release."""
    assert messages(tree(generated={V1: WIDER}, released={"1.0": {V1: OLD}})) == []


def test_breaking_change_of_a_current_version():
    """A current version that breaks documents of a release needs a new version."""
    assert messages(tree(generated={V1: OTHER}, released={"1.0": {V1: OLD}})) == [
        (
            "schemas/sample/v1.json: differs from 1.0: /properties/a/type: type integer became "
            "string (changed-type); make a new version of the class instead"
        ),
        (
            "schemas/sample/v1.json: differs from 1.0: /properties/a: default of a changed from "
            "1 to '1': documents that leave it out change their meaning (changed-default); make "
            "a new version of the class instead"
        ),
    ]


def test_every_release_counts():
    """A field that release 1.1 added and that is gone again breaks 1.1, though not 1.0."""
    released = {"1.0": {V1: OLD}, "1.1": {V1: WIDER}}
    assert messages(tree(generated={V1: OLD}, released=released)) == [
        (
            "schemas/sample/v1.json: differs from 1.1: /properties/b: field b is gone "
            "(removed-field); make a new version of the class instead"
        )
    ]


def test_retired_version_keeps_its_file():
    """The file of a retired version differs from its last snapshot not even in a compatible way."""
    changed = tree(generated={V1: WIDER, V2: OTHER}, current=(V2,), released={"1.0": {V1: OLD}})
    assert messages(changed) == [
        "schemas/sample/v1.json: is retired and differs from 1.0; restore it from git"
    ]


def test_retired_class_may_accept_more():
    """A class of a retired version may accept more than its file, where a shared enum grew."""
    assert (
        messages(
            tree(
                generated={V1: WIDER, V2: OTHER},
                files={V1: OLD, V2: OTHER},
                current=(V2,),
                released={"1.0": {V1: OLD}},
            )
        )
        == []
    )


def test_retired_class_must_not_accept_less():
    """A class of a retired version that refuses what its file allows is a finding."""
    assert messages(
        tree(
            generated={V1: OTHER, V2: OTHER},
            files={V1: OLD, V2: OTHER},
            current=(V2,),
            released={"1.0": {V1: OLD}},
        )
    )[0] == (
        "schemas/sample/v1.json: the class of a retired version has changed: "
        "/properties/a/type: type integer became string (changed-type)"
    )


def test_released_version_that_is_gone():
    """A version that a release had must stay registered, with its file."""
    assert messages(tree(generated={V2: OTHER}, current=(V2,), released={"1.0": {V1: OLD}})) == [
        "schemas/sample/v1.json: released with 1.0, and gone now; restore file and class"
    ]


@pytest.mark.parametrize(
    ("generated", "current", "expected"),
    [
        ({V1: WIDER}, (V1,), {V1}),
        ({V1: OTHER}, (V1,), set()),
        ({V1: WIDER, V2: OTHER}, (V2,), {V2}),
    ],
)
def test_what_may_be_written(generated, current, expected):
    """Regenerating writes new files and compatible changes, never what a release fixed."""
    subject = tree(
        generated=generated, files={V1: OLD}, current=current, released={"1.0": {V1: OLD}}
    )
    assert set(writable(subject)) == expected


def test_releases_are_ordered_by_number():
    """Release 0.10 comes after 0.9."""
    assert sorted(["0.10.0", "0.9.1", "0.9.0"], key=release_order) == ["0.9.0", "0.9.1", "0.10.0"]


def test_snapshot_holds_the_schemas():
    """A snapshot names its release and holds every schema by path."""
    assert json.loads(snapshot_text("1.0", {V2: OTHER, V1: OLD})) == {
        "release": "1.0",
        "schemas": {V1: OLD, V2: OTHER},
    }
